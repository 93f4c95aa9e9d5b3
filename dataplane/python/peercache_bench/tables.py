"""Results as Markdown tables. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from peercache_bench.case import MOVES
from peercache_bench.figures import PERCENTILES
from peercache_bench.outcome import Outcome, Run
from peercache_bench.units import number

Rows = list[list[str]]


def markdown(header: Sequence[str], rows: Rows) -> str:
    """The first column is text, the others are numbers; it also reads well as it is."""
    cells = [[cell.replace("|", "/") for cell in row] for row in (list(header), *rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]

    def line(row: Sequence[str]) -> str:
        first = row[0].ljust(widths[0])
        rest = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
        return "| " + " | ".join((first, *rest)) + " |"

    rule = "|" + "|".join(
        [f":{'-' * (widths[0] + 1)}", *(f"{'-' * (width + 1)}:" for width in widths[1:])]
    )
    return "\n".join([line(cells[0]), rule + "|", *map(line, cells[1:])])


def rates(outcomes: Sequence[Outcome]) -> str:
    """The cases that move or look up pages, with their limits."""
    header = ["what", "GB/s", "pages/s", "tokens/s", "CPU-s/GB", "hits", "limit", "of it", "wrong"]
    rows = []
    for o in outcomes:
        f = o.figures
        moves = o.case.op in MOVES
        limit = f"{o.limit_name} {number(o.limit.gb_per_s)}" if o.limit else "-"
        rows.append(
            [
                o.case.title,
                number(f.gb_per_s) if moves else "-",
                number(f.pages_per_s),
                number(f.tokens_per_s),
                number(f.cpu_s_per_gb) if moves else "-",
                "-" if o.case.op in ("memcpy", "tcp") else f"{100 * f.hit_ratio:.4g} %",
                limit,
                "-" if o.ratio is None else f"{o.ratio:.2f}",
                _verdict(o),
            ]
        )
    return markdown(header, rows)


def _verdict(o: Outcome) -> str:
    """The number of wrong pages, or that the bytes were not checked."""
    if o.figures.checked:
        return str(o.figures.wrong)
    return "not checked" if o.case.op in ("set", "get") else "-"


def latencies(outcomes: Sequence[Outcome]) -> str:
    """Microseconds of a call."""
    rows = [
        [
            o.case.title,
            number(o.figures.calls),
            number(o.figures.calls_per_s),
            *(number(o.figures.latency_us.get(p, 0)) for p in PERCENTILES),
        ]
        for o in outcomes
    ]
    return markdown(["one call, us", "calls", "calls/s", *PERCENTILES], rows)


def notes(outcomes: Sequence[Outcome]) -> list[str]:
    return [f"{o.case.title}: {note}" for o in outcomes for note in o.notes]


def pairs(values: dict[str, Any]) -> str:
    """A block of names and values."""
    rows = [[name.replace("_", " "), _value(value)] for name, value in values.items()]
    return markdown(["", ""], rows)


def moved(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The outcomes that have pages; the others have latencies only."""
    return [o for o in outcomes if o.figures.pages]


def document(run: Run) -> str:
    """The whole result."""
    parts = [f"# peercache-bench {run.command}{f': {run.tag}' if run.tag else ''}"]
    paged = moved(run.outcomes)
    if paged:
        parts.append(rates(paged))
    parts.append(latencies(run.outcomes))
    found = notes(run.outcomes)
    if found:
        parts.append("\n".join(f"- {note}" for note in found))
    parts += ["## Host", pairs(run.host), "## Configuration", pairs(run.configuration)]
    return "\n\n".join(parts) + "\n"


def _value(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return str(value)

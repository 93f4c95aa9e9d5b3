"""The charts of a run, as data that unit tests can read and draw.py paints. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from peercache_bench.case import MOVES
from peercache_bench.outcome import Outcome, Run
from peercache_bench.units import size_text

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Line:
    label: str
    points: Points
    limit: bool = False  # drawn dashed


@dataclass(frozen=True)
class Chart:
    """Lines over numbers, or bars over names."""

    name: str  # of its file
    title: str
    x_label: str
    y_label: str
    lines: tuple[Line, ...] = ()
    bars: tuple[tuple[str, float], ...] = ()
    targets: tuple[float, ...] = ()  # of the bars, as ticks
    log_x: bool = False
    bytes_x: bool = False  # sizes, shown as 4 KiB


def charts(run: Run) -> list[Chart]:
    """The charts of the run's command, without empty ones."""
    found = _BY_COMMAND.get(run.command, _suite)(run.outcomes)
    return [chart for chart in found if chart.lines or chart.bars]


def name_of(o: Outcome) -> str:
    processes = f", {o.case.processes} processes" if o.case.processes > 1 else ""
    return o.case.name + processes


def _rate(
    outcomes: Sequence[Outcome],
    x: Callable[[Outcome], float],
    name: Callable[[Outcome], str] = name_of,
) -> list[Line]:
    """A line for each name, and for its limit."""
    lines = []
    ordered = sorted(outcomes, key=lambda o: (name(o), x(o)))
    for label, group in groupby(ordered, name):
        members = list(group)
        lines.append(Line(label, [(x(o), o.figures.gb_per_s) for o in members]))
        limits = [(x(o), o.limit.gb_per_s) for o in members if o.limit]
        if limits:
            lines.append(Line(f"{members[0].limit_name} for {label}", limits, limit=True))
    return lines


def _threads(outcomes: Sequence[Outcome]) -> list[Chart]:
    moves = [o for o in outcomes if o.case.op in MOVES]
    asks = [o for o in outcomes if o.case.op == "exists"]
    return [
        Chart(
            "throughput", "Throughput", "engine threads", "GB/s", log_x=True,
            lines=tuple(_rate(moves, lambda o: o.case.engines)),
        ),
        Chart(
            "cpu", "CPU time, all processes together", "engine threads", "CPU-s/GB", log_x=True,
            lines=_grouped(moves, lambda o: o.case.engines, lambda o: o.figures.cpu_s_per_gb),
        ),
        Chart(
            "exists", "Keys asked for", "engine threads", "keys/s", log_x=True,
            lines=_grouped(asks, lambda o: o.case.engines, lambda o: o.figures.pages_per_s),
        ),
    ]  # fmt: skip


def _grouped(
    outcomes: Sequence[Outcome], x: Callable[[Outcome], float], y: Callable[[Outcome], float]
) -> tuple[Line, ...]:
    ordered = sorted(outcomes, key=lambda o: (name_of(o), x(o)))
    return tuple(
        Line(label, [(x(o), y(o)) for o in group]) for label, group in groupby(ordered, name_of)
    )


def _latency(outcomes: Sequence[Outcome]) -> list[Chart]:
    """Share of the calls that took at most so long."""
    lines = []
    for o in outcomes:
        calls, total = 0, sum(n for _, n in o.figures.histogram)
        points: list[tuple[float, float]] = []
        for us, n in o.figures.histogram:
            calls += n
            points.append((us, 100 * calls / total))
        if points:
            lines.append(Line(o.case.title, points))
    return [
        Chart(
            "latency", "Latency of a call", "us", "% of calls that took at most so long",
            lines=tuple(lines), log_x=True,
        )
    ]  # fmt: skip


def _sweep(outcomes: Sequence[Outcome]) -> list[Chart]:
    by_threads = sorted({o.case.threads for o in outcomes})
    return [
        Chart(
            f"sweep-{threads}", f"Page sizes, {threads} thread{'s' if threads > 1 else ''}",
            "page size", "GB/s", log_x=True, bytes_x=True, lines=tuple(_by_size(outcomes, threads)),
        )
        for threads in by_threads
    ]  # fmt: skip


def _by_size(outcomes: Sequence[Outcome], threads: int) -> list[Line]:
    return _rate(
        [o for o in outcomes if o.case.threads == threads and o.case.op in MOVES],
        lambda o: o.case.page_bytes,
        lambda o: f"{o.case.subject} {o.case.transport} {o.case.layout}",
    )


def _async(outcomes: Sequence[Outcome]) -> list[Chart]:
    """One for each operation, layout and size; a line for each way of asking."""

    def what(o: Outcome) -> tuple[str, str, int]:
        return o.case.op, o.case.layout, o.case.page_bytes

    def how(o: Outcome) -> str:
        return f"{o.case.mode} {o.case.window}" if o.case.window else o.case.mode

    found = []
    ordered = sorted(outcomes, key=lambda o: (what(o), o.case.mode, o.case.window, o.case.requests))
    for (op, layout, page_bytes), chosen in groupby(ordered, what):
        lines = tuple(
            Line(label, [(o.case.requests, o.figures.gb_per_s) for o in group])
            for label, group in groupby(chosen, how)
        )
        found.append(
            Chart(
                f"async-{op}-{layout}-{page_bytes}",
                f"{op.upper()} requests of one page of {size_text(page_bytes)}, {layout}",
                "requests outstanding", "GB/s", lines=lines, log_x=True,
            )
        )  # fmt: skip
    return found


def _micro(outcomes: Sequence[Outcome]) -> list[Chart]:
    moves = tuple((o.case.title, o.figures.gb_per_s) for o in outcomes if o.case.op in MOVES)
    calls = tuple((o.case.title, o.figures.calls_per_s) for o in outcomes if o.case.op not in MOVES)
    return [
        Chart("limits", "What moves pages at most", "GB/s", "", bars=moves),
        Chart("requests", "Small requests", "1/s", "", bars=calls),
        *_latency([o for o in outcomes if o.case.op not in MOVES]),
    ]


def _suite(outcomes: Sequence[Outcome]) -> list[Chart]:
    return [*_threads(outcomes), *_latency(outcomes)]


_BY_COMMAND: dict[str, Callable[[Sequence[Outcome]], list[Chart]]] = {
    "latency": _latency,
    "throughput": _threads,
    "saturation": _threads,
    "sweep": _sweep,
    "async": _async,
    "micro": _micro,
}

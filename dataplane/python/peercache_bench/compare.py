"""compare: results of several runs side by side, each beside the limits of its own run."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from peercache_bench import output, tables
from peercache_bench.case import Case
from peercache_bench.charts import Chart
from peercache_bench.errors import BenchError
from peercache_bench.outcome import SCHEMA, Outcome, Run, load
from peercache_bench.units import number

# Not SCHEMA: what compare has written is not compared again.
OWN_SCHEMA = "peercache-bench-compare/1"


def add_command(commands: Any) -> None:
    sub = commands.add_parser(
        "compare", help="results side by side, with ratios to the limits of their own run",
        description="Reads results of the other subcommands; the first is what others are "
        "compared with.",
    )  # fmt: skip
    sub.add_argument("results", nargs="+", type=Path, help="JSON files, or folders of them")
    sub.add_argument(
        "--out-dir", type=Path, default=Path("peercache-bench"), metavar="DIR",
        help="for JSON, Markdown, PNG and HTML (default: peercache-bench)",
    )  # fmt: skip
    sub.add_argument("--tag", default="", help="names this comparison, in files and titles")
    sub.set_defaults(parser=sub, run=_run)


def files_of(paths: Sequence[Path]) -> list[Path]:
    """The files that are named, and of folders the results among their JSON files."""
    found: list[Path] = []
    for path in paths:
        if not path.is_dir():
            found.append(path)
            continue
        results = [file for file in sorted(path.glob("*.json")) if _is_result(file)]
        if not results:
            raise BenchError(f"{path} holds no result of peercache-bench")
        found += results
    return list(dict.fromkeys(found))


def names(paths: Sequence[Path], runs: Sequence[Run]) -> list[str]:
    """One for each run: command and tag, with the folder or a number where these are the same."""
    chosen: list[str] = []
    for path, run in zip(paths, runs, strict=True):
        name = run.name
        if [other.name for other in runs].count(name) > 1:
            name = f"{path.resolve().parent.name}/{name}"
        if name in chosen:
            name = f"{name} {len(chosen) + 1}"
        chosen.append(name)
    return chosen


def cases_of(runs: Sequence[Run]) -> list[Case]:
    """All cases, in the order of the runs; those of several runs first."""
    count: dict[Case, int] = {}
    for run in runs:
        for outcome in run.outcomes:
            count[outcome.case] = count.get(outcome.case, 0) + 1
    return sorted(count, key=lambda case: count[case] < 2)


def found_in(run: Run, case: Case) -> Outcome | None:
    return next((o for o in run.outcomes if o.case == case), None)


def table(titles: Sequence[str], runs: Sequence[Run]) -> str:
    """For each run its rate and the share of its own limit; then the rate against the first's."""
    header = ["what", "unit"]
    for i, title in enumerate(titles):
        header += [title, "of its limit", *(["of the first"] if i else [])]
    rows = []
    for case in cases_of(runs):
        cells: list[str] = []
        first = found_in(runs[0], case)
        unit = "-"
        for i, run in enumerate(runs):
            o = found_in(run, case)
            unit = _unit(o) if o else unit
            cells += [number(o.figures.rate), _share(o.ratio)] if o else ["-", "-"]
            if i:
                cells.append(_share(_against(o, first)))
        rows.append([_describe(case), unit, *cells])
    return tables.markdown(header, rows)


def latency_table(titles: Sequence[str], runs: Sequence[Run]) -> str:
    header = ["p50 / p99 of a call, us", *titles]
    rows = []
    for case in cases_of(runs):
        found = [found_in(run, case) for run in runs]
        cells = [
            f"{number(o.figures.latency_us.get('p50', 0))} / "
            f"{number(o.figures.latency_us.get('p99', 0))}"
            if o
            else "-"
            for o in found
        ]
        rows.append([_describe(case), *cells])
    return tables.markdown(header, rows)


def charts(titles: Sequence[str], runs: Sequence[Run]) -> list[Chart]:
    """Shares of the limits, and rates against the first run's."""
    reached = tuple(
        (f"{_describe(case)} · {title}", o.ratio)
        for case in cases_of(runs)
        for title, run in zip(titles, runs, strict=True)
        if (o := found_in(run, case)) and o.ratio is not None
    )
    found = [Chart("limits", "Share of the limit of the same run", "reached", "", bars=reached)]
    for i, (title, run) in enumerate(zip(titles[1:], runs[1:], strict=True)):
        bars = tuple(
            (_describe(case), against)
            for case in cases_of(runs)
            if (against := _against(found_in(run, case), found_in(runs[0], case))) is not None
        )
        found.append(
            Chart(f"run-{i + 2}", f"{title} against {titles[0]}", "times as fast", "", bars=bars)
        )
    return [chart for chart in found if chart.bars]


def document(tag: str, titles: Sequence[str], runs: Sequence[Run]) -> str:
    parts = [f"# peercache-bench compare{f': {tag}' if tag else ''}"]
    parts += [table(titles, runs), latency_table(titles, runs)]
    for title, run in zip(titles, runs, strict=True):
        parts += [f"## {title}", tables.pairs(run.host), tables.pairs(run.configuration)]
    return "\n\n".join(parts) + "\n"


def _run(arguments: argparse.Namespace) -> int:
    paths = files_of(arguments.results)
    runs = [load(path) for path in paths]
    if len(runs) < 2:
        raise BenchError(f"{paths[0]} is one result; name another one to compare it with")
    titles = names(paths, runs)
    text = document(arguments.tag, titles, runs)
    stem = output.stem(f"compare-{arguments.tag}" if arguments.tag else "compare")
    values = {
        "schema": OWN_SCHEMA,
        "tag": arguments.tag,
        "runs": [{"name": t, **r.to_json()} for t, r in zip(titles, runs, strict=True)],
    }
    warned = [f"{t}: {w}" for t, r in zip(titles, runs, strict=True) for w in output.warnings(r)]
    written = output.write_files(
        stem, f"peercache-bench {stem}", arguments.out_dir, values, text, charts(titles, runs),
        warned,
    )  # fmt: skip
    print(f"{table(titles, runs)}\n\n{latency_table(titles, runs)}")
    for warning in warned:
        print(f"warning: {warning}", file=sys.stderr)
    print(f"\nreport: {written[0]}, and {len(written) - 1} files beside it")
    return 0


def _is_result(path: Path) -> bool:
    try:
        values = json.loads(path.read_text())
    except (OSError, ValueError):
        return False
    return isinstance(values, dict) and values.get("schema") == SCHEMA


def _describe(case: Case) -> str:
    """The title, and the working set, which a comparison needs to be the same."""
    return f"{case.title}, of {case.pages}" if case.op in ("set", "get", "exists") else case.title


def _unit(o: Outcome) -> str:
    if o.figures.gb_per_s:
        return "GB/s"
    return "pages/s" if o.figures.pages_per_s else "1/s"


def _against(o: Outcome | None, first: Outcome | None) -> float | None:
    if o is None or first is None or not first.figures.rate:
        return None
    return o.figures.rate / first.figures.rate


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"

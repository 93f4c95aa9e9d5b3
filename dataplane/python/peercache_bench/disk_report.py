"""What a run of ``disk`` publishes, as data. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from peercache_bench.charts import Chart
from peercache_bench.report import table
from peercache_bench.rows import Row
from peercache_bench.units import size_text


@dataclass(frozen=True)
class Run:
    host: dict[str, Any]
    turns: int
    turn_bytes: int
    seconds: float


def values(rows: Sequence[Row], run: Run) -> dict[str, Any]:
    return {"schema": 1, **asdict(run), "rows": [row.entry() for row in rows]}


def document(rows: Sequence[Row], run: Run) -> str:
    machine = run.host
    return "\n".join(
        [
            "# The disk tier beside its goals",
            "",
            f"{machine['cores']} cores of {machine['cpu']}, kernel {machine['kernel']}, load before"
            f" {machine['load_before']}, {machine['date']}. {run.turns} turns of "
            f"{size_text(run.turn_bytes)} in each lap, {run.seconds:.0f} s in all.",
            "",
            table(list(rows)),
            "",
            "*measured* and *limit* are medians. Each turn has both, and *ratio* is the median of "
            "their ratios. *shown* rows are held to no target.",
            "",
        ]
    )


def _label(row: Row) -> str:
    return f"{row.name} ({'≥' if row.at_least else '≤'} {row.target:.2f})"


def chart(rows: Sequence[Row]) -> Chart:
    return Chart(
        "goals", "The disk tier beside its goals", "measured / limit (tick: target)", "",
        bars=tuple((_label(row), row.ratio) for row in rows),
        targets=tuple(row.target for row in rows),
    )  # fmt: skip

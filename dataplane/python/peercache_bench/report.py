"""The results of a run: a table for the terminal, JSON for machines, a chart for people."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from peercache_bench.host import host
from peercache_bench.rows import Row


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def table(rows: list[Row]) -> str:
    """A Markdown table, which also reads well as it is."""
    limits = [f"{row.limit_name} {_number(median(row.limits))}" for row in rows]
    name, limit = max(46, *(len(r.name) for r in rows)), max(22, *map(len, limits))
    lines = [
        f"| {'what':<{name}} | {'measured':>16} | {'limit':>{limit}} | ratio | {'target':>7} "
        "|       |",
        f"|{'-' * (name + 2)}|{'-' * 17}:|{'-' * (limit + 1)}:|{'-' * 6}:|{'-' * 8}:|-------|",
    ]
    for row, beside in zip(rows, limits, strict=True):
        measured = f"{_number(median(row.values))} {row.unit}"
        target = ("≥ " if row.at_least else "≤ ") + f"{row.target:.2f}"
        verdict = ("ok" if row.passed else "MISS") if row.held else "shown"
        lines.append(
            f"| {row.name:<{name}} | {measured:>16} | {beside:>{limit}} | {row.ratio:>5.2f} "
            f"| {target:>7} | {verdict:<5} |"
        )
    return "\n".join(lines)


def exit_status(rows: Sequence[Row]) -> int:
    """1 when targets are missed; standard error says which."""
    missed = [row.name for row in rows if not row.passed]
    if missed:
        print(f"missed by more than the noise: {', '.join(missed)}", file=sys.stderr)
        return 1
    return 0


def publish(
    rows: list[Row],
    seconds: float,
    folder: Path,
    name: str,
    notes: Sequence[str] = (),
    **more: object,
) -> int:
    """Writes NAME.json, with ``more``, and NAME.png; prints the table and the notes.

    The exit status.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_json(rows, seconds, folder / f"{name}.json", **more)
    write_chart(rows, folder / f"{name}.png")
    print(table(rows), *notes, sep="\n")
    print(f"{seconds:.0f} s in all; also in {folder / name}.json and {name}.png")
    return exit_status(rows)


def write_json(rows: list[Row], seconds: float, path: Path, **more: object) -> None:
    """``seconds``: the duration of the whole run."""
    entries = [row.entry() for row in rows]
    result = {"host": host(), "seconds": round(seconds, 1), "rows": entries, **more}
    path.write_text(json.dumps(result, indent=2) + "\n")


def write_chart(rows: list[Row], path: Path) -> None:
    """A bar for each row: the reached share of its target."""
    import matplotlib as mpl

    mpl.use("Agg")  # no display
    from matplotlib import pyplot as plt

    reached = [r.ratio / r.target if r.at_least else r.target / r.ratio for r in rows]
    colors = [("tab:green" if r.passed else "tab:red") if r.held else "tab:gray" for r in rows]
    figure, axis = plt.subplots(figsize=(9, 0.38 * len(rows) + 1))
    axis.barh([r.name for r in rows], reached, color=colors)
    axis.axvline(1, color="black", linewidth=1)
    axis.set_xlim(0, max(2, min(4, max(reached))))
    axis.set_xlabel("reached / target (right of the line is better)")
    axis.invert_yaxis()
    figure.tight_layout()
    figure.savefig(path, dpi=110)

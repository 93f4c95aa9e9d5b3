"""The tables of published_figures as they are shown: theirs and ours in one layout. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from peercache_bench.charts import Chart, Line
from peercache_bench.published_figures import ELSEWHERE, Cell, Step, Table
from peercache_bench.units import number

# Bytes a second of a step, by Cell.which; or why there are none.
Figures = Mapping[int | str, float]
Measured = Mapping[Step, Figures | str]


def ours(cell: Cell, table: Table, measured: Measured) -> float | None:
    """In the table's unit."""
    found = measured.get(cell.step) if cell.step else None
    if found is None or isinstance(found, str) or cell.which not in found:
        return None
    return found[cell.which] / table.scale


def reason(cell: Cell, measured: Measured) -> str:
    """Why a cell has no figure of ours."""
    if cell.step is None:
        return cell.why
    found = measured.get(cell.step)
    return found if isinstance(found, str) else "it was not measured"


def values(table: Table, measured: Measured, run: Mapping[str, Any]) -> dict[str, Any]:
    cells = []
    for cell in table.cells:
        mine = ours(cell, table, measured)
        entry = {"row": cell.row, "column": cell.column, "theirs": cell.theirs, "ours": mine}
        cells.append(entry if mine is not None else {**entry, "why": reason(cell, measured)})
    return {
        "schema": 1, **run, "table": table.name, "source": table.source, "unit": table.unit,
        "cells": cells,
    }  # fmt: skip


def _text(cell: Cell, table: Table, measured: Measured) -> str:
    mine = ours(cell, table, measured)
    theirs = "" if cell.theirs is None else f"({number(cell.theirs)})"
    if cell.why == ELSEWHERE:
        return theirs
    return " ".join(filter(None, ("-" if mine is None else number(mine), theirs)))


def document(table: Table, measured: Measured, run: Mapping[str, Any]) -> str:
    """Markdown: the document's layout, ours before theirs in brackets; then what is missing."""
    rows = list(dict.fromkeys(cell.row for cell in table.cells))
    columns = list(dict.fromkeys(cell.column for cell in table.cells))
    at = {(cell.row, cell.column): cell for cell in table.cells}
    beside = f", and in brackets what is published of {table.source}" if table.source else ""
    lines = [
        f"# {table.title}", "",
        f"{table.unit}: measured here{beside}. {run['path']}.", "",
        f"| | {' | '.join(columns)} |", f"|---|{'---|' * len(columns)}",
    ]  # fmt: skip
    for row in rows:
        texts = [
            _text(at[row, column], table, measured) if (row, column) in at else ""
            for column in columns
        ]
        lines.append(f"| {row} | {' | '.join(texts)} |")
    missing: dict[str, list[str]] = {}
    for cell in table.cells:
        if ours(cell, table, measured) is None and cell.why != ELSEWHERE:
            what = cell.column if table.down else cell.row
            missing.setdefault(reason(cell, measured), []).append(what)
    if missing:
        lines += ["", "Not measured here:", ""]
        lines += [f"- {', '.join(dict.fromkeys(which))}: {why}" for why, which in missing.items()]
    return "\n".join([*lines, ""])


def _series(cell: Cell, table: Table) -> str:
    if table.x_label:
        return cell.column if table.down else cell.row
    several = len({other.column for other in table.cells}) > 1
    return f"{cell.row}, {cell.column}" if several else cell.row


def chart(table: Table, measured: Measured) -> Chart:
    """Bars where the table has one column, else a line for each series of figures."""
    bars: list[tuple[str, float]] = []
    lines: dict[tuple[str, bool], list[tuple[float, float]]] = {}
    for cell in table.cells:
        name = _series(cell, table)
        for figure, theirs in ((ours(cell, table, measured), False), (cell.theirs, True)):
            if figure is None:
                continue
            bars.append((f"{name} (published)" if theirs else name, figure))
            lines.setdefault((name, theirs), []).append((cell.x, figure))
    if table.x_label == "":
        return Chart(table.name, table.title, table.unit, "", bars=tuple(bars))
    return Chart(
        table.name, table.title, table.x_label, table.unit,
        lines=tuple(
            Line(f"{name} (published)" if theirs else name, tuple(points), limit=theirs)
            for (name, theirs), points in sorted(lines.items())
        ),
        log_x=True, bytes_x=table.x_label == "page",
    )  # fmt: skip

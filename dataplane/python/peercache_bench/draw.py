"""Paints charts with matplotlib, where it is installed."""

from __future__ import annotations

import io
from collections.abc import Sequence

from peercache_bench.charts import Chart
from peercache_bench.units import number, size_text

HINT = "matplotlib is not installed, so there are no charts (pip install matplotlib)"
# More names than this do not fit into a legend.
MOST_NAMES = 14


def can_draw() -> bool:
    try:
        import matplotlib as mpl
    except ImportError:
        return False
    mpl.use("Agg")  # no display
    return True


def image(chart: Chart, kind: str) -> bytes:
    """The chart as a file of the kind png or svg."""
    import matplotlib as mpl
    from matplotlib import pyplot as plt
    from matplotlib.ticker import FuncFormatter

    height = 0.38 * len(chart.bars) + 1.2 if chart.bars else 4.6
    figure, axis = plt.subplots(figsize=(9, height))
    if chart.bars:
        shown = axis.barh([name for name, _ in chart.bars], [value for _, value in chart.bars])
        white = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.5}
        values = [number(value) for _, value in chart.bars]
        axis.bar_label(shown, labels=values, padding=3, bbox=white, zorder=3)
        for at, target in enumerate(chart.targets):
            axis.plot([target, target], [at - 0.4, at + 0.4], color="black", linewidth=2)
        axis.margins(x=0.12)
        axis.invert_yaxis()
    color = "C0"
    for i, line in enumerate(chart.lines):
        color = color if line.limit else f"C{i % 10}"  # a limit looks like the line it bounds
        xs, ys = [x for x, _ in line.points], [y for _, y in line.points]
        dense = len(xs) > 30
        axis.plot(
            xs, ys, label=line.label, linewidth=1.4, color=color,
            linestyle="--" if line.limit else "-", marker="" if line.limit or dense else "o",
        )  # fmt: skip
    if chart.log_x:
        axis.set_xscale("log", base=10 if chart.x_label == "us" else 2)
        show = size_text if chart.bytes_x else number
        ticks = sorted({x for line in chart.lines for x, _ in line.points})
        if len(ticks) <= MOST_NAMES:
            axis.set_xticks(ticks)
            axis.set_xticks([], minor=True)
        axis.xaxis.set_major_formatter(
            FuncFormatter(lambda x, _: show(int(x) if chart.bytes_x else x))
        )
    if chart.lines:
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
        if len(chart.lines) <= MOST_NAMES:
            axis.legend(fontsize=7)
        else:
            axis.legend(fontsize=6, loc="center left", bbox_to_anchor=(1, 0.5))
    axis.set_title(chart.title)
    axis.set_xlabel(chart.x_label)
    axis.set_ylabel(chart.y_label)
    buffer = io.BytesIO()
    # Without a date, and with ids that stay: the same chart is the same file.
    with mpl.rc_context({"svg.hashsalt": chart.name, "svg.fonttype": "none"}):
        metadata = {"Date": None} if kind == "svg" else {}
        figure.savefig(buffer, format=kind, dpi=110, bbox_inches="tight", metadata=metadata)
    plt.close(figure)
    return buffer.getvalue()


def paint(charts: Sequence[Chart], kind: str = "png") -> dict[str, bytes]:
    """Files by the charts' names; empty where nothing can be painted."""
    return {chart.name: image(chart, kind) for chart in charts} if can_draw() else {}

#!/usr/bin/env python3
"""Draws what eviction-replay measured: plot.py RESULTS.json CHART.png

Needs matplotlib (Debian: python3-matplotlib).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")  # no display
from matplotlib import pyplot as plt

CURVES = (
    # key, measure, label, style
    ("best", "page_hit_ratio", "best possible (page hits)", "k:"),
    ("lru", "prefix_hit_ratio", "lru", "C0o-"),
    ("s3fifo", "prefix_hit_ratio", "s3fifo", "C1s-"),
)


def draw(traces: list[dict[str, Any]], path: Path) -> None:
    figure, axes = plt.subplots(
        1, len(traces), figsize=(5.5 * len(traces), 4), sharey=True, squeeze=False
    )
    for axis, trace in zip(axes[0], traces, strict=True):
        shares = [100 * size["share"] for size in trace["sizes"]]
        for key, measure, label, style in CURVES:
            ratios = [100 * size[key][measure] for size in trace["sizes"]]
            axis.plot(shares, ratios, style, label=label)
        axis.set_xscale("log")
        axis.set_xticks(shares, [f"{share:g} %" for share in shares])
        axis.minorticks_off()
        axis.set_title(f"{trace['trace']}: {trace['requests']} requests")
        axis.set_xlabel("pool, share of the distinct pages")
        axis.grid(alpha=0.3)
        axis.legend()
    axes[0][0].set_ylabel("prefix hits, % of pages asked for")
    axes[0][0].set_ylim(0, 100)
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description="Draws what eviction-replay measured.")
    parser.add_argument("results", type=Path)
    parser.add_argument("chart", type=Path)
    arguments = parser.parse_args()
    draw(json.loads(arguments.results.read_text()), arguments.chart)
    print(f"wrote {arguments.chart}")


if __name__ == "__main__":
    main()

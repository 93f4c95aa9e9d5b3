#!/usr/bin/env python3
"""Draws what the scale measurement found: plot.py SCALE.json CHART.png

Needs matplotlib (Debian: python3-matplotlib).
"""

from __future__ import annotations

import argparse
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")  # no display
from matplotlib import pyplot as plt


def draw(found: dict[str, Any], path: Path) -> None:
    samples = found["samples"]
    seconds = [sample["seconds"] for sample in samples]
    figure, axes = plt.subplots(3, 1, figsize=(9, 8), sharex=True)
    curves = (
        ("memory_mib", "operator's memory, MiB"),
        ("writes", "API writes of the operator"),
        ("pods_ready", "nodes of the cache that are ready"),
    )
    for axis, (key, label) in zip(axes, curves, strict=True):
        axis.plot(seconds, [sample[key] for sample in samples])
        axis.set_ylabel(label)
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
        for before, after in pairwise(samples):
            if before["phase"] != after["phase"]:
                axis.axvline(after["seconds"], color="grey", linestyle=":")
    for phase in dict.fromkeys(sample["phase"] for sample in samples):
        begins = next(s["seconds"] for s in samples if s["phase"] == phase)
        axes[0].annotate(phase, (begins, 1.02), xycoords=("data", "axes fraction"), fontsize=8)
    axes[-1].set_xlabel("seconds")
    figure.suptitle(
        f"{found['nodes']} machines x {found['groups']} groups x {found['rails_per_group']} rails, "
        f"{found['engine_pods']} SGLang pods"
    )
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description="Draws what the scale measurement found.")
    parser.add_argument("results", type=Path)
    parser.add_argument("chart", type=Path)
    arguments = parser.parse_args()
    draw(json.loads(arguments.results.read_text()), arguments.chart)
    print(f"wrote {arguments.chart}")


if __name__ == "__main__":
    main()

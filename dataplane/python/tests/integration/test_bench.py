"""peercache-bench on real nodes: every subcommand with a small load, every byte checked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from peercache.bench.__main__ import main

from .processes import binary

pytestmark = pytest.mark.node

TINY = ("--page-size=16k", "--working-set=64", "--batch-size=8", "--duration=0.1", "--warmup=0")


def bench(folder: Path, command: str, *words: str) -> dict[str, Any]:
    """Runs a subcommand, and returns what it has written as JSON."""
    build = binary().parent
    assert main([command, f"--build={build}", f"--out-dir={folder}", *words]) == 0
    report = (folder / f"{command}.html").read_text()
    assert report.rstrip().endswith("</html>")
    values: dict[str, Any] = json.loads((folder / f"{command}.json").read_text())
    return values


def cases(values: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [(r["case"]["op"], r["case"]["batch"], r["case"]["threads"]) for r in values["results"]]


def assert_right(values: dict[str, Any], *checked: str) -> None:
    """All pages are there with the right bytes, and every result has all its figures."""
    assert values["host"]["cores"] >= 1
    assert values["configuration"]["seconds"] == 0.1
    for result in values["results"]:
        figures, op = result["figures"], result["case"]["op"]
        assert set(figures["latency_us"]) == {"p50", "p95", "p99", "p999", "max"}, result["title"]
        assert figures["calls_per_s"] > 0
        if op in ("set", "get", "exists"):
            assert figures["hit_ratio"] == 1, result["title"]
            assert figures["tokens_per_s"] > 0
        if op in checked:
            assert figures["checked"], result["title"]
            assert figures["wrong"] == 0, result["title"]


def test_throughput(tmp_path: Path) -> None:
    words = ("--check", "--op=all", "--concurrencies=1,2", "--layout=mha")
    values = bench(tmp_path, "throughput", *TINY, *words)
    ops = ("set", "exists", "get")
    assert cases(values) == [(op, 8, threads) for op in ops for threads in (1, 2)]
    assert_right(values, "set", "get")
    limits = {r["case"]["op"]: r["limit"] and r["limit"]["name"] for r in values["results"]}
    assert limits == {"set": "memcpy", "exists": None, "get": "bare TCP"}
    assert all(r["figures"]["cpu_s"] > 0 for r in values["results"])


def test_latency_of_two_processes(tmp_path: Path) -> None:
    words = ("--check", "--op=get", "--no-limits", "--source=local", "--repeat=2")
    values = bench(tmp_path, "latency", *TINY, *words)
    assert cases(values) == [("get", 1, 1), ("get", 8, 1)]
    assert_right(values, "get")
    assert all(r["notes"] for r in values["results"]), "the repetitions"

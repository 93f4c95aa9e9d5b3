"""A cache behind a bad link is no slower than no cache: what an engine computes sooner is a miss.

The engine computes by sleeping; nodes, pages, link and the engine's calls are real.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ..patience import HANG_SECONDS
from .conftest import Report
from .engine import BATCH, PAGE_SECONDS, PAGE_TOKENS
from .network import Network
from .nodes import Fleet, freeze, thaw

PAGE_BYTES = 256 << 10
# 12.5 Mbit/s: a prompt's pages take eight times as long as computing them.
SLOW_LINK = 1_562_500
PROMPTS = 30
PREFILL = round(PAGE_TOKENS / PAGE_SECONDS)
COMPUTED = PROMPTS * BATCH * PAGE_SECONDS
HEADER = (
    f"{PROMPTS} prompts of {BATCH} pages, {COMPUTED:.0f} s of compute        seconds  from cache  "
    "longest wait"
)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """The reader's node is behind the link. All pages are at the other node."""
    network = Network()
    hosts = [network.host("holder"), network.host("reader", delayed=True)]
    pages = PROMPTS * BATCH
    fleet = Fleet(
        tmp_path,
        network,
        hosts,
        pages,
        holders=1,
        page_bytes=PAGE_BYTES,
        pool_size="1Gi",
        promotion_percent="0",
        prefault="off",
    )
    try:
        fleet.start()
        fleet.engines.append(fleet.engine(1))
        yield fleet
    finally:
        fleet.stop()


def _prompts(fleet: Fleet, report: Report, what: str, prompts: int = PROMPTS) -> dict[str, Any]:
    done = fleet.engines[1].ask("prompts", first=0, prompts=prompts)
    assert done["wrong"] == 0
    longest = max(done["waited"]) * 1e3
    report.add(
        HEADER,
        f"{what:<46} {done['seconds']:>9.2f} {done['hits'] / (prompts * BATCH):>11.0%} "
        f"{longest:>10.0f} ms",
    )
    return done


def _misses(fleet: Fleet, reason: str) -> float:
    return fleet.nodes[1].metrics()[f'peercache_read_misses_total{{reason="{reason}"}}']


def _bytes(fleet: Fleet) -> float:
    return fleet.nodes[0].metrics()["peercache_served_bytes_total"]


@pytest.mark.node
def test_what_is_computed_sooner_is_not_waited_for(fleet: Fleet, report: Report) -> None:
    engine = fleet.engines[1]
    near = _prompts(fleet, report, "fast link, rate not told")
    assert near["hits"] == PROMPTS * BATCH

    # Told, it loses nothing while the link is fast.
    engine.ask("prefill", tokens_per_second=PREFILL)
    told = _prompts(fleet, report, "fast link")
    assert told["hits"] >= 0.99 * PROMPTS * BATCH

    fleet.network.delay(0, SLOW_LINK)
    before = _bytes(fleet)
    slow = _prompts(fleet, report, "12.5 Mbit/s")
    # One get is lost, and trials are pages; without the guard it would be all of them.
    assert _bytes(fleet) - before <= 0.1 * PROMPTS * BATCH * PAGE_BYTES
    assert slow["found"] <= 0.2 * PROMPTS * BATCH
    assert statistics.median(slow["waited"]) < BATCH * PAGE_SECONDS
    assert _misses(fleet, "slower") > 0
    assert _misses(fleet, "unreachable") == 0, "a slow link is nobody's fault"
    place = fleet.nodes[1].status()["slower_than_computing"][0]
    assert (place["member"], place["tier"]) == (fleet.nodes[0].name, "memory")
    assert place["bytes_per_second"] < BATCH * PAGE_BYTES / (BATCH * PAGE_SECONDS)

    # A trial finds out that the link is well again.
    fleet.network.delay(0)
    deadline = time.monotonic() + HANG_SECONDS
    while engine.ask("prompts", first=0, prompts=2)["hits"] < 2 * BATCH:
        assert time.monotonic() < deadline, fleet.nodes[1].status()
    again = _prompts(fleet, report, "fast link again")
    assert again["hits"] >= 0.99 * PROMPTS * BATCH

    # The control: with the guard off the same link is waited for.
    engine.ask("prefill", tokens_per_second=0)
    fleet.network.delay(0, SLOW_LINK)
    few = PROMPTS // 10
    before = _bytes(fleet)
    _prompts(fleet, report, f"12.5 Mbit/s, guard off, {few} prompts", few)
    assert _bytes(fleet) - before >= 0.9 * few * BATCH * PAGE_BYTES
    fleet.network.delay(0)


@pytest.mark.node
def test_a_frozen_holder_costs_no_more_than_computing(fleet: Fleet, report: Report) -> None:
    fleet.engines[1].ask("prefill", tokens_per_second=PREFILL)
    _prompts(fleet, report, "before the holder is frozen", 5)
    freeze(fleet.nodes[0])
    try:
        frozen = _prompts(fleet, report, "the holder is frozen, 10 prompts", 10)
    finally:
        thaw(fleet.nodes[0])
    assert frozen["hits"] == 0
    deadline = time.monotonic() + HANG_SECONDS
    while fleet.engines[1].ask("prompts", first=0, prompts=1)["hits"] < BATCH:
        assert time.monotonic() < deadline, fleet.nodes[1].status()

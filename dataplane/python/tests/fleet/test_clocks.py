"""Nodes whose clocks are slewed, or stand still: no reader is given wrong bytes.

With checksums off only the protocol stands between a slot that was written again and the engine.
docs/dev/protocol.md says what it assumes of clocks.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ..patience import HANG_SECONDS
from . import calls
from .clocks import (
    FAST,
    SLEW,
    SLOW,
    ClockFleet,
    Clocks,
    Stops,
    compile_clocks,
    raw_seconds,
    seen_by_a_process,
)
from .conftest import Report
from .network import Network, loopback
from .nodes import Node
from .test_stress import LEASE_SECONDS, LOADS, POOL, TIMES

SECONDS = 12.0
SEED = 5
LONGEST_SECONDS = 2 * HANG_SECONDS  # ends what never is the strain that it is meant to be
FOR_EVER_SECONDS = 3600
SOON_SECONDS = 0.5  # from when a stop is planned until it begins
# Half as large again as all pools together: less than in test_stress.py, for more hits.
WORKING_SET = 1200
# Each way, of the node whose clock stops: a lookup and a read take most of a lease.
DELAY_MS = LEASE_SECONDS * 1000 / 5
HEADER = (
    f"{'clocks':<21} {'seconds':>7} {'stops':>6} {'stood s':>7} {'hits':>9} {'sets':>9} "
    f"{'evictions':>9} {'from others':>11} {'by the node that stops':>22}"
)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_clocks(tmp_path_factory.mktemp("clocks"))


# ---- the clocks are what they say


@pytest.mark.parametrize("slew", [FAST, SLOW])
def test_a_slewed_clock_is_the_monotonic_one_alone(library: Path, slew: int) -> None:
    monotonic, raw = seen_by_a_process(Clocks(library, slew), 1)
    assert monotonic / raw == pytest.approx(1 + slew * SLEW, abs=0.01)
    assert raw > 0.9


def test_both_clocks_stand_still_at_once(library: Path, tmp_path: Path) -> None:
    stops = Stops(tmp_path)
    at = raw_seconds() + SOON_SECONDS
    stops.begin([(at, at + FOR_EVER_SECONDS)])
    sleep_until(at)
    assert seen_by_a_process(Clocks(library, stops=stops), 0.1) == (0, 0)


@pytest.fixture
def three(library: Path, tmp_path: Path) -> Iterator[ClockFleet]:
    """One is fast, one slow, one stops when it is told."""
    clocks = [Clocks(library, FAST), Clocks(library, SLOW), Clocks(library, stops=Stops(tmp_path))]
    fleet = ClockFleet(tmp_path, None, loopback(3), clocks)
    try:
        fleet.start()
        yield fleet
    finally:
        fleet.stop()


def sleep_until(raw: float) -> None:
    while (left := raw - raw_seconds()) >= 0:
        time.sleep(left + 0.001)


@dataclass
class Uptime:
    """Of a node by its own clock, read between two times of the machine's."""

    after: float
    seconds: float
    before: float


def uptime(node: Node) -> Uptime:
    after = raw_seconds()
    seconds = float(node.status()["node"]["uptime_seconds"])
    return Uptime(after, seconds, raw_seconds())


@pytest.mark.node
def test_the_nodes_clock_is_slewed_by_nobody_and_stops_with_the_machines(three: ClockFleet) -> None:
    stops = three.clocks[2].stops
    assert stops is not None
    begun = [uptime(node) for node in three.nodes]
    at = raw_seconds() + SOON_SECONDS
    stops.begin([(at, at + FOR_EVER_SECONDS)])
    sleep_until(at)
    stopped = uptime(three.nodes[2])
    time.sleep(1)
    assert uptime(three.nodes[2]).seconds == stopped.seconds
    stop_seconds = stops.end()
    sleep_until(at + stop_seconds + 0.5)
    ended = [uptime(node) for node in three.nodes]
    for start, end, stood in zip(begun, ended, (0, 0, stop_seconds), strict=True):
        passed = end.seconds - start.seconds + stood
        assert end.after - start.before - 0.01 < passed < end.before - start.after + 0.01


# ---- what the nodes make of them


@pytest.mark.node
@pytest.mark.parametrize(
    "map_pools",
    [
        pytest.param("off", id="by request", marks=pytest.mark.full),
        pytest.param("on", id="one-sided"),
    ],
)
def test_no_wrong_byte_whatever_the_clocks_do(
    library: Path, tmp_path: Path, report: Report, map_pools: str
) -> None:
    """One node's clock is fast, one's slow, and that of the third stops again and again. It has a
    cable that takes time, and that copies what it carries: between nodes of one kernel a page is in
    the receiver's socket by reference, so it changes there after it was acknowledged."""
    stops = Stops(tmp_path)
    clocks = [Clocks(library, FAST), Clocks(library, SLOW), Clocks(library, stops=stops)]
    network = Network()
    hosts = [network.host(f"h{i}", delayed=i == 2) for i in range(3)]
    flags = {**TIMES, "pool_size": POOL, "checksums": "off", "map_pools": map_pools}
    fleet = ClockFleet(tmp_path, network, hosts, clocks, **flags)
    try:
        fleet.start()
        network.delay(DELAY_MS)
        fleet.engines += [fleet.engine(i, "-1") for i in range(3)]
        for at, engine in enumerate(fleet.engines):
            load = {**LOADS[at // 3], "own": at % 3, "seed": at}
            engine.ask("load", holders=[[0, WORKING_SET]], pause=0.0, exists=0.1, **load)
        begun = raw_seconds()
        stops.begin_again_and_again(LONGEST_SECONDS, SEED)
        time.sleep(SECONDS)
        # How long it takes until so much has happened is the machine's.
        while lacking := too_little(seen := [node.status() for node in fleet.nodes]):
            assert raw_seconds() < begun + LONGEST_SECONDS, lacking
            time.sleep(1)
        ended = raw_seconds()
        log = fleet.end_loads(fleet.engines)  # which fails for a wrong byte
    finally:
        fleet.stop()
    hits = int(log[log["op"] == calls.GET]["hits"].sum())
    sets = int(log[log["op"] == calls.SET]["hits"].sum())
    evictions = sum(status["pool"]["evictions"] for status in seen)
    remote = [from_others(status) for status in seen]
    stopped, stood = stops.count(ended), stops.stood_seconds(ended)
    name = "by request" if map_pools == "off" else "one-sided"
    report.add(
        HEADER,
        f"{name:<21} {ended - begun:>7.0f} {stopped:>6} {stood:>7.1f} {hits:>9} {sets:>9} "
        f"{evictions:>9} {sum(remote):>11} {remote[2]:>22}",
    )
    assert stopped >= 3
    assert stood > SECONDS / 2
    assert hits > 0


def too_little(seen: Sequence[Any]) -> str:
    delivered = sum(status["lookups"]["delivered_pages"] for status in seen)
    evictions = sum(status["pool"]["evictions"] for status in seen)
    remote = [from_others(status) for status in seen]
    enough = min(delivered, evictions) > 50 * SECONDS and min(remote) > 2 * SECONDS
    return "" if enough else f"{delivered} hits, {evictions} evictions, {remote} from others"


def from_others(status: Any) -> int:
    """Pages that the node has delivered out of the pools of the other two."""
    delivered = status["lookups"]["delivered"]
    return int(sum(delivered[way]["pages"] for way in ("tcp", "mapped")))

"""Readers and writers of more pages than fit, while nodes stutter, are killed, leave and come back.

Every get checks every byte; what misses is set by whoever missed it, so pages are evicted, set
again elsewhere and read all the time. Tiny pools and a short lease make slots come back into use
quickly, and nodes that stop for less and for more than a lease keep pages on their way for so long:
a reader that used a record for too long, a withdrawal that did not reach a shard, a page that was
still in a socket when its slot was written again would show as wrong bytes. With checksums off only
the protocol stands between that and the engine.

STRESS_SECONDS (60) is how long each kind of checksum runs, each under its own eviction policy.
"""

from __future__ import annotations

import itertools
import mmap
import os
import random
import re
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from . import calls, pages
from .conftest import Report
from .network import loopback
from .nodes import Fleet, Node, freeze, thaw

SECONDS = float(os.environ.get("STRESS_SECONDS", "60"))
NODES = 3
ENGINES_EACH = 2
# The smallest there is: about 250 pages of 32 KiB.
POOL = "8Mi"
# Everybody reads and sets all of these.
WORKING_SET = 2500
LEASE_SECONDS = 0.06
TIMES = {
    "lease_ms": f"{LEASE_SECONDS * 1000:.0f}",
    "dir_cache_ttl_ms": f"{LEASE_SECONDS * 1000:.0f}",
    "heartbeat_ms": "50",
    "member_ttl_ms": "400",
    "peer_timeout_ms": "400",
}
# The first engine of a node reads, and sets what it has missed; the second one mostly sets.
LOADS = (
    {"refill": True, "writes": 0.0, "threads": 2},
    {"anywhere": True, "writes": 0.8, "threads": 2},
)
BETWEEN_RESTARTS_SECONDS = 4.0

HEADER = (
    f"{'stress':<21} {'seconds':>7} {'hits':>9} {'misses':>9} {'sets':>9} {'evictions':>9} "
    f"{'restarts':>8} {'stutters':>8} {'wrong pages':>11}"
)


class Restarts:
    """Kills nodes in turn, or asks them to leave; the same id and address come back at once."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.count = 0
        self.evictions = 0.0

    def restart(self, victim: int) -> None:
        node = self.fleet.nodes[victim]
        self.evictions += evictions(node)
        node.signal(signal.SIGTERM if self.count % 2 else signal.SIGKILL)
        node.popen.wait(30)
        self.fleet.restart(victim)
        self.count += 1


class Stutter(threading.Thread):
    """Stops one node after another for a moment: for less than a lease, or for more."""

    def __init__(self, fleet: Fleet) -> None:
        super().__init__(daemon=True)
        self.fleet = fleet
        self.count = 0
        self.ending = threading.Event()
        self.random = random.Random(1)

    def run(self) -> None:
        while not self.ending.wait(self.random.uniform(0, 6 * LEASE_SECONDS)):
            node = self.random.choice(self.fleet.nodes)
            freeze(node)
            time.sleep(LEASE_SECONDS * self.random.choice([0.3, 0.6, 0.9, 1.2, 2, 4]))
            thaw(node)
            self.count += 1

    def end(self) -> None:
        self.ending.set()
        self.join()


def evictions(node: Node) -> float:
    name = "peercache_evictions_total"
    return sum(value for sample, value in node.metrics().items() if sample.startswith(name))


@pytest.mark.node
@pytest.mark.parametrize(("checksums", "eviction"), [("off", "s3fifo"), ("all", "lru")])
def test_no_wrong_byte_under_pressure(
    tmp_path: Path, report: Report, checksums: str, eviction: str
) -> None:
    flags = {**TIMES, "pool_size": POOL, "checksums": checksums, "eviction": eviction}
    fleet = Fleet(tmp_path, None, loopback(NODES), 0, None, **flags)
    restarts, stutter = Restarts(fleet), Stutter(fleet)
    try:
        fleet.start()
        fleet.engines += [
            fleet.engine(i, f"-{k}") for i in range(NODES) for k in range(1, ENGINES_EACH)
        ]
        for at, engine in enumerate(fleet.engines):
            load = {**LOADS[at // NODES], "own": at % NODES, "seed": at}
            engine.ask("load", holders=[[0, WORKING_SET]], pause=0.0, exists=0.1, **load)
        begun = time.monotonic()
        stutter.start()
        for victim in itertools.cycle([1, 2, 0]):
            time.sleep(min(BETWEEN_RESTARTS_SECONDS, SECONDS / 4))
            if time.monotonic() > begun + SECONDS:
                break
            restarts.restart(victim)
            print(f"stress: {time.monotonic() - begun:.0f} of {SECONDS:.0f} s", flush=True)
        stutter.end()
        fleet.wait_ready()
        restarts.evictions += sum(evictions(node) for node in fleet.nodes)
        seconds = time.monotonic() - begun
        log = fleet.end_loads(fleet.engines)
    finally:
        fleet.stop()
    gets, sets = (log[log["op"] == op] for op in (calls.GET, calls.SET))
    hits, wrong = int(gets["hits"].sum()), int(log["wrong"].sum())
    misses = int(gets["asked"].sum()) - hits
    report.add(
        HEADER,
        f"{f'checksums {checksums}, {eviction}':<21} {seconds:>7.0f} {hits:>9} {misses:>9} "
        f"{int(sets['hits'].sum()):>9} {restarts.evictions:>9.0f} {restarts.count:>8} "
        f"{stutter.count:>8} {wrong:>11}",
    )
    assert wrong == 0, "\n".join(engine.output() for engine in fleet.engines)
    # It was the pressure it was meant to be.
    assert hits > 50 * SECONDS
    assert misses > hits / 4
    assert restarts.evictions > 100 * SECONDS
    assert restarts.count >= min(3, SECONDS / BETWEEN_RESTARTS_SECONDS / 2)
    assert stutter.count > SECONDS / 2


# ---- these tests find what is wrong


class PoolMemory:
    """The memory of a node's pool, as anybody with its descriptor sees it."""

    def __init__(self, node: Node) -> None:
        folder = Path("/proc", str(node.popen.pid), "fd")
        pools = [
            entry for entry in folder.iterdir() if re.search(r"memfd:.*pool", os.readlink(entry))
        ]
        assert len(pools) == 1, f"{node.name} has {len(pools)} pools"
        with pools[0].open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), os.fstat(file.fileno()).st_size)
        self.words = np.frombuffer(self._map, dtype=np.uint64)

    def find(self, number: int) -> int:
        """The index of the page's first word."""
        wanted = pages.content(number)
        for index in np.flatnonzero(self.words == wanted[0]):
            if np.array_equal(self.words[index : index + pages.WORDS], wanted):
                return int(index)
        raise AssertionError(f"page {number} is not in the pool")


@pytest.fixture(params=["off", "all"])
def two_nodes(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Fleet, str]]:
    fleet = Fleet(tmp_path, None, loopback(2), pages_each=32, checksums=request.param)
    try:
        fleet.start()
        yield fleet, request.param
    finally:
        fleet.stop()


@pytest.mark.node
@pytest.mark.parametrize("reader", [0, 1], ids=["own pool", "other node"])
def test_a_page_that_changes_in_the_pool_is_seen(two_nodes: tuple[Fleet, str], reader: int) -> None:
    fleet, checksums = two_nodes
    engine = fleet.engines[reader]
    assert engine.ask("get", first=0, count=32) == {"hits": 32, "wrong": 0}
    memory = PoolMemory(fleet.nodes[0])
    memory.words[memory.find(7) + pages.WORDS - 1] ^= np.uint64(1)
    seen = engine.ask("get", first=0, count=32)
    if checksums == "off":
        assert seen == {"hits": 32, "wrong": 1}
        assert "page 7 has 1 wrong words" in engine.output()
    else:
        assert seen == {"hits": 31, "wrong": 0}

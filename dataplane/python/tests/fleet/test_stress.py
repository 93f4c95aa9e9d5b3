"""Readers and writers of more pages than fit, while nodes stutter, are killed, leave and come back.

Every get checks every byte; what misses is set by whoever missed it, so pages are evicted, set
again elsewhere and read all the time. Tiny pools and a short lease make slots come back into use
quickly, and nodes that stop for less and for more than a lease keep pages on their way for so long:
a reader that used a record for too long, a withdrawal that did not reach a shard, a page that was
still in a socket when its slot was written again would show as wrong bytes. With checksums off only
the protocol stands between that and the engine.

STRESS_SECONDS (48) is how long it runs with checksums off. Half of it runs with checksums, under
another eviction policy. Half of it runs with drives on two nodes, so that pages come from pools,
drives and the wire at once. An eighth of it runs on larger pools, where pages that are read often
get replicas with records. Each goes on until it was the strain that it is meant to be: what has to
have happened is counted, and how long that takes is the machine's.
"""

from __future__ import annotations

import itertools
import math
import mmap
import os
import random
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from ..patience import HANG_SECONDS
from . import calls, pages
from .conftest import Report
from .network import loopback
from .nodes import Fleet, Node, freeze, thaw

SECONDS = float(os.environ.get("STRESS_SECONDS", "48"))
NODES = 3
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
LOADS: tuple[dict[str, object], ...] = (
    {"refill": True, "writes": 0.0, "threads": 2},
    {"anywhere": True, "writes": 0.8, "threads": 2},
)
BETWEEN_RESTARTS_SECONDS = 4.0
# Ends what never becomes the strain that it is meant to be.
LONGEST_SECONDS = 5 * HANG_SECONDS

# Replicas with records take 30 % of a pool, and nothing where that is less than 64 MiB; each node
# reads more pages of the others than that, so old ones go for new ones all the time. Nothing is set
# but what was missed: sets would take the room.
REPLICA_POOL = {"pool_size": "320Mi", "promotion_percent": "30", "prefault": "off"}
REPLICA_PAGE_BYTES = 256 << 10
REPLICA_WORKING_SET = 600
REPLICA_SECONDS = SECONDS / 8
# Nodes that read each other's pools where they are, checksums off: pools that end with the process,
# and files that the next process goes on with.
MAPPED_SECONDS = SECONDS / 4
# The drives verify what they bring, and no other checksum is on. More is set than fits on them, so
# their oldest pages go, too.
DISK_SECONDS = SECONDS / 2
DISK = {"disk_size": "520Mi", "disk_write_budget": "unlimited"}
WITH_DISK = (0, 1)
DISK_WORKING_SET = 8000

HEADER = (
    f"{'stress':<21} {'seconds':>7} {'hits':>9} {'misses':>9} {'sets':>9} {'evictions':>9} "
    f"{'from disk':>9} {'replicas':>9} {'of these gone':>13} "
    f"{'restarts':>8} {'stutters':>8} {'wrong pages':>11}"
)


@dataclass
class Counts:
    """Of pages, over all nodes and their lives."""

    evictions: int = 0  # replicas aside
    replicas: int = 0  # promoted: put into the pool, with records
    replicas_gone: int = 0  # of these, withdrawn and evicted
    mapped: int = 0  # copied out of the mapped pool of another node
    loaded: int = 0  # from a drive of the node into its pool
    fetched: int = 0  # from another node, which had them on a drive
    delivered: int = 0  # to engines
    restarts: int = 0
    stutters: int = 0

    def add(self, node: Node) -> None:
        status = node.status()
        self.delivered += status["lookups"]["delivered_pages"]
        self.mapped += status["lookups"]["delivered"]["mapped"]["pages"]
        self.loaded += status.get("disk", {}).get("loaded_pages", 0)
        self.fetched += int(node.metrics().get("peercache_disk_fetched_pages_total", 0))
        pool = status["pool"]
        self.evictions += pool["evictions"]
        self.replicas += pool["replicas"] + pool["replica_evictions"]
        self.replicas_gone += pool["replica_evictions"]

    def lacks(self, least: Counts) -> dict[str, tuple[int, int]]:
        """What is less than that, with both numbers."""
        here, there = vars(self), vars(least)
        return {name: (here[name], there[name]) for name in here if here[name] < there[name]}


class Restarts:
    """Kills nodes in turn, or asks them to leave; the same id and address come back at once."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.counts = Counts()

    def restart(self, victim: int) -> None:
        node = self.fleet.nodes[victim]
        wait_answers(node)
        self.counts.add(node)
        node.signal(signal.SIGTERM if self.counts.restarts % 2 else signal.SIGKILL)
        node.popen.wait(HANG_SECONDS)
        self.fleet.restart(victim)
        self.counts.restarts += 1

    def until_now(self, stutters: int) -> Counts:
        """With those of the nodes that live."""
        counts = replace(self.counts, stutters=stutters)
        for node in self.fleet.nodes:
            wait_answers(node)
            counts.add(node)
        return counts


def wait_answers(node: Node) -> None:
    """It may have come a moment ago."""
    deadline = time.monotonic() + HANG_SECONDS
    while not node.ready():
        assert time.monotonic() < deadline, node.output()[-4000:]
        time.sleep(0.02)


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


@dataclass
class Strain:
    """What a fleet went through."""

    seconds: float
    log: calls.Calls
    counts: Counts

    @property
    def gets(self) -> calls.Calls:
        return self.log[self.log["op"] == calls.GET]

    @property
    def hits(self) -> int:
        return int(self.gets["hits"].sum())

    @property
    def misses(self) -> int:
        return int(self.gets["asked"].sum()) - self.hits

    @property
    def wrong(self) -> int:
        return int(self.log["wrong"].sum())

    def row(self, name: str) -> str:
        sets = int(self.log[self.log["op"] == calls.SET]["hits"].sum())
        return (
            f"{name:<21} {self.seconds:>7.0f} {self.hits:>9} {self.misses:>9} {sets:>9} "
            f"{self.counts.evictions:>9} {self.counts.loaded:>9} {self.counts.replicas:>9} "
            f"{self.counts.replicas_gone:>13} {self.counts.restarts:>8} {self.counts.stutters:>8} "
            f"{self.wrong:>11}"
        )


def strain(
    fleet: Fleet,
    seconds: float,
    working_set: int,
    loads: Sequence[dict[str, object]],
    least: Counts,
) -> Strain:
    """Starts the fleet, with an engine for each of the loads on each node, and stops it after the
    seconds, and after no less than that has happened."""
    restarts, stutter = Restarts(fleet), Stutter(fleet)
    try:
        fleet.start()
        fleet.engines += [
            fleet.engine(i, f"-{k}") for i in range(NODES) for k in range(1, len(loads))
        ]
        for at, engine in enumerate(fleet.engines):
            load = {**loads[at // NODES], "own": at % NODES, "seed": at}
            engine.ask("load", holders=[[0, working_set]], pause=0.0, exists=0.1, **load)
        begun = time.monotonic()
        stutter.start()
        for victim in itertools.cycle([1, 2, 0]):
            time.sleep(min(BETWEEN_RESTARTS_SECONDS, seconds / 4))
            passed = time.monotonic() - begun
            if passed > seconds:
                lacking = restarts.until_now(stutter.count).lacks(least)
                if not lacking:
                    break
                assert passed < LONGEST_SECONDS, f"too little happens (is, least): {lacking}"
            restarts.restart(victim)
            print(f"stress: {time.monotonic() - begun:.0f} of {seconds:.0f} s", flush=True)
        stutter.end()
        fleet.wait_ready()
        counts = restarts.until_now(stutter.count)
        took = time.monotonic() - begun
        log = fleet.end_loads(fleet.engines)
    finally:
        fleet.stop()
    seen = Strain(took, log, counts)
    assert seen.wrong == 0, "\n".join(engine.output() for engine in fleet.engines)
    return seen


@pytest.mark.node
@pytest.mark.parametrize(
    ("checksums", "eviction", "seconds"), [("off", "s3fifo", SECONDS), ("all", "lru", SECONDS / 2)]
)
def test_no_wrong_byte_under_pressure(
    tmp_path: Path, report: Report, checksums: str, eviction: str, seconds: float
) -> None:
    flags = {**TIMES, "pool_size": POOL, "checksums": checksums, "eviction": eviction}
    fleet = Fleet(tmp_path, None, loopback(NODES), 0, None, **flags)
    seen = strain(fleet, seconds, WORKING_SET, LOADS, pressure(seconds))
    report.add(HEADER, seen.row(f"checksums {checksums}, {eviction}"))
    assert seen.misses > seen.hits / 4
    assert seen.counts.mapped == 0


@pytest.mark.node
def test_no_wrong_byte_from_pools_drives_and_the_wire(
    tmp_path: Path, drives: Path, report: Report
) -> None:
    flags = {**TIMES, "pool_size": POOL, "checksums": "off"}
    fleet = Fleet(tmp_path, None, loopback(NODES), 0, None, **flags)
    for i in WITH_DISK:
        folder = drives / str(i)
        folder.mkdir()
        fleet.own_flags[i] = {**DISK, "disk_path": str(folder)}
    least = pressure(DISK_SECONDS)
    least.loaded, least.fetched = int(50 * DISK_SECONDS), int(5 * DISK_SECONDS)
    seen = strain(fleet, DISK_SECONDS, DISK_WORKING_SET, LOADS, least)
    report.add(HEADER, seen.row("drives"))
    assert seen.misses > seen.hits / 4


@pytest.fixture
def two_mounts(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """A folder in memory, and the same folder on a mount that is read-only."""
    view = tmp_path / "view"
    view.mkdir()
    with TemporaryDirectory(dir="/dev/shm", prefix="peercache-test-") as memory:
        subprocess.run(["mount", "--bind", memory, view], check=True)
        try:
            subprocess.run(["mount", "-o", "remount,ro,bind", view], check=True)
            yield Path(memory), view
        finally:
            subprocess.run(["umount", "--lazy", view], check=True)


@pytest.mark.node
@pytest.mark.parametrize("pool", ["memory", "file"])
def test_no_wrong_byte_from_pools_that_are_mapped(
    tmp_path: Path, two_mounts: tuple[Path, Path], report: Report, pool: str
) -> None:
    flags = {**TIMES, "pool_size": POOL, "checksums": "off", "map_pools": "on"}
    fleet = Fleet(tmp_path, None, loopback(NODES), 0, None, **flags)
    for i in range(NODES if pool == "file" else 0):
        memory, view = (str(mount / f"{i}.pool") for mount in two_mounts)
        fleet.own_flags[i] = {"pool_file": memory, "pool_file_view": view}
    least = pressure(MAPPED_SECONDS)
    least.mapped = int(20 * MAPPED_SECONDS)
    seen = strain(fleet, MAPPED_SECONDS, WORKING_SET, LOADS, least)
    report.add(HEADER, seen.row(f"mapped pools, {pool}"))
    assert seen.misses > seen.hits / 4


def pressure(seconds: float) -> Counts:
    """What a machine does in much less than these seconds, when it has nothing else to do."""
    return Counts(
        delivered=int(50 * seconds),
        evictions=int(100 * seconds),
        restarts=math.ceil(min(3, seconds / BETWEEN_RESTARTS_SECONDS / 2)),
        stutters=math.ceil(seconds / 2),
    )


@pytest.mark.node
def test_no_wrong_byte_while_replicas_come_and_go(tmp_path: Path, report: Report) -> None:
    flags = {**TIMES, **REPLICA_POOL, "checksums": "off"}
    fleet = Fleet(tmp_path, None, loopback(NODES), 0, None, page_bytes=REPLICA_PAGE_BYTES, **flags)
    least = Counts(
        delivered=int(50 * REPLICA_SECONDS),
        replicas=int(20 * REPLICA_SECONDS),
        replicas_gone=int(2 * REPLICA_SECONDS),
        restarts=1,
    )
    seen = strain(fleet, REPLICA_SECONDS, REPLICA_WORKING_SET, 2 * LOADS[:1], least)
    report.add(HEADER, seen.row("replicas"))


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

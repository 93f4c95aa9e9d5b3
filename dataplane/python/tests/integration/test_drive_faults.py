"""Whole nodes on a drive that fails: they say so, go on from memory, and deliver no wrong byte."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from .. import wrong_bytes
from ..patience import AT_ONCE_SECONDS, HANG_SECONDS, NEVER_SECONDS
from .clients import connect
from .conftest import Cluster
from .faulty_drive import FaultyDrive
from .processes import Node

PAGE = 64 << 10
POOL = 8 << 20  # of 128 pages, the smallest
PAGES = 256  # so half of them are on the drive alone
BATCH = 32
FEW = 8  # which the drive reads at once
PREFIX = bytes(32)
MS = 1_000_000
UP = "peercache_disk_up{"
PAUSED = "peercache_disk_writes_paused{"
FLAGS = {
    "pool_size": str(POOL),
    "disk_size": "1Gi",
    "disk_write_budget": "unlimited",
    "disk_io": "threads",
    "lease_ms": "100",
    "drain_budget": "0",
}
# A member without a drive, to which others are not late on a busy machine.
MEMORY = {"pool_size": str(4 * POOL), "peer_timeout_ms": "5000", "drain_budget": "0"}
# Prints what a read brings, or its error, how long it took, and what a write returns, or its error.
READS_AND_WRITES = """
import ctypes, os, sys, time
class Part(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("bytes", ctypes.c_size_t)]
libc = ctypes.CDLL(None, use_errno=True)
file, page = os.open(sys.argv[1], os.O_RDWR), ctypes.create_string_buffer(4096)
part = ctypes.byref(Part(ctypes.addressof(page), 4096))
start = time.monotonic()
read = libc.preadv(file, part, 1, ctypes.c_long(0))
error = ctypes.get_errno()
print(error if read < 0 else any(page.raw), time.monotonic() - start)
print(ctypes.get_errno() if libc.pwritev(file, part, 1, ctypes.c_long(0)) < 0 else "written")
"""


class Pages:
    """An engine's pages, whose bytes follow from their number."""

    def __init__(self, node: Node) -> None:
        self._client = connect(node.socket)
        self._tokens = 0  # of a page; 0: the node is not told
        self._fd = os.memfd_create("pages")
        os.ftruncate(self._fd, BATCH * PAGE)
        self._map = mmap.mmap(self._fd, BATCH * PAGE)
        base = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        self._at = [base + i * PAGE for i in range(BATCH)]
        assert self._client.register_region(self._fd, base, BATCH * PAGE) == ""

    @staticmethod
    def _content(number: int) -> bytes:
        return number.to_bytes(8, "little") * (PAGE // 8)

    def compute(self, pages_per_second: int) -> None:
        """The engine says that it computes so many."""
        self._tokens = 1
        self._client.set_prefill(pages_per_second)

    def exists(self, first: int, count: int) -> int:
        keys = [f"{n:064x}" for n in range(first, first + count)]
        return int(self._client.exists(PREFIX, keys, self._tokens))

    def clear(self, tag: int) -> str:
        """Why pages of it may be given after all."""
        return str(self._client.clear(tag))

    def set(self, first: int, count: int, tag: int = 1) -> int:
        """How many were taken."""
        taken = 0
        for at in range(first, first + count, BATCH):
            numbers = range(at, at + BATCH)
            self._map[:] = b"".join(map(self._content, numbers))
            keys = [f"{n:064x}" for n in numbers]
            taken += sum(self._client.set(PREFIX, tag, keys, self._at, [PAGE] * BATCH))
        return taken

    def get(self, first: int, count: int) -> int:
        """How many came, with the right bytes."""
        came = 0
        for at in range(first, first + count, BATCH):
            numbers = range(at, min(at + BATCH, first + count))
            self._map[:] = b"\xee" * len(self._map)
            keys = [f"{n:064x}" for n in numbers]
            there = self._client.get(
                PREFIX, keys, self._at[: len(keys)], [PAGE] * len(keys), self._tokens
            )
            for i, number in enumerate(numbers):
                if there[i]:
                    page = self._map[i * PAGE : (i + 1) * PAGE]
                    wrong_bytes.check_page(number, page, self._content(number))
            came += sum(there)
        return came


class Setup:
    """A node on such a drive, with more pages than its pool has room for, and one that reads."""

    def __init__(self, cluster: Cluster, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.drive = FaultyDrive(folder)
        for name, value in self.drive.environment.items():
            monkeypatch.setenv(name, value)
        disk = folder / "disk"
        disk.mkdir()
        self.node = cluster.node(f"holder-{folder.name}", disk_path=str(disk), **FLAGS)
        monkeypatch.undo()
        self.pages = Pages(self.node)

    def fill(self) -> None:
        for first in range(0, PAGES, BATCH):
            until(lambda first=first: self.pages.set(first, BATCH) == BATCH)
            until(lambda: self.disk()["waiting_pages"] == 0)
        until(lambda: self.disk()["pages"] >= PAGES - BATCH)

    def disk(self) -> Any:
        return self.node.status()["disk"]

    def device(self) -> Any:
        return self.disk()["devices"][0]

    def goes_on_from_memory(self) -> None:
        # Slots that a drive holds on to leave little room for a while.
        first = 10 * PAGES
        until(lambda: self.pages.set(first, BATCH) == self.pages.get(first, BATCH) == BATCH)


@pytest.fixture(scope="module")
def host(cluster: Cluster) -> Node:
    """Of the cluster's membership, while the others come and go."""
    return cluster.node("host", pool_size=str(POOL))


@pytest.fixture
def setup(
    cluster: Cluster,
    host: Node,
    drives: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Setup]:
    folder = drives / request.node.name.rpartition("_")[2]
    folder.mkdir()
    made = Setup(cluster, folder, monkeypatch)
    yield made
    for fault in ("errno", "delay_ns"):
        made.drive.set(**{f"read_{fault}": 0, f"write_{fault}": 0})
    made.drive.set(flips=0, sync_delay_ns=0)
    made.node.stop()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + HANG_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def metric(node: Node, name: str, label: str = "") -> float:
    for line in node.metrics().splitlines():
        if line.startswith(name) and label in line:
            return float(line.rpartition(" ")[2])
    raise AssertionError(f"no {name} of {label}")


def misses(node: Node, reason: str) -> float:
    return metric(node, "peercache_read_misses_total", f'reason="{reason}"')


def test_the_drive_does_what_it_is_told(tmp_path: Path) -> None:
    drive, file = FaultyDrive(tmp_path), tmp_path / "file"
    file.write_bytes(bytes(4096))

    def said() -> list[str]:
        line = [sys.executable, "-c", READS_AND_WRITES, str(file)]
        env = {**os.environ, **drive.environment}
        return subprocess.run(
            line, env=env, check=True, capture_output=True, text=True
        ).stdout.split()

    assert said()[::2] == ["False", "written"]
    drive.set(flips=1, read_delay_ns=200 * MS, write_errno=errno.ENOSPC)
    changed, seconds, written = said()
    assert (changed, written) == ("True", str(errno.ENOSPC))
    assert float(seconds) >= 0.2
    drive.set(read_errno=errno.EIO)
    assert said()[0] == str(errno.EIO)
    assert (drive.count("reads"), drive.count("writes")) == (3, 3)


@pytest.mark.node
def test_a_drive_that_fails_its_writes(setup: Setup) -> None:
    setup.fill()
    setup.drive.set(write_errno=errno.ENOSPC)
    number = 10 * PAGES

    def paused_is(paused: bool) -> bool:
        nonlocal number
        number += BATCH
        setup.pages.set(number, BATCH)
        return bool(setup.device()["writes_paused"]) == paused

    until(lambda: paused_is(True))
    assert os.strerror(errno.ENOSPC) in setup.device()["why"]
    assert metric(setup.node, PAUSED) == 1
    assert metric(setup.node, UP) == 1
    for first in range(0, FEW * FEW, FEW):
        until(lambda first=first: setup.pages.get(first, FEW) == FEW)
    setup.drive.set(write_errno=0)
    until(lambda: paused_is(False))


@pytest.mark.node
def test_a_drive_that_fails_its_reads(setup: Setup) -> None:
    setup.fill()
    setup.drive.set(read_errno=errno.EIO)

    def off() -> bool:
        setup.pages.get(0, PAGES)
        return not setup.device()["on"]

    until(off)
    assert os.strerror(errno.EIO) in setup.device()["why"]
    assert metric(setup.node, UP) == 0, "which an alert is on"
    setup.goes_on_from_memory()
    setup.drive.set(read_errno=0)
    until(lambda: setup.device()["on"])
    until(lambda: setup.disk()["waiting_pages"] == 0)
    # Those whose reads have failed have gone.
    until(lambda: setup.pages.get(0, PAGES) > PAGES // 2)


@pytest.mark.node
def test_a_drive_that_hangs(setup: Setup) -> None:
    setup.fill()
    setup.drive.set(read_delay_ns=int(1000 * NEVER_SECONDS) * MS)
    began = time.monotonic()
    setup.pages.get(0, BATCH)
    assert time.monotonic() - began < AT_ONCE_SECONDS, "an engine does not wait for the drive"
    until(lambda: not setup.device()["on"])
    assert "took longer than 1000 ms" in setup.device()["why"]
    setup.goes_on_from_memory()


@pytest.mark.node
def test_a_drive_that_brings_wrong_bits(setup: Setup) -> None:
    setup.fill()
    setup.drive.set(flips=1)
    before = setup.drive.count("reads")
    came = setup.pages.get(0, PAGES)  # whose bytes are looked at
    assert setup.drive.count("reads") > before
    assert came < PAGES
    setup.goes_on_from_memory()


@pytest.mark.node
def test_a_drive_that_is_late_for_another_node(setup: Setup, cluster: Cluster) -> None:
    setup.fill()
    reader = cluster.node(
        f"reader-{setup.node.name}", pool_size=str(POOL), lease_ms="100", peer_timeout_ms="600"
    )
    pages = Pages(reader)
    setup.drive.set(read_delay_ns=600 * MS)  # less than what turns a drive off
    pages.get(0, FEW)
    assert misses(reader, "disk_late") > 0
    assert misses(reader, "unreachable") == 0, "its holder is not at fault"
    assert setup.device()["on"]
    setup.drive.set(read_delay_ns=0)
    until(lambda: pages.get(0, FEW) == FEW)


@pytest.mark.node
def test_a_drive_that_is_slower_than_computing(setup: Setup, cluster: Cluster) -> None:
    """Nobody waits for it, neither at its own member nor at another, and it stays in use."""
    setup.fill()
    other = cluster.node(f"reader-{setup.node.name}", pool_size=str(POOL), lease_ms="100")
    for node, pages, first in ((setup.node, setup.pages, 0), (other, Pages(other), 4 * FEW)):
        setup.drive.set(read_delay_ns=300 * MS)  # less than what turns a drive off
        pages.compute(1000)
        pages.get(first, FEW)
        assert misses(node, "slower") > 0
        slower = metric(node, "peercache_slower_pages_total")
        assert pages.exists(first + FEW, FEW) < FEW
        assert metric(node, "peercache_slower_pages_total") > slower
        assert misses(node, "disk_late") == misses(node, "unreachable") == 0
        assert setup.device()["on"]
        setup.drive.set(read_delay_ns=0)
        until(lambda pages=pages, first=first: pages.get(first, 2 * FEW) == 2 * FEW)


@pytest.mark.node
def test_a_drive_that_takes_long_to_record_a_clear(
    setup: Setup, host: Node, cluster: Cluster
) -> None:
    """It keeps only the answer to the clear waiting: nothing else is the drive's business."""
    others = [cluster.node(f"{name}-{setup.node.name}", **MEMORY) for name in ("keeper", "reader")]
    keeper, reader, engine = Pages(others[0]), Pages(others[1]), Pages(host)
    cleared, kept = range(PAGES, PAGES + BATCH), range(PAGES)
    until(lambda: setup.pages.set(cleared.start, BATCH) == BATCH)
    until(lambda: setup.disk()["waiting_pages"] == 0)
    until(lambda: keeper.set(kept.start, PAGES, tag=2) == PAGES)
    # All shards have their records: those of the drive's member, too.
    until(lambda: engine.get(kept.start, PAGES) == PAGES)

    before = setup.drive.count("synced")
    setup.drive.set(sync_delay_ns=9_000 * MS)  # of ten, after which it is off
    answers: list[str] = []
    clear = threading.Thread(target=lambda: answers.append(engine.clear(1)))
    clear.start()
    until(lambda: setup.drive.count("syncs") > before)
    for node in (setup.node, *others):
        until(lambda node=node: metric(node, "peercache_clears_known_tags") == 1)
        until(lambda node=node: metric(node, "peercache_clears_members_behind") == 0)
    assert reader.get(kept.start, PAGES) == PAGES, "of another member, at places that all tell"
    until(lambda: setup.pages.get(kept.start, PAGES) == PAGES)  # its lease is short
    assert setup.pages.get(cleared.start, BATCH) == 0
    for node in (host, *others):
        assert all(m["breaker"] == "closed" for m in node.status()["members"]), "all answer"
    assert "" not in answers, "a clear that was answered holds after a crash"
    assert setup.drive.count("synced") == before, "all that was while the drive was at it"

    setup.drive.set(sync_delay_ns=0)
    clear.join()
    until(lambda: engine.clear(1) == "")
    assert setup.device()["on"]

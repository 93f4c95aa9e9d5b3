"""Engines that use up the threads that the node's container may have.

The node runs in a pids cgroup of its own, as a container does; the engines do not.
"""

from __future__ import annotations

import array
import contextlib
import os
import shutil
import socket
import struct
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from .. import wrong_bytes
from ..fleet.nodes import EngineProcess
from ..integration.conftest import Cluster
from ..integration.processes import Node, Process
from ..integration.thread_group import ThreadGroup
from ..patience import HANG_SECONDS, PATIENT_MS
from . import wire
from .conftest import PAGES, Table
from .crowd import open_files

TENANTS = ("victim", "attacker")
FLAGS = {"pool_size": "64Mi", "io_threads": "2", "copy_threads": "2"}
REGION = 4096
CONNECTIONS = 64  # that a session may have
MOST = 2048
NO_MORE = 1  # fewer than there are, so that one that ends makes no room either
TOO_FEW, ENOUGH = 8, 64  # for a node to start
REGIONS = 100
LARGE_REGION = 128 << 20
MOST_OF_64 = 10  # that are one process's, where so many are allowed, the node's own included


class Limited:
    """A node with a pool that is kept, in a group, and an engine with pages in it."""

    def __init__(self, folder: Path, limit: int | None) -> None:
        self.cluster = Cluster(folder)
        self.group = ThreadGroup(f"peercache-threads-{os.getpid()}", limit)
        self.limit = limit
        self.engines: list[EngineProcess] = []
        for tenant in TENANTS:
            (folder / "tenants" / tenant).mkdir(parents=True)
        self.memory = Path(tempfile.mkdtemp(prefix="peercache-threads-", dir="/dev/shm"))
        self.flags = {
            **FLAGS,
            "pool_file": str(self.memory / "pool"),
            "tenants_dir": str(folder / "tenants"),
        }

    def start(self) -> None:
        with self.group.inside():
            self.node: Node = self.cluster.node("limited", **self.flags)
        self.honest = self.engine("honest")
        assert self.honest.ask("set", first=0, count=PAGES)["stored"] == PAGES

    def stop(self) -> None:
        for engine in self.engines:
            engine.kill()
        try:
            self.cluster.stop()
        finally:
            shutil.rmtree(self.memory)
            self.group.remove()

    def socket(self, tenant: str) -> str:
        folder = self.cluster.folder / "tenants" / tenant
        return str(folder / Path(self.node.socket).name)

    def engine(self, name: str) -> EngineProcess:
        folder, path = self.cluster.folder, self.socket("victim")
        self.engines.append(EngineProcess(name, folder, path, timeout_ms=PATIENT_MS))
        return self.engines[-1]

    def pages(self, engine: EngineProcess) -> int:
        """How many of the honest engine's pages one of its tenant reads, every byte checked."""
        done = engine.ask("get", first=0, count=PAGES)
        wrong_bytes.check_none(done["wrong"], engine.output())
        return int(done["hits"])

    def again(self, allowed: int, *options: str) -> Process:
        """The node's next process where so many are allowed: when it is ready, or has ended."""
        command = self.node.popen.args
        assert isinstance(command, list)
        self.group.limit(allowed)
        with self.group.inside():
            process = Process(f"allowed-{allowed}", self.cluster.folder, [*command, *options], {})
            self.cluster.processes.append(process)
            try:
                process.wait_for(f"http://127.0.0.1:{self.node.http_port}/readyz")
            except AssertionError:
                assert process.popen.poll() is not None, process.output()[-4000:]
        return process

    def kept(self) -> int:
        """How many of these pages the next process finds, when this one is killed."""
        for engine in self.engines:
            engine.kill()
        self.node.kill()
        self.group.limit(None)
        self.node = Node(
            "limited",
            self.cluster.folder,
            self.node.peer_port,
            self.cluster.discovery,
            **self.flags,
        )
        self.cluster.processes.append(self.node)
        later = self.engine("later")
        deadline = time.monotonic() + HANG_SECONDS
        while (found := self.pages(later)) < PAGES and time.monotonic() < deadline:
            time.sleep(0.05)
        return found


@pytest.fixture
def limited(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Limited]:
    open_files()
    made = Limited(tmp_path, getattr(request, "param", None))
    try:
        made.start()
        yield made
    finally:
        made.stop()


@contextlib.contextmanager
def memory(size: int) -> Iterator[int]:
    """A file of memory that is there."""
    file = os.memfd_create("region")
    try:
        os.posix_fallocate(file, 0, size)
        yield file
    finally:
        os.close(file)


def share(engine: wire.Engine, number: int, file: int) -> wire.Answer | None:
    """Shares all of the file as a region."""
    region = wire.frame(wire.REGION, struct.pack("<IQQ", number, 0, os.fstat(file).st_size))
    rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [file]))
    engine.socket.sendmsg([region], [rights])
    return engine.receive()


def refusal(path: str) -> str:
    """What an engine is told that cannot attach."""
    with pytest.raises(AssertionError) as refused:
        wire.Engine(path).socket.close()
    return str(refused.value)


def test_an_engine_for_which_there_is_no_thread_costs_nobody_else_anything(
    limited: Limited, table: Table
) -> None:
    """No thread is to be had: a region and one more connection, while others go on."""
    with wire.Engine(limited.socket("attacker")) as attacker, memory(REGION) as file:
        limited.group.limit(NO_MORE)
        answer = share(attacker, 1, file)
        lives = answer is not None and limited.node.popen.poll() is None
        told = refusal(limited.socket("attacker")) if lives else ""
        found = limited.pages(limited.honest) if lives else 0
    kept = limited.kept()
    table(
        f"a region of {REGION} bytes when no thread is left",
        "the node lives, no page goes",
        f"{'lives' if lives else 'aborts'}; {found} of {PAGES} read, {kept} kept",
    )
    assert lives, limited.node.output()[-4000:]
    assert answer is not None
    assert answer.kind == wire.REGION + 1
    assert "pids.max" in told, told
    assert found == PAGES
    assert kept == PAGES, limited.node.output()[-4000:]


def test_a_node_that_may_start_too_few_threads_says_so_and_keeps_its_pages(
    limited: Limited, table: Table
) -> None:
    """Whatever the limit is, as after one that somebody has lowered. Drives come first."""
    drive = limited.cluster.folder / "drive"
    drive.mkdir(mode=0o700)
    disk = (f"--disk-path={drive}", "--disk-size=1Gi", "--disk-io=threads")
    limited.node.kill()
    for allowed in range(TOO_FEW, ENOUGH):
        process = limited.again(allowed, *disk)
        status = process.popen.poll()
        if status is None:
            break
        assert status > 0, process.output()[-4000:]
        assert "pids.max" in process.output(), process.output()[-4000:]
    process.kill()
    kept = limited.kept()
    attack = f"a node starts where {TOO_FEW} to {allowed} threads are allowed"
    table(attack, "it says what it lacks, no page goes", f"{allowed} are enough; {kept} kept")
    assert TOO_FEW < allowed < ENOUGH - 1
    assert kept == PAGES, limited.node.output()[-4000:]


def test_a_tenant_whose_folder_comes_when_no_thread_is_left_is_served_later(
    limited: Limited,
) -> None:
    """Its socket has a thread of its own."""
    folder = limited.cluster.folder / "tenants" / "late"
    limited.group.limit(NO_MORE)
    folder.mkdir()
    deadline = time.monotonic() + HANG_SECONDS
    while "/late: its engines are not served" not in limited.node.output():
        assert limited.node.popen.poll() is None, limited.node.output()[-4000:]
        assert time.monotonic() < deadline, limited.node.output()[-4000:]
        time.sleep(0.05)
    assert limited.pages(limited.honest) == PAGES
    limited.group.limit(None)
    path = str(folder / Path(limited.node.socket).name)
    while True:
        with contextlib.suppress(OSError, AssertionError), wire.Engine(path):
            return
        assert time.monotonic() < deadline, limited.node.output()[-4000:]
        time.sleep(0.05)


@pytest.mark.parametrize("limited", [64], indirect=True)
def test_threads_that_bring_regions_in_are_of_the_same_share(
    limited: Limited, table: Table
) -> None:
    """One engine shares regions as fast as it can, each of which takes a moment to bring in."""
    before = most = limited.group.used()
    path = limited.socket("attacker")
    with wire.Engine(path) as attacker, memory(LARGE_REGION) as file:
        for number in range(REGIONS):
            answer = share(attacker, 1 + number, file)
            assert answer is not None
            assert answer.kind == wire.REGION + 1, answer
            most = max(most, limited.group.used())
        found = limited.pages(limited.engine("victim-later"))
    attack = f"an engine shares {REGIONS} regions of {LARGE_REGION >> 20} MiB"
    table(attack, f"{MOST_OF_64} threads", f"{most - before} threads")
    assert most - before <= MOST_OF_64
    assert found == PAGES


def take(path: str, hog: contextlib.ExitStack) -> tuple[int, str]:
    """Connects until it is refused; how often, and what it is told."""
    taken = 0
    try:
        while taken < MOST:
            session = hog.enter_context(wire.Engine(path)).session
            for _ in range(CONNECTIONS - 1):
                hog.enter_context(wire.Engine(path, session))
                taken += 1
            taken += 1
    except (AssertionError, OSError) as refused:
        return taken, str(refused)
    return taken, ""


@pytest.mark.parametrize("limited", [64, 512], indirect=True)
def test_nobody_takes_all_threads(limited: Limited, table: Table) -> None:
    """One process connects as often as it can; engines of others attach all the same."""
    with contextlib.ExitStack() as hog:
        taken, told = take(limited.socket("attacker"), hog)
        found = limited.pages(limited.honest)
        later = limited.pages(limited.engine("victim-later"))
    attack = f"one process connects without end, and {limited.limit} threads are allowed"
    table(attack, "others attach", f"{taken} connections, then a victim's")
    assert found == PAGES
    assert later == PAGES
    assert "thread" in told, told
    assert "pids.max" in told, told

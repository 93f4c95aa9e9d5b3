"""Engines that share memory without memory behind it: whose it is that the node then touches.

The node runs in a memory cgroup of its own, as a container does; the engine does not.
"""

from __future__ import annotations

import array
import mmap
import os
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .. import wrong_bytes
from ..integration.clients import connect
from ..integration.conftest import Cluster
from ..integration.memory_group import MemoryGroup, Sparse
from ..integration.processes import Node
from ..patience import HANG_SECONDS
from . import wire
from .conftest import Table

MIB = 1 << 20
POOL = 64 * MIB
LIMIT = 512 * MIB
REGION = 128 * MIB
PAGE = 64 << 10
BATCH = 128
PREFIX = bytes(32)
MOST = 4 * MIB  # of the node's own, for what it does with these calls


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Node, MemoryGroup]]:
    cluster = Cluster(tmp_path_factory.mktemp("limited"))
    group = MemoryGroup(f"peercache-hostile-{os.getpid()}", LIMIT)
    try:
        node = cluster.node("limited", pool_size=str(POOL))
        group.add(node.popen.pid)
        yield node, group
    finally:
        cluster.stop()
        group.remove()


def test_memory_that_nobody_has_taken_is_refused(
    limited: tuple[Node, MemoryGroup], table: Table
) -> None:
    """By hand: the client of a release takes the memory before it shares it."""
    node, group = limited
    sparse = Sparse(REGION)
    with wire.Engine(node.socket) as engine:
        before = group.used()
        region = wire.frame(wire.REGION, struct.pack("<IQQ", 1, 0, REGION))
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [sparse.fd]))
        engine.socket.sendmsg([region], [rights])
        answer = engine.receive()
        grown = max(0, group.used() - before)
    assert answer is not None
    table(
        f"an engine shares {REGION // MIB} MiB that have no memory",
        f"refused; {MOST // MIB} MiB",
        f"{'refused' if answer.kind == wire.ERROR else 'taken'}; {grown / MIB:.1f} MiB",
    )
    assert answer.kind == wire.ERROR
    assert b"no memory" in answer.body
    assert sparse.taken() == 0
    assert grown <= MOST
    sparse.close()


REGIONS = 64
MOST_TABLES = 4 * MIB  # of one mapping they are 256 KiB


def tables(node: Node) -> int:
    """Bytes of the node's page tables, when all of its mappings are brought in."""
    status = Path(f"/proc/{node.popen.pid}/status")
    before, now = -1, 0
    while before != now:
        time.sleep(0.5)
        before, now = now, 1024 * int(status.read_text().split("VmPTE:")[1].split()[0])
    return now


def test_many_regions_of_one_file_cost_one_mapping(
    limited: tuple[Node, MemoryGroup], table: Table
) -> None:
    """Page tables count as the node's memory, and each mapping of the file has its own."""
    node, _ = limited
    shared = Sparse(REGION)
    shared.map.write(bytes(REGION))
    with wire.Engine(node.socket) as engine:
        before = tables(node)
        for i in range(REGIONS):
            first = REGION - (REGIONS - i) * mmap.PAGESIZE  # each ends behind all before it
            region = wire.frame(wire.REGION, struct.pack("<IQQ", i, first, mmap.PAGESIZE))
            rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [shared.fd]))
            engine.socket.sendmsg([region], [rights])
            answer = engine.receive()
            assert answer is not None
            assert answer.kind == wire.REGION + 1, answer.body
        grown = max(0, tables(node) - before)
    table(
        f"an engine shares {REGION // MIB} MiB as {REGIONS} regions",
        f"{MOST_TABLES // MIB} MiB of page tables",
        f"{grown / MIB:.1f} MiB",
    )
    assert grown <= MOST_TABLES
    assert node.popen.poll() is None
    shared.map.close()
    shared.close()


@pytest.fixture
def client(limited: tuple[Node, MemoryGroup]) -> Iterator[Any]:
    connected = connect(limited[0].socket)
    yield connected
    connected.close()


@pytest.mark.parametrize("call", ["Sets", "Gets"])
def test_memory_that_an_engine_gives_back_after_it_shared_it(
    limited: tuple[Node, MemoryGroup], client: Any, table: Table, call: str
) -> None:
    """The node takes memory for the holes that it touches. It is that of docs/security.md, under
    what nothing stops; but no more than was shared, which max-engine-memory bounds."""
    node, group = limited
    shared = Sparse(REGION)
    assert client.register_region(shared.fd, shared.base, shared.size) == ""
    assert shared.taken() == REGION
    keys = [f"{i:064x}" for i in range(BATCH)]
    places = [shared.base + i * PAGE for i in range(BATCH)]
    stored = client.set(PREFIX, 1, keys, places, [PAGE] * BATCH)
    assert all(stored), "the pool has room for these"
    shared.map.madvise(mmap.MADV_REMOVE)
    assert shared.taken() == 0
    before = group.used()
    for first in range(0, REGION, BATCH * PAGE):
        places = [shared.base + first + i * PAGE for i in range(BATCH)]
        if call == "Sets":
            fresh = [f"{1 + first:032x}{i:032x}" for i in range(BATCH)]
            client.set(PREFIX, 2, fresh, places, [PAGE] * BATCH)
        else:
            got = client.get(PREFIX, keys, places, [PAGE] * BATCH)
            for i in (i for i, there in enumerate(got) if there):
                page = shared.map[first + i * PAGE : first + (i + 1) * PAGE]
                wrong_bytes.check_page(i, page, bytes(PAGE))
    grown = group.used() - before
    attack = f"an engine gives {REGION // MIB} MiB back that it has shared, then {call}"
    table(attack, "nothing stops it; what it shared", f"{grown / MIB:.1f} MiB")
    assert grown <= REGION + MOST
    assert node.popen.poll() is None
    client.close()
    shared.map.close()
    shared.close()
    deadline = time.monotonic() + HANG_SECONDS
    while group.used() > before + MOST:
        assert time.monotonic() < deadline, "the engine has ended, and its memory is not gone"
        time.sleep(0.05)

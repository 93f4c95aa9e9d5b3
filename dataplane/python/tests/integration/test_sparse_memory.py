"""Shared memory that nobody has touched yet, and a node under a limit of memory.

Memory of a file counts as that of the process that touches it first. It is the engine that has to
be it, or its host pool fills the node's limit.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .. import wrong_bytes
from .clients import connect
from .conftest import Cluster
from .memory_group import MemoryGroup, Sparse
from .processes import Node

MIB = 1 << 20
PAGE = 64 << 10
POOL = 64 * MIB
SPARSE = 512 * MIB
# What a node of this size uses beside its pool, generously, and much less than the sparse memory.
LIMIT = POOL + 192 * MIB
PREFIX = bytes(32)
BATCH = 256


@pytest.fixture
def limited(cluster: Cluster) -> Iterator[tuple[Node, MemoryGroup]]:
    group = MemoryGroup(f"peercache-test-{os.getpid()}", LIMIT)
    node = cluster.node("limited", pool_size=str(POOL))
    group.add(node.popen.pid)
    yield node, group
    node.stop()
    group.remove()


@pytest.fixture
def client(limited: tuple[Node, MemoryGroup]) -> Iterator[Any]:
    connected = connect(limited[0].socket)
    yield connected
    connected.close()


@pytest.mark.node
def test_sparse_memory_counts_as_the_engines(
    limited: tuple[Node, MemoryGroup], client: Any
) -> None:
    node, group = limited
    sources, targets = Sparse(SPARSE), Sparse(SPARSE)
    assert sources.taken() == targets.taken() == 0
    for memory in (sources, targets):
        assert client.register_region(memory.fd, memory.base, memory.size) == ""
        assert memory.taken() == SPARSE, "the engine took it, before the node could"
    keys = [f"{i:064x}" for i in range(SPARSE // PAGE)]
    delivered = 0  # the pool is full most of the time, and refuses what comes too fast
    for first in range(0, len(keys), BATCH):
        sources.map[first * PAGE] = 7  # the other pages of the batch were never written
        batch = range(first, first + BATCH)
        named, sizes = [keys[i] for i in batch], [PAGE] * BATCH
        client.set(PREFIX, 1, named, [sources.base + i * PAGE for i in batch], sizes)
        got = client.get(PREFIX, named, [targets.base + i * PAGE for i in batch], sizes)
        delivered += sum(got)
        for i in (i for i, there in zip(batch, got, strict=True) if there):
            page = slice(i * PAGE, (i + 1) * PAGE)
            wrong_bytes.check_page(i, targets.map[page], sources.map[page])
    assert delivered >= POOL // PAGE // 2
    assert node.popen.poll() is None, node.output()
    assert group.used() < LIMIT - 32 * MIB, "what the kernel reclaims at the limit does not hide it"
    assert client.stats()["faults"] == 0, client.stats()["last_fault"]
    sources.close()
    targets.close()


@pytest.mark.node
def test_an_engine_without_a_node_takes_none(tmp_path: Path) -> None:
    connected, memory = connect(str(tmp_path / "absent.sock")), Sparse(SPARSE)
    assert connected.register_region(memory.fd, memory.base, memory.size) == ""
    assert memory.taken() == 0
    connected.close()
    memory.close()

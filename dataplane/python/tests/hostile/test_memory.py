"""What those cost a real node who announce much and send little, and what the honest feel of it.

The honest are a peer (Lookup) and an engine (Exists) that call at once, with frames that need
memory of the budget. Measured are their calls for each second of processor time, of theirs and the
node's: what a machine with other work does in a second says nothing. Whoever waits uses no
processor; so each must also make calls at all, of which two would fill the time if they waited for
somebody to give way. It is done without and with the others, in pairs. These send first, which
takes processors that the honest would need, and are counted when they sit there: what they hold
then is what they attack with.

Kernel memory is not the node's: tcp_rmem and wmem_max bound it for each connection, tcp_mem and the
container's limit for all.
"""

from __future__ import annotations

import contextlib
import os
import resource
import statistics
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..integration.conftest import Cluster
from ..integration.processes import Node
from . import wire
from .conftest import TOKEN, Table
from .test_http import series

STRANGERS, PEERS, ENGINES = 500, 500, 64
# Of a source address: a node lets 256 strangers of one in.
STRANGERS_PER_SOURCE = 100
# Most of what a peer announces does not come; some send until the node takes no more.
PARTS = (100, 64 << 10, 256 << 10)
EAGER_PEERS = 20
ENGINE_PART = 1 << 20
MAX_GROWTH = 64 << 20
MIN_RATIO = 0.9
PAIRS = 9
MEASURED_SECONDS = 0.7
KEYS = 1500
LEAST_CALLS = 10


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    cluster = Cluster(tmp_path_factory.mktemp("memory"))
    token = cluster.folder / "token"
    token.write_text(TOKEN)
    try:
        # One process may have half of the engines.
        engines = str(2 * (ENGINES + 8))
        yield cluster.node(
            "bounded", pool_size="64Mi", auth_token_file=str(token), max_engines=engines
        )
    finally:
        cluster.stop()


@pytest.fixture(autouse=True)
def descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Honest:
    """A connection that asks one question after another."""

    def __init__(self, connection: wire.Connection, question: bytes) -> None:
        self.connection = connection
        self.question = question
        self.calls = 0

    def run(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        self.calls = 0
        while time.monotonic() < end:
            self.connection.send(self.question)
            answer = self.connection.receive()
            assert answer is not None
            assert answer.kind in (wire.LOOKUP + 1, wire.EXISTS + 1), answer.body
            self.calls += 1


def processor_seconds(node: Node) -> float:
    """Of the node, with threads of it that have ended, and of this process."""
    stat = Path(f"/proc/{node.popen.pid}/stat").read_text().rpartition(")")[2].split()
    user, system = int(stat[11]), int(stat[12])
    return (user + system) / os.sysconf("SC_CLK_TCK") + time.process_time()


def throughput(node: Node, honest: list[Honest]) -> float:
    """Calls for each second of processor time."""
    threads = [threading.Thread(target=h.run, args=(MEASURED_SECONDS,)) for h in honest]
    start = processor_seconds(node)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    used = processor_seconds(node) - start
    assert min(h.calls for h in honest) >= LEAST_CALLS, [h.calls for h in honest]
    return sum(h.calls for h in honest) / used


@contextlib.contextmanager
def announced(node: Node) -> Iterator[None]:
    """Connections that have announced the largest body and sent a part of it."""
    largest = wire.frame(wire.LOOKUP, bytes(wire.MAX_BODY))
    hello = wire.frame(wire.HELLO, bytes(8000), length=8100)
    pages = wire.frame(wire.SET, bytes(ENGINE_PART), length=wire.MAX_BODY)
    with contextlib.ExitStack() as all_of_them:
        for i in range(PEERS):
            peer = all_of_them.enter_context(wire.Peer(node.peer_port).join(TOKEN))
            part = len(largest) if i < EAGER_PEERS else PARTS[i % len(PARTS)]
            peer.send_what_is_taken(largest[:part])
        for _ in range(ENGINES):
            engine = all_of_them.enter_context(wire.Engine(node.socket))
            engine.send_what_is_taken(pages)
        for i in range(STRANGERS):
            source = f"127.0.0.{2 + i // STRANGERS_PER_SOURCE}"
            stranger = all_of_them.enter_context(wire.Peer(node.peer_port, source=source))
            stranger.send_what_is_taken(hello)
        yield


def await_end(node: Node, connections: float) -> None:
    """Until no more peers are connected than before, and nothing is held."""
    deadline = time.monotonic() + wire.PATIENCE_SECONDS
    while (
        series(node, "peercache_peer_connections") > connections
        or series(node, "peercache_frame_memory_bytes") > 0
    ):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_announced_bodies_cost_little(node: Node, table: Table) -> None:
    with (
        wire.Peer(node.peer_port).join(TOKEN) as peer,
        wire.Engine(node.socket) as engine,
    ):
        honest = [Honest(peer, wire.lookup(KEYS)), Honest(engine, wire.exists(KEYS))]
        throughput(node, honest)
        connections = series(node, "peercache_peer_connections")
        memory = node.own_memory()
        ratios = []
        grown = 0
        for _ in range(PAIRS):
            before = throughput(node, honest)
            with announced(node):
                grown = max(grown, node.own_memory() - memory)
                meanwhile = throughput(node, honest)
                grown = max(grown, node.own_memory() - memory)
            await_end(node, connections)
            ratios.append(meanwhile / before)
        attack = f"{STRANGERS} strangers, {PEERS} members, {ENGINES} engines announce 16 MiB"
        measured = f"{grown / (1 << 20):.1f} MiB, {statistics.median(ratios):.2f}"
        table(attack, "64 MiB, 0.9 of the throughput", measured)
        assert grown <= MAX_GROWTH, f"{grown >> 20} MiB"
        assert statistics.median(ratios) >= MIN_RATIO, ratios
        limit = series(node, "peercache_frame_memory_limit_bytes")
        assert series(node, "peercache_frame_memory_most_bytes") <= limit
        assert series(node, "peercache_frame_memory_cut_off_total") > 0


def test_the_memory_is_given_back(node: Node) -> None:
    connections = series(node, "peercache_peer_connections")
    with announced(node):
        pass
    await_end(node, connections)

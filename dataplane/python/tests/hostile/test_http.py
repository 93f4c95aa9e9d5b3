"""Strangers fill the HTTP port of a real node, and the kubelet's probes of it are answered."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import random
import resource
import select
import socket
import statistics
import struct
import time
from collections.abc import Callable, Iterator

import pytest

from ..integration.processes import Node
from .conftest import Table, Target

STRANGERS = 1000
ROUNDS = 5
# Of each path, in a round. Only the first comes right behind hundreds that return.
PROBES = 4
PAUSE_SECONDS = 0.025
# Every probe is answered, half of them quickly: the machine may have other work.
PATIENCE_SECONDS = 10
QUICK_SECONDS = 0.1
MAX_MEMORY_GROWTH = 32 << 20  # without the pool
MAX_CONNECTIONS = 256 + 64  # and those that were dropped, before they are closed

Speech = Callable[[int], bytes]
DRIPS = b"GET /healthz HTTP/1.1\r\nX: " + b"x" * ROUNDS
NOISE = random.Random(1).randbytes(ROUNDS * 200)


def idle(_: int) -> bytes:
    return b""


def drips(at: int) -> bytes:
    return DRIPS[at : at + 1]


def garbage(at: int) -> bytes:
    return NOISE[at * 200 : (at + 1) * 200]


def asks_and_reads_nothing(at: int) -> bytes:
    return b"" if at else b"GET /metrics HTTP/1.1\r\nHost: node\r\n\r\n"


class Stranger:
    """A connection that says something each round, and comes back when it was closed."""

    def __init__(self, port: int, speech: Speech) -> None:
        self.port = port
        self.speech = speech
        self.connect()

    def connect(self) -> None:
        self.rounds = itertools.count()
        self.socket = socket.socket()
        self.socket.setblocking(False)
        # The port is free again at once: thousands would be missed by the tests that follow.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.connect_ex(("127.0.0.1", self.port))

    def disturb(self) -> None:
        entry = select.poll()
        entry.register(self.socket, select.POLLRDHUP | select.POLLOUT)
        events = sum(event for _, event in entry.poll(0))
        if events & ~select.POLLOUT:
            self.socket.close()
            self.connect()
        elif events:
            with contextlib.suppress(OSError):
                self.socket.send(self.speech(next(self.rounds)))


@pytest.fixture
def descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def probe(port: int, path: str) -> float:
    """Asks as the kubelet does; the seconds it took."""
    start = time.monotonic()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
    try:
        connection.request("GET", path, headers={"Connection": "close"})
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (200, b"ok\n"), path
    finally:
        connection.close()
    return time.monotonic() - start


def series(node: Node, name: str) -> float:
    return next(float(v) for k, v in map(str.split, samples(node)) if k == name)


def samples(node: Node) -> list[str]:
    return [line for line in node.metrics().splitlines() if not line.startswith("#")]


@pytest.mark.usefixtures("descriptors")
@pytest.mark.parametrize("speech", [idle, drips, garbage, asks_and_reads_nothing])
def test_probes_are_answered_while_strangers_fill_the_port(
    target: Target, table: Table, speech: Speech
) -> None:
    node, memory = target.node, target.memory()
    strangers = [Stranger(node.http_port, speech) for _ in range(STRANGERS)]
    took = []
    try:
        for _ in range(ROUNDS):
            for stranger in strangers:
                stranger.disturb()
            for _ in range(PROBES):
                took += [probe(node.http_port, path) for path in ("/healthz", "/readyz")]
                time.sleep(PAUSE_SECONDS)
        quick = statistics.median(took)
        attack = f"{STRANGERS} connections to the HTTP port: {speech.__name__}"
        table(attack, "probes within 100 ms", f"{quick * 1000:.0f} ms, longest {max(took):.2f} s")
        assert quick < QUICK_SECONDS, took
        assert series(node, "peercache_http_connections") <= MAX_CONNECTIONS
        assert target.memory() < memory + MAX_MEMORY_GROWTH
        assert series(node, 'peercache_http_dropped_total{reason="crowded_out"}') > 0
    finally:
        for stranger in strangers:
            stranger.socket.close()

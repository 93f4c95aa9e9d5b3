"""Strangers fill the HTTP port of a real node, and the kubelet's probes of it are answered.

They are a process of their own, at the least priority: what is measured is the node.
"""

from __future__ import annotations

import http.client
import statistics
import time
from collections.abc import Iterator, Sequence

import pytest

from ..integration.conftest import Cluster
from ..integration.processes import Node
from ..patience import HANG_SECONDS
from .conftest import Table, Target
from .crowd import SPEECHES, crowd

STRANGERS = 1000
EVERY_SECONDS = 0.2  # each of them says something, or comes back when it was closed
PROBES = 100  # of each path
PAUSE_SECONDS = 0.01
# Nine of ten probes take at most so many times the median of a node that nobody attacks, and so
# much more. Where probes wait for strangers, most of them take seconds.
TIMES = 10
QUICK_SECONDS = 0.1
MAX_MEMORY_GROWTH = 32 << 20  # without the pool
MAX_CONNECTIONS = 256 + 64  # and those that were dropped, before they are closed


def probe(port: int, path: str) -> float:
    """Asks as the kubelet does; the seconds it took."""
    start = time.monotonic()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=HANG_SECONDS)
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


def probes(ports: Sequence[int]) -> list[list[float]]:
    """Of each port, asked in turns."""
    took: list[list[float]] = [[] for _ in ports]
    for _ in range(PROBES):
        for port, seconds in zip(ports, took, strict=True):
            seconds += [probe(port, path) for path in ("/healthz", "/readyz")]
        time.sleep(PAUSE_SECONDS)
    return took


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node that nobody attacks, which shares the machine."""
    cluster = Cluster(tmp_path_factory.mktemp("calm"))
    try:
        yield cluster.node("calm")
    finally:
        cluster.stop()


@pytest.mark.parametrize("speech", SPEECHES)
def test_probes_are_answered_while_strangers_fill_the_port(
    target: Target, calm: Node, table: Table, speech: str
) -> None:
    node, memory = target.node, target.memory()
    options = {"port": node.http_port, "speech": speech, "count": STRANGERS}
    with crowd("http_strangers", every=EVERY_SECONDS, **options) as strangers:
        strangers.done()
        took, control = probes([node.http_port, calm.http_port])
        done = strangers.done()
        deadline = time.monotonic() + HANG_SECONDS
        while not done.again:  # at the least priority they come late on a busy machine
            assert time.monotonic() < deadline, "nobody is crowded out"
            time.sleep(PAUSE_SECONDS)
            done = strangers.done()
        connections = series(node, "peercache_http_connections")
        grown = target.memory() - memory
    attack = f"{STRANGERS} connections to the HTTP port: {speech}"
    usual = statistics.median(control)
    most = sorted(took)[len(took) * 9 // 10]
    bound = TIMES * usual + QUICK_SECONDS
    measured = f"{most * 1000:.1f} ms, longest {max(took) * 1000:.1f} ms"
    came = f"{done.said + done.again} connections and messages meanwhile"
    table(attack, f"9 of 10 probes within {bound * 1000:.0f} ms", f"{measured}; {came}")
    assert most <= bound, sorted(took)
    assert connections <= MAX_CONNECTIONS
    assert grown < MAX_MEMORY_GROWTH
    assert series(node, 'peercache_http_dropped_total{reason="crowded_out"}') > 0

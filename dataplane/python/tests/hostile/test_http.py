"""Strangers fill the HTTP port of a real node, and the kubelet's probes of it are answered.

They are a process of their own, at the least priority: what is measured is the node.
"""

from __future__ import annotations

import http.client
import statistics
import time

import pytest

from ..integration.processes import Node
from .conftest import Table, Target
from .crowd import SPEECHES, crowd

STRANGERS = 1000
EVERY_SECONDS = 0.2  # each of them says something, or comes back when it was closed
PROBES = 100  # of each path
PAUSE_SECONDS = 0.01
PATIENCE_SECONDS = 10
QUICK_SECONDS = 0.1
MAX_MEMORY_GROWTH = 32 << 20  # without the pool
MAX_CONNECTIONS = 256 + 64  # and those that were dropped, before they are closed


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


def probes(port: int) -> list[float]:
    took = []
    for _ in range(PROBES):
        took += [probe(port, path) for path in ("/healthz", "/readyz")]
        time.sleep(PAUSE_SECONDS)
    return took


@pytest.mark.parametrize("speech", SPEECHES)
def test_probes_are_answered_while_strangers_fill_the_port(
    target: Target, table: Table, speech: str
) -> None:
    node, memory = target.node, target.memory()
    options = {"port": node.http_port, "speech": speech, "count": STRANGERS}
    with crowd("http_strangers", every=EVERY_SECONDS, **options) as strangers:
        strangers.done()
        took = probes(node.http_port)
        if max(took) > QUICK_SECONDS:  # other work of the machine delays one in thousands
            took = probes(node.http_port)
        done = strangers.done()
        connections = series(node, "peercache_http_connections")
        grown = target.memory() - memory
    attack = f"{STRANGERS} connections to the HTTP port: {speech}"
    measured = f"{max(took) * 1000:.1f} ms, median {statistics.median(took) * 1000:.1f} ms"
    came = f"{done.said + done.again} connections and messages meanwhile"
    table(attack, "every probe within 100 ms", f"{measured}; {came}")
    assert max(took) <= QUICK_SECONDS, sorted(took)[-10:]
    assert connections <= MAX_CONNECTIONS
    assert grown < MAX_MEMORY_GROWTH
    assert done.again > 0
    assert series(node, 'peercache_http_dropped_total{reason="crowded_out"}') > 0

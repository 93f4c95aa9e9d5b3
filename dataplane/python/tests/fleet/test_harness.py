"""The fault tests' own tools do what they say: else every scenario would prove nothing."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

from . import calls, pages
from .network import Host, Network, inside

PORT = 5000
# Datagrams that surely fit a socket's buffer while its reader waits for the processor.
BURST = 100
# What a loaded machine may add to a delay.
SCHEDULING_SECONDS = 0.05


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    with Network() as made:
        yield made


@pytest.fixture(scope="module")
def hosts(network: Network) -> list[Host]:
    return [network.host("a"), network.host("b"), network.host("far", delayed=True)]


class Echo:
    """A UDP and a TCP echo on a host."""

    def __init__(self, host: Host) -> None:
        self.udp: socket.socket = inside(host.namespace, lambda: socket.socket(type=2))
        self.udp.bind((host.address, PORT))
        self.tcp: socket.socket = inside(
            host.namespace, lambda: socket.create_server((host.address, PORT))
        )
        for work in (self._answer_udp, self._answer_tcp):
            threading.Thread(target=work, daemon=True).start()

    def _answer_udp(self) -> None:
        while True:
            data, sender = self.udp.recvfrom(2000)
            self.udp.sendto(data, sender)

    def _answer_tcp(self) -> None:
        while True:
            connection, _ = self.tcp.accept()
            connection.sendall(connection.recv(1))
            connection.close()


@pytest.fixture(scope="module")
def echoes(hosts: list[Host]) -> dict[str, Echo]:
    return {host.name: Echo(host) for host in hosts}


def answered(source: Host, target: Host, count: int = 1) -> int:
    """How many of ``count`` datagrams come back."""
    probe: socket.socket = inside(source.namespace, lambda: socket.socket(type=2))
    seen = set()
    for first in range(0, count, BURST):
        burst = range(first, min(count, first + BURST))
        for i in burst:
            probe.sendto(b"%d" % i, (target.address, PORT))
        probe.settimeout(0.3)
        try:
            for _ in burst:
                seen.add(probe.recv(100))
        except TimeoutError:
            continue
    probe.close()
    return len(seen)


def connects(source: Host, target: Host) -> bool:
    try:
        made: socket.socket = inside(
            source.namespace, lambda: socket.create_connection((target.address, PORT), timeout=0.5)
        )
    except OSError:
        return False
    made.close()
    return True


@pytest.mark.node
def test_cuts_have_a_direction(
    network: Network, hosts: list[Host], echoes: dict[str, Echo]
) -> None:
    a, b, far = hosts
    assert answered(a, b) == answered(b, far) == 1
    network.apply(Network.cut(a, b))
    # What b answers arrives, but it hears nothing of a; b's question arrives, the answer does not.
    assert answered(a, b) == answered(b, a) == 0
    assert answered(a, far) == answered(b, far) == 1
    echoes["b"].udp.sendto(b"x", (a.address, 9))  # the other direction is open
    network.apply(Network.isolate(b))
    assert answered(a, b) == answered(b, far) == 0
    assert answered(a, far) == 1
    network.heal()
    assert answered(a, b) == answered(b, far) == 1


@pytest.mark.node
def test_a_refused_port_leaves_its_hosts_own_connections(
    network: Network, hosts: list[Host], echoes: dict[str, Echo]
) -> None:
    a, b, _ = hosts
    network.apply(Network.refuse_connections(b, PORT))
    assert not connects(a, b)
    assert connects(b, a)
    network.heal()
    assert connects(a, b)


@pytest.mark.node
def test_loss_is_what_it_says(network: Network, hosts: list[Host], echoes: dict[str, Echo]) -> None:
    a, b, far = hosts
    network.apply(Network.loss(5))
    back = answered(a, b, 2000)
    assert 0.87 < back / 2000 < 0.93  # 0.95 squared = 0.9025
    network.apply(Network.loss(20, far))
    assert answered(a, b, 100) == 100
    assert 0.5 < answered(a, far, 400) / 400 < 0.78
    network.heal()


@pytest.mark.node
def test_a_delayed_cable_is_exact(
    network: Network, hosts: list[Host], echoes: dict[str, Echo]
) -> None:
    a, b, far = hosts
    for delay in (0, 100):
        network.delay(delay)
        for target, expected in ((b, 0.0), (far, 2 * delay / 1000)):
            probe: socket.socket = inside(a.namespace, lambda: socket.socket(type=2))
            took = []
            for _ in range(10):
                start = time.monotonic()
                probe.sendto(b"x", (target.address, PORT))
                probe.recv(10)
                took.append(time.monotonic() - start)
            probe.close()
            assert expected <= min(took) < expected + SCHEDULING_SECONDS
    network.delay(0)


def test_wrong_bytes_are_found() -> None:
    words = pages.content(7)
    assert pages.matches(words, 7)
    assert not pages.matches(words, 8)
    assert not pages.matches(np.roll(words, 1), 7)
    changed = words.copy()
    changed[-1] ^= np.uint64(1)
    assert not pages.matches(changed, 7)
    assert "of page 9" in pages.describe(pages.content(9), 7, range(20))
    assert "never written" in pages.describe(np.full_like(words, pages.POISON), 7, range(20))


def test_disturbances_are_timed() -> None:
    rows = []
    for i in range(1000):  # 10 s; from 4.0 to 5.5 s holder 1 misses
        at = i / 100
        hit = 0 if 4.0 <= at < 5.5 else 8
        others = [0] * (calls.MOST_HOLDERS - 2)
        counts = [[8, 8, *others], [8, hit, *others]]
        rows.append((at, 0.001, calls.GET, *counts, 0))
    log = np.array(rows, dtype=calls.CALL)
    assert calls.seconds_until_full(log, 4.0, 10, [1]) == pytest.approx(1.5)
    assert calls.seconds_until_full(log, 4.0, 10, [0]) == 0
    assert calls.hit_rate(calls.between(log, 0, 4), [0, 1]) == 1
    assert calls.hit_rate(log, [1]) == pytest.approx(0.85)

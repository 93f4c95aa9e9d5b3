"""Ports that one process has alone."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest
from peercache_bench import ports
from peercache_bench.errors import BenchError
from peercache_bench.ports import claim, free_port

from ..conftest import PYTHON

EACH = 100
CLAIMER = f"""
import sys
from peercache_bench.ports import free_port
for _ in range({EACH}):
    print(free_port(), flush=True)
sys.stdin.read()  # has them as long as the others claim
"""


def test_processes_never_get_the_same() -> None:
    command = [sys.executable, "-c", CLAIMER]
    others = [
        subprocess.Popen(
            command, cwd=PYTHON, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    given = []
    for _ in range(EACH):
        given.append(free_port())
        for other in others:
            assert other.stdout
            given.append(int(other.stdout.readline()))
            assert claim(given[-1]) is None
    assert len(set(given)) == 3 * EACH
    for other in others:
        other.communicate()
        assert other.returncode == 0


def test_a_port_in_use_is_not_given() -> None:
    with socket.socket() as server:  # of somebody who knows nothing of claims
        server.bind(("127.0.0.1", 0))
        server.listen()
        assert claim(server.getsockname()[1]) is None


def test_where_none_is_free_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    monkeypatch.setattr(ports, "FIRST", port)
    monkeypatch.setattr(ports, "_end", lambda: port + 1)
    with pytest.raises(BenchError, match=f"no TCP port from {port} to {port + 1} is free"):
        free_port()

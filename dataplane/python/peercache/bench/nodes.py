"""peercached processes on loopback, for as long as a measurement lasts."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

READY_SECONDS = 60


class BenchError(Exception):
    """A measurement that could not be made; the message says what to do."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class BenchNode:
    """One running peercached."""

    name: str
    socket: Path
    peer_port: int
    http_port: int
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    def counters(self) -> dict[str, int]:
        url = f"http://127.0.0.1:{self.http_port}/v1/status"
        with urllib.request.urlopen(url, timeout=10) as answer:
            status: dict[str, Any] = json.load(answer)
        counters: dict[str, int] = status["counters"]
        return counters

    def wait_ready(self) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while True:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise BenchError(
                    f"node {self.name} did not become ready; its log says:\n"
                    + self.log.read_text(errors="replace")[-2000:]
                )
            with contextlib.suppress(OSError, urllib.error.URLError):
                urllib.request.urlopen(f"http://127.0.0.1:{self.http_port}/readyz", timeout=5)
                return
            time.sleep(0.05)


@contextlib.contextmanager
def loopback_nodes(build: Path, pools: dict[str, str]) -> Iterator[dict[str, BenchNode]]:
    """Starts one node for each name, with a pool of that size, and stops them at the end."""
    binary = build / "peercached"
    if not os.access(binary, os.X_OK):
        raise BenchError(f"{binary} does not exist: build the data plane with `make build`")
    nodes: dict[str, BenchNode] = {}
    discovery = ""
    with tempfile.TemporaryDirectory(prefix="peercache-bench-") as folder:
        try:
            for name, pool in pools.items():
                peer_port, http_port = free_port(), free_port()
                discovery = discovery or f"127.0.0.1:{peer_port}"
                options = {
                    "node-id": name,
                    "cluster": "bench",
                    "socket": f"{folder}/{name}.sock",
                    "pool-size": pool,
                    "peer-port": str(peer_port),
                    "http-port": str(http_port),
                    "bind-addr": "127.0.0.1",
                    "discovery-addr": discovery,
                    "log-level": "warn",
                }
                log = Path(folder) / f"{name}.log"
                with log.open("wb") as output:
                    process = subprocess.Popen(
                        [str(binary), *(w for k, v in options.items() for w in (f"--{k}", v))],
                        stdout=output,
                        stderr=subprocess.STDOUT,
                    )
                nodes[name] = BenchNode(
                    name, Path(options["socket"]), peer_port, http_port, process, log
                )
            for node in nodes.values():
                node.wait_ready()
            yield nodes
        finally:
            for node in nodes.values():
                node.process.kill()
                node.process.wait()

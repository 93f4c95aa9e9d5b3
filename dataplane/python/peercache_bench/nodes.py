"""peercached processes on loopback, for as long as a measurement lasts."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peercache_bench.binaries import find
from peercache_bench.errors import BenchError
from peercache_bench.ports import free_port

# Nodes of measurements do not mix with others.
CLUSTER = "bench"
READY_SECONDS = 60
# A node that is asked to leave says so to the others first.
LEAVE_SECONDS = 25
# CPU time a resting node uses in a fifth of a second, at most.
REST_CPU_SECONDS = 0.02
SETTLE_SECONDS = 15
_MISSES = re.compile(
    r'^peercache_(?:read_misses_total\{.*?reason="(\w+)".*?\}|slower_pages_total\S*) (\S+)$', re.M
)


@dataclass(frozen=True)
class Place:
    """Where a node runs: its address, and the words before a command that run it there."""

    address: str = "127.0.0.1"
    within: tuple[str, ...] = ()


HERE = Place()


@dataclass
class BenchNode:
    """One running peercached."""

    name: str
    socket: Path
    peer_port: int
    http_port: int
    process: subprocess.Popen[bytes]
    log: Path
    address: str = HERE.address

    @property
    def pid(self) -> int:
        return self.process.pid

    def _url(self, path: str) -> str:
        return f"http://{self.address}:{self.http_port}{path}"

    def status(self) -> dict[str, Any]:
        with urllib.request.urlopen(self._url("/v1/status"), timeout=10) as answer:
            status: dict[str, Any] = json.load(answer)
        return status

    def missed(self) -> dict[str, int]:
        """Pages that the node has not delivered to its engines, by reason."""
        with urllib.request.urlopen(self._url("/metrics"), timeout=10) as answer:
            return misses(answer.read().decode())

    def counters(self) -> dict[str, int]:
        counters: dict[str, int] = self.status()["counters"]
        return counters

    def wait_ready(self) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while True:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise BenchError(
                    f"node {self.name} did not become ready; its log:\n"
                    + self.log.read_text(errors="replace")[-2000:]
                )
            with contextlib.suppress(OSError, urllib.error.URLError):
                urllib.request.urlopen(self._url("/readyz"), timeout=5)
                return
            time.sleep(0.01)

    def settle(self) -> None:
        """Waits until the node rests: the memory of its pool is there, its members are known."""
        deadline = time.monotonic() + SETTLE_SECONDS
        used = cpu_seconds(self.pid)
        while time.monotonic() < deadline:
            time.sleep(0.2)
            before, used = used, cpu_seconds(self.pid)
            if used - before <= REST_CPU_SECONDS:
                return


def misses(metrics: str) -> dict[str, int]:
    """By reason; of pages that were found and not promised, too, whose reason is "slower"."""
    found: dict[str, int] = {}
    for reason, pages in _MISSES.findall(metrics):
        name = reason or "slower"
        found[name] = found.get(name, 0) + int(float(pages))
    return found


def cpu_seconds(pid: int) -> float:
    """CPU time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def start_node(
    build: Path | None, folder: Path, options: dict[str, str], place: Place = HERE
) -> BenchNode:
    """Starts peercached; it is not ready yet. ``options`` name at least node-id and both ports."""
    name = options["node-id"]
    # Each thread of a measurement is an engine, and one process may have half of them.
    ours = {"socket": str(folder / f"{name}.sock"), "log-level": "warn", "max-engines": "1024"}
    options = {**ours, **options}
    log = folder / f"{name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                *place.within,
                str(find("peercached", build)),
                *(f"--{k}={v}" for k, v in options.items()),
            ],
            stdout=output,
            stderr=subprocess.STDOUT,
            # Ctrl-C is for us; we stop the node when its work is done.
            start_new_session=True,
        )
    ports = int(options["peer-port"]), int(options["http-port"])
    return BenchNode(name, Path(options["socket"]), *ports, process, log, place.address)


def stop_node(node: BenchNode) -> None:
    """Lets it leave the cluster."""
    node.process.terminate()
    try:
        node.process.wait(LEAVE_SECONDS)
    except subprocess.TimeoutExpired:
        node.process.kill()
        node.process.wait()


@contextlib.contextmanager
def loopback_nodes(
    build: Path | None,
    pools: dict[str, str],
    options: dict[str, str] | None = None,
    places: Mapping[str, Place] | None = None,
) -> Iterator[dict[str, BenchNode]]:
    """Starts one node for each name, with a pool of that size, and kills them at the end.

    ``places`` names the nodes that are not on loopback.
    """
    nodes: dict[str, BenchNode] = {}
    discovery = ""
    with tempfile.TemporaryDirectory(prefix="peercache-bench-") as folder:
        try:
            for name, pool in pools.items():
                place = (places or {}).get(name, HERE)
                peer_port, http_port = free_port(), free_port()
                discovery = discovery or f"{place.address}:{peer_port}"
                nodes[name] = start_node(
                    build,
                    Path(folder),
                    {
                        "node-id": name,
                        "cluster": CLUSTER,
                        "pool-size": pool,
                        "peer-port": str(peer_port),
                        "http-port": str(http_port),
                        "bind-addr": place.address,
                        "discovery-addr": discovery,
                        "map-pools": "off",  # nodes stand for machines
                        **({} if place is HERE else {"insecure-peers": "on"}),
                        **(options or {}),
                    },
                    place,
                )
            for node in nodes.values():
                node.wait_ready()
            yield nodes
        finally:
            for node in nodes.values():
                node.process.kill()
                node.process.wait()

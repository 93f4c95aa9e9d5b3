"""Nodes on the rails of hack/soft-rdma/fabric.sh."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ..conftest import ROOT
from ..fleet import calls, pages
from ..fleet.network import Host
from ..fleet.nodes import Fleet, Node

# Seconds that any state may take to come about.
LONGEST_WAIT = 60.0
PAGES_EACH = 100
# Of each thread of an engine, between two calls.
PAUSE_SECONDS = 0.02
HOSTS = [Host("a", "A", "10.10.0.1"), Host("b", "B", "10.10.0.2")]


def wait_until(holds: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + LONGEST_WAIT
    while not holds():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.05)


def fabric(command: str) -> None:
    script = f". hack/soft-rdma/fabric.sh; {command}"
    subprocess.run(["bash", "-euo", "pipefail", "-c", script], cwd=ROOT, check=True)


class RailNode(Node):
    """A node that sees the devices of its host in /sys."""

    def enter(self, host: Host) -> list[str]:
        return ["ip", "netns", "exec", host.namespace]


class RailFleet(Fleet):
    """Nodes that use the two rails of their host."""

    def __init__(self, folder: Path, pages_each: int, holders: int | None = None) -> None:
        # Pages that are read often would be copied, and then not be read again.
        super().__init__(folder, None, HOSTS, pages_each, holders, promotion_percent="0")

    def _node(self, i: int) -> Node:
        host = self.hosts[i]
        rails = {"transport": "rdma", "device_name": f"rxe_{host.name}0,rxe_{host.name}1"}
        return RailNode(host, self.folder, self.discovery, {**self.flags, **rails})

    def begin_load(self, readers: Sequence[int], **options: object) -> None:
        # Without rest, each step of a test would wait for the guest's one processor.
        super().begin_load(readers, pause=PAUSE_SECONDS, **options)

    def read_bytes(self, node: int, rail: int) -> float:
        """What the node has read over the rail."""
        name = f'rail="rxe_{self.hosts[node].name}{rail}'
        return sum(
            value
            for sample, value in self.nodes[node].metrics().items()
            if sample.startswith("peercache_rail_read_bytes_total{") and name in sample
        )


def no_wrong_byte(log: calls.Calls, fleet: RailFleet) -> None:
    assert len(log) > 0
    assert log["wrong"].sum() == 0, "\n".join(engine.output() for engine in fleet.engines)


def wait_for_rail(fleet: RailFleet, node: int, rail: int) -> None:
    """Until the node has read ten pages more over the rail."""
    enough = fleet.read_bytes(node, rail) + 10 * pages.PAGE_BYTES

    def used() -> bool:
        fleet.wait_full(LONGEST_WAIT)
        return fleet.read_bytes(node, rail) >= enough

    wait_until(used, f"node {node} does not read over rail {rail}")

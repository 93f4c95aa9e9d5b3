"""Two real nodes, each with an engine, on the rails of hack/soft-rdma/fabric.sh: every byte is
checked while they read one another's pages, a rail fails, a node dies.

Runs in a guest, by hack/soft-rdma/tests/40-nodes.sh.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator

import pytest

from ..conftest import ROOT
from ..fleet import calls, pages
from ..fleet.network import Host
from ..fleet.nodes import Fleet, Node

HOSTS = [Host("a", "A", "10.10.0.1"), Host("b", "B", "10.10.0.2")]
PAGES_EACH = 100
# A guest has one processor.
SETTLED_SECONDS = 3.0
LONGEST_CALL_SECONDS = 5.0


class RailNode(Node):
    """A node that sees the devices of its host in /sys."""

    def enter(self, host: Host) -> list[str]:
        return ["ip", "netns", "exec", host.namespace]


class RailFleet(Fleet):
    """Nodes that use the two rails of their host."""

    def _node(self, i: int) -> Node:
        host = self.hosts[i]
        rails = {"transport": "rdma", "device_name": f"rxe_{host.name}0,rxe_{host.name}1"}
        return RailNode(host, self.folder, self.discovery, {**self.flags, **rails})

    def read_bytes(self, node: int, rail: int) -> float:
        """What the node has read over the rail."""
        name = f'rail="rxe_{self.hosts[node].name}{rail}'
        return sum(
            value
            for sample, value in self.nodes[node].metrics().items()
            if sample.startswith("peercache_rail_read_bytes_total{") and name in sample
        )


def fabric(command: str) -> None:
    script = f". hack/soft-rdma/fabric.sh; {command}"
    subprocess.run(["bash", "-euo", "pipefail", "-c", script], cwd=ROOT, check=True)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RailFleet]:
    # Pages that are read often would be copied, and then not be read again.
    made = RailFleet(
        tmp_path_factory.mktemp("nodes"), None, HOSTS, PAGES_EACH, promotion_percent="0"
    )
    try:
        made.start()
        made.wait_full()
        yield made
    finally:
        made.stop()


def no_wrong_byte(log: calls.Calls, fleet: Fleet) -> None:
    assert log["wrong"].sum() == 0, "\n".join(engine.output() for engine in fleet.engines)


def test_pages_come_over_both_rails(fleet: RailFleet) -> None:
    # The first pages come over TCP, while the link is made.
    deadline = time.monotonic() + 20
    for node in (0, 1):
        while min(fleet.read_bytes(node, rail) for rail in (0, 1)) < pages.PAGE_BYTES:
            assert time.monotonic() < deadline, f"node {node} does not read over both rails"
            fleet.wait_full()


def test_a_rail_that_fails_costs_no_wrong_byte_and_comes_back(fleet: RailFleet) -> None:
    fleet.begin_load([0, 1])
    time.sleep(1.5)
    down = time.monotonic()
    fabric("rail_down A 1")
    time.sleep(SETTLED_SECONDS + 3)
    up = time.monotonic()
    fabric("rail_up A 1; rail_ready B 1")
    before = fleet.read_bytes(1, 1)
    deadline = time.monotonic() + 20
    while fleet.read_bytes(1, 1) < before + 10 * pages.PAGE_BYTES:
        assert time.monotonic() < deadline, "the rail is not used again"
        time.sleep(0.2)
    log = fleet.end_load([0, 1])
    no_wrong_byte(log, fleet)
    assert len(log) > 0
    assert calls.hit_rate(calls.between(log, down + SETTLED_SECONDS, up), [0, 1]) == 1
    assert log["took"].max() < LONGEST_CALL_SECONDS


def test_a_node_that_dies_under_reads_costs_no_wrong_byte(fleet: RailFleet) -> None:
    fleet.begin_load([1])
    time.sleep(1.5)
    died = time.monotonic()
    fleet.nodes[0].kill()
    time.sleep(SETTLED_SECONDS + 2)
    log = fleet.end_load([1])
    no_wrong_byte(log, fleet)
    settled = calls.between(log, died + SETTLED_SECONDS, time.monotonic())
    assert calls.hit_rate(settled, [0]) == 0
    assert calls.hit_rate(settled, [1]) == 1
    assert log["took"].max() < LONGEST_CALL_SECONDS
    fleet.restart(0)
    fleet.wait_ready()
    fleet.engines[0].kill()
    fleet.engines[0] = fleet.engine(0, "-again")
    fleet.fill(0)
    fleet.wait_full()
    assert fleet.read_bytes(1, 0) + fleet.read_bytes(1, 1) > 0

"""Two real nodes, each with an engine, on the rails of hack/soft-rdma/fabric.sh: every byte is
checked while they read one another's pages, a rail fails, a node dies.

Runs in a guest, by hack/soft-rdma/tests/40-nodes.sh. A guest has one processor and is as slow as
its host is busy: what is waited for is a state.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator

import pytest

from ..conftest import ROOT
from ..fleet import calls, pages
from .rails import LONGEST_WAIT, RailFleet, wait_until

PAGES_EACH = 100
# How long the rail is down: many times as long as any call may take.
DOWN_SECONDS = 7.0


def fabric(command: str) -> None:
    script = f". hack/soft-rdma/fabric.sh; {command}"
    subprocess.run(["bash", "-euo", "pipefail", "-c", script], cwd=ROOT, check=True)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RailFleet]:
    made = RailFleet(tmp_path_factory.mktemp("nodes"), PAGES_EACH)
    fabric("rail_down A 1")
    try:
        made.start()
        made.wait_full(LONGEST_WAIT)
        yield made
    finally:
        made.stop()


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


def test_a_rail_that_is_down_at_the_start_comes_into_use(fleet: RailFleet) -> None:
    for name, node in zip("ab", fleet.nodes, strict=True):
        up, waits = node.status()["transport"]["rails"]
        assert up["up"]
        assert up["waits_for"] == up["why"] == ""
        assert not waits["up"]
        assert waits["waits_for"] == "port"
        assert f"rxe_{name}1 port 1: the port is DOWN" in waits["why"]
        assert "check the cable and set rail1 up" in waits["why"]
        metric = f'peercache_rail_waits{{rail="rxe_{name}1:1",for="port"}}'
        assert node.metrics()[metric] == 1
    fleet.begin_load([0, 1])
    for node in (0, 1):
        wait_for_rail(fleet, node, 0)
        assert fleet.read_bytes(node, 1) == 0
    fabric("rail_up A 1; rail_ready B 1")
    for node in (0, 1):
        wait_for_rail(fleet, node, 1)
    no_wrong_byte(fleet.end_load([0, 1]), fleet)


def test_pages_come_over_both_rails(fleet: RailFleet) -> None:
    # The first pages come over TCP, while the link is made.
    for node in (0, 1):
        for rail in (0, 1):
            wait_for_rail(fleet, node, rail)
        for engine in fleet.nodes[node].status()["engines"]:
            assert engine["registered_bytes"] == engine["region_bytes"] > 0


def test_a_rail_that_fails_costs_no_wrong_byte_and_comes_back(fleet: RailFleet) -> None:
    fleet.begin_load([0, 1])
    wait_for_rail(fleet, 1, 1)
    fabric("rail_down A 1")
    down = time.monotonic()
    # All is within reach, and goes over the other rail.
    wait_for_rail(fleet, 0, 0)
    wait_for_rail(fleet, 1, 0)

    def all_know() -> bool:
        return not any(node.status()["transport"]["rails"][1]["up"] for node in fleet.nodes)

    wait_until(all_know, "a node takes rail 1 for up")
    time.sleep(max(0.0, down + DOWN_SECONDS - time.monotonic()))
    up = time.monotonic()
    fabric("rail_up A 1; rail_ready B 1")
    wait_for_rail(fleet, 0, 1)
    wait_for_rail(fleet, 1, 1)
    log = fleet.end_load([0, 1])
    no_wrong_byte(log, fleet)
    waited = (log["start"] < down + 1) & (log["start"] + log["took"] >= up)
    assert not waited.any(), f"calls waited until the rail was back: {log[waited]}"


def test_a_rail_whose_address_changes_costs_no_wrong_byte_and_is_used_again(
    fleet: RailFleet,
) -> None:
    def address() -> str:
        return str(fleet.nodes[0].status()["transport"]["rails"][1]["address"])

    usual, other = "10.20.1.1", "10.20.1.77"
    assert address() == usual
    fleet.begin_load([0, 1])
    wait_for_rail(fleet, 1, 1)
    # Reads of both directions: node 0 has to speak with the new address, node 1 to hear of it.
    for gone, taken in ((usual, other), (other, usual)):
        wait_for_rail(fleet, 0, 1)
        fabric(f"ip -n A addr del {gone}/24 dev rail1; ip -n A addr add {taken}/24 dev rail1")
        wait_until(lambda to=taken: address() == to, f"node 0 does not speak with {taken}")
        for node in (0, 1):
            for rail in (0, 1):
                wait_for_rail(fleet, node, rail)
    no_wrong_byte(fleet.end_load([0, 1]), fleet)
    name = 'peercache_rail_address_changes_total{rail="rxe_a1:1"}'
    assert fleet.nodes[0].metrics()[name] >= 2


def test_a_device_that_is_taken_away_costs_no_wrong_byte_and_is_opened_anew(
    fleet: RailFleet,
) -> None:
    def rail(node: int) -> dict[str, object]:
        return dict(fleet.nodes[node].status()["transport"]["rails"][1])

    def open_files(node: int) -> int:
        return len(os.listdir(f"/proc/{fleet.nodes[node].popen.pid}/fd"))

    def objects(node: int, kind: str) -> list[int]:
        """What the kernel keeps for the node, of each of its devices."""
        host = fleet.hosts[node]
        show = ["ip", "netns", "exec", host.namespace, "rdma", "resource", "show", kind]
        shown = subprocess.run(show, check=True, capture_output=True, text=True).stdout
        return [shown.count(f"dev rxe_{host.name}{rail} ") for rail in (0, 1)]

    def nothing_is_left(node: int) -> bool:
        """One context of each device, and the same registrations with both."""
        first, second = objects(node, "mr")
        return objects(node, "ctx") == [1, 1] and first == second > 0

    fleet.begin_load([0, 1])
    for node in (0, 1):
        wait_for_rail(fleet, node, 1)
        assert nothing_is_left(node)
    files = [open_files(node) for node in (0, 1)]
    # First of the one that node 1 reads from, then its own; each both reads and is read.
    for node, name in ((0, "A"), (1, "B")):
        fabric(f"device_remove {name} 1")
        wait_until(lambda at=node: not rail(at)["up"], "the rail is in use without its device")
        assert rail(node)["waits_for"] == "device"
        assert "opened anew" in str(rail(node)["why"])
        metric = f'peercache_rail_waits{{rail="rxe_{name.lower()}1:1",for="device"}}'
        assert fleet.nodes[node].metrics()[metric] == 1
        for reader in (0, 1):
            wait_for_rail(fleet, reader, 0)
        fabric(f"device_add {name} 1; rail_ready {name} 1")
        for reader in (0, 1):
            wait_for_rail(fleet, reader, 1)
        failures = f'peercache_rail_device_failures_total{{rail="rxe_{name.lower()}1:1"}}'
        assert fleet.nodes[node].metrics()[failures] == 1
        for engine in fleet.nodes[node].status()["engines"]:
            assert engine["registered_bytes"] == engine["region_bytes"] > 0
    no_wrong_byte(fleet.end_load([0, 1]), fleet)
    for node in (0, 1):
        # Links of the time without the rail go when they have been idle.
        wait_until(
            lambda at=node: open_files(at) <= files[at] + 8 and nothing_is_left(at),
            f"node {node} keeps {open_files(node)} descriptors (before: {files[node]}), "
            f"{objects(node, 'ctx')} contexts, {objects(node, 'mr')} registrations",
        )


def test_a_node_that_dies_under_reads_costs_no_wrong_byte(fleet: RailFleet) -> None:
    def hits(holder: int) -> int:
        first = holder * pages.HOLDER_STRIDE
        return int(fleet.engines[1].ask("get", first=first, count=PAGES_EACH)["hits"])

    fleet.begin_load([1])
    wait_for_rail(fleet, 1, 0)
    fleet.nodes[0].kill()
    wait_until(lambda: hits(0) == 0, "the dead node's pages are still found")
    wait_until(lambda: hits(1) == PAGES_EACH, "the reader's own pages are not found")
    no_wrong_byte(fleet.end_load([1]), fleet)
    fleet.restart(0)
    fleet.wait_ready()
    fleet.engines[0].kill()
    fleet.engines[0] = fleet.engine(0, "-again")
    fleet.fill(0)
    for rail in (0, 1):
        wait_for_rail(fleet, 1, rail)

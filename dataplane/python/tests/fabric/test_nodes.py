"""Two real nodes, each with an engine, on the rails of hack/soft-rdma/fabric.sh: every byte is
checked while they read one another's pages, a rail fails, a node dies.

All settings of connections are other than the defaults: over IPv6, with a token and TLS, and on
one side with a smaller MTU.

Runs in a guest, by hack/soft-rdma/tests/40-nodes.sh. A guest has one processor and is as slow as
its host is busy: what is waited for is a state.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator

import pytest

from ..fleet import pages
from .rails import (
    LONGEST_WAIT,
    PAGES_EACH,
    RailFleet,
    fabric,
    make_certificate,
    no_wrong_byte,
    rail_address6,
    received_packets,
    running,
    wait_for_rail,
    wait_until,
)

# How long the rail is down: longer than any call may take.
DOWN_SECONDS = 4.0
CONNECTIONS = {
    "rdma_gid": "ipv6",
    "rdma_traffic_class": "104",
    "rdma_timeout": "11",
    "rdma_retries": "6",
}
MTU_OF_B = 1024


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RailFleet]:
    folder = tmp_path_factory.mktemp("nodes")
    token = folder / "token"
    token.write_text("the-token-of-this-fleet\n")
    flags = {**CONNECTIONS, **make_certificate(folder), "auth_token_file": str(token)}
    made = RailFleet(folder, PAGES_EACH, of_host={"b": {"rdma_mtu": str(MTU_OF_B)}}, **flags)
    fabric("rail_down A 1")
    with running(made):
        yield made


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


def test_connections_are_made_as_configured(fleet: RailFleet) -> None:
    fleet.begin_load([0, 1])
    for host, node in zip(fleet.hosts, fleet.nodes, strict=True):
        status = node.status()
        assert status["tls"]["enabled"]
        for i, rail in enumerate(status["transport"]["rails"]):
            assert rail["address"] == rail_address6(host, i)
        # Requests and answers, of which many are as large as they may be: on both sides.
        packets = received_packets(host, "rail0", 300)
        assert {p.traffic_class for p in packets} == {104}
        assert max(p.payload for p in packets) == MTU_OF_B
    no_wrong_byte(fleet.end_load([0, 1]), fleet)


def test_lost_and_late_frames_cost_no_wrong_byte(fleet: RailFleet) -> None:
    def lost() -> int:
        show = ["ip", "netns", "exec", "A", "tc", "-s", "-j", "qdisc", "show", "dev", "rail1"]
        shown = subprocess.run(show, check=True, capture_output=True, text=True).stdout
        return int(json.loads(shown)[0]["drops"])

    fleet.begin_load([0, 1])
    fabric("netem A 1 loss 1% delay 2ms")
    wait_until(lambda: lost() >= 5, "nothing is lost")
    # All is within reach, over whichever rail.
    fleet.wait_full(LONGEST_WAIT)
    for node in (0, 1):
        wait_for_rail(fleet, node, 0)
    fabric("netem_off A 1")
    for node in (0, 1):
        wait_for_rail(fleet, node, 1)
    no_wrong_byte(fleet.end_load([0, 1]), fleet)


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


def test_a_node_that_dies_under_reads_costs_no_wrong_byte(fleet: RailFleet) -> None:
    def hits(holder: int) -> int:
        first = holder * pages.HOLDER_STRIDE
        return int(fleet.engines[1].ask("get", first=first, count=PAGES_EACH)["hits"])

    fleet.begin_load([1])
    wait_for_rail(fleet, 1, 0)
    time.sleep(0.5)  # the threads of the load are at it by then; a fast machine is here before
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

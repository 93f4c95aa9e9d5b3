"""Two real nodes, each with an engine, on the rails of hack/lab/soft-rdma/fabric.sh: every byte is
checked while they read one another's pages, a rail fails, the secret is replaced, a node dies.

All settings of connections are other than the defaults: over IPv6, with a token and TLS, and on
one side with a smaller MTU.

Runs in a guest, by hack/lab/soft-rdma/tests/40-nodes.sh. A guest has one processor and is as slow
as its host is busy: what is waited for is a state.
"""

from __future__ import annotations

import json
import select
import ssl
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ..fleet import calls, pages
from ..fleet.network import Host, inside
from ..fleet.nodes import PEER_PORT
from ..hostile import wire
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
OLD, NEW = "the-token-of-this-fleet", "the-token-that-replaces-it"
# auth-spread-ms; a minute by default, and each step of a rotation takes three.
SPREAD_SECONDS = 2.0
STEP_SECONDS = 3 * SPREAD_SECONDS
# A node that waits for the guest's processor misses at times. If the nodes refused each other for
# one spread, that would be 5 % of all pages.
LEAST_RATE = 0.97


def write_tokens(folder: Path, *tokens: str) -> None:
    """At once, as a kubelet does."""
    file = folder / "token.next"
    file.write_text("\n".join(tokens) + "\n")
    file.rename(folder / "token")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RailFleet]:
    folder = tmp_path_factory.mktemp("nodes")
    write_tokens(folder, OLD)
    secret = {
        "auth_token_file": str(folder / "token"),
        "auth_spread_ms": f"{SPREAD_SECONDS * 1000:.0f}",
    }
    flags = {**CONNECTIONS, **make_certificate(folder), **secret}
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


def test_a_secret_that_is_replaced_costs_no_wrong_byte_and_ends_what_it_made(
    fleet: RailFleet,
) -> None:
    def joined(host: Host, token: str) -> wire.Peer:
        """A connection like a member's, by hand."""
        context = ssl.create_default_context(cafile=fleet.flags["tls_ca_file"])
        context.check_hostname = False
        context.load_cert_chain(fleet.flags["tls_cert_file"], fleet.flags["tls_key_file"])

        def connect() -> wire.Peer:
            return wire.Peer(PEER_PORT, source=host.address, address=host.address)

        peer: wire.Peer = inside(host.namespace, connect)
        peer.socket = context.wrap_socket(peer.socket)
        return peer.join(token)

    def ended(peer: wire.Peer) -> bool:
        readable, _, _ = select.select([peer.socket], [], [], 0)
        return bool(readable) and peer.receive() is None

    def resources(host: Host, kind: str) -> list[dict[str, Any]]:
        show = ["ip", "netns", "exec", host.namespace, "rdma", "-j", "resource", "show", kind]
        shown: list[dict[str, Any]] = json.loads(
            subprocess.run(show, check=True, capture_output=True).stdout
        )
        return shown

    def queue_pairs(host: Host) -> set[tuple[str, int]]:
        found = resources(host, "qp")
        return {(qp["ifname"], qp["lqpn"]) for qp in found if qp["type"] == "RC"}

    def pools(host: Host) -> set[tuple[str, int]]:
        found = resources(host, "mr")
        largest = max(mr["mrlen"] for mr in found)
        return {(mr["ifname"], mr["mrn"]) for mr in found if mr["mrlen"] == largest}

    fleet.begin_load([0, 1])
    for node in (0, 1):
        wait_for_rail(fleet, node, 0)
    before = [queue_pairs(host) for host in fleet.hosts]
    pools_before = [pools(host) for host in fleet.hosts]
    assert all(before)
    assert all(pools_before)
    former = [joined(host, OLD) for host in fleet.hosts]
    for tokens in ((OLD, NEW), (NEW, OLD)):
        write_tokens(fleet.folder, *tokens)
        time.sleep(STEP_SECONDS)
        assert not any(ended(peer) for peer in former)
        for host in fleet.hosts:
            joined(host, NEW).socket.close()
    write_tokens(fleet.folder, NEW)
    wait_until(lambda: all(ended(peer) for peer in former), "the old secret is good for ever")
    for host in fleet.hosts:
        with pytest.raises(AssertionError, match="another secret"):
            joined(host, OLD)
    # A reader's own end of a link goes when it looks at idle ones next (node/rails/links.cc).
    for node, host in enumerate(fleet.hosts):
        wait_until(lambda n=node, h=host: not before[n] & queue_pairs(h), "a queue pair is left")
        wait_until(lambda n=node, h=host: not pools_before[n] & pools(h), "a key is left")
    for node in (0, 1):
        assert len(pools(fleet.hosts[node])) == len(pools_before[node])
        for rail in (0, 1):
            wait_for_rail(fleet, node, rail)
    log = fleet.end_load([0, 1])
    no_wrong_byte(log, fleet)
    assert calls.hit_rate(log, [0, 1]) > LEAST_RATE


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

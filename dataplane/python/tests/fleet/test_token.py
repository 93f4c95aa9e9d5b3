"""A cluster without a token is given one under load, and loses it again, node by node.

As docs/bare-metal.md says: nodes with and without the token refuse each other and say why, each
half goes on with its own pages, and the last node that changes makes them one cluster again.
"""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..patience import HANG_SECONDS
from . import calls, pages
from .network import Network
from .nodes import DISCOVERY_HOSTS, EngineProcess, Fleet, Node

HOSTS = 4
NO_DISCOVERY_HOST = 3
COUNT = 64
LEAST_RATE = 0.5
TOKEN = "a-token-that-the-cluster-had-not"
# Pages of a holder that are set after a step: nobody has handed them to the other half.
FRESH_STRIDE, FRESH_COUNT = 1000, 32

SAME = "give all nodes of a cluster the same --auth-token-file contents"
CALLER_HAS_NONE = f"the caller names no secret: {SAME}"
CALLER_HAS_ONE = f"the caller has a secret, this node has none: {SAME}"


class Roll:
    """The fleet, and which of its nodes have the token."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.all = set(fleet.holders)
        self.proving: set[int] = set()
        self._steps = 0
        token = fleet.folder / "token"
        token.write_text(TOKEN + "\n")
        self._with_token = {"auth_token_file": str(token), "insecure_peers": ""}

    def halves(self) -> tuple[set[int], set[int]]:
        """The nodes with the token, and those without."""
        return self.proving, self.all - self.proving

    def restart(self, i: int, token: bool) -> None:
        """Ends the node, which must end well, and starts it with the token or without."""
        node = self.fleet.nodes[i]
        node.signal(signal.SIGTERM)
        assert node.popen.wait(HANG_SECONDS) == 0, node.output()[-4000:]
        self.fleet.own_flags[i] = self._with_token if token else {}
        self.fleet.restart(i)
        (self.proving.add if token else self.proving.discard)(i)

    def wait_parted(self) -> None:
        """Until every node is ready, and sees its own half and nobody else."""
        deadline = time.monotonic() + HANG_SECONDS
        for half in self.halves():
            wanted = {self.fleet.hosts[i].name: "active" for i in half}
            for i in half:
                node = self.fleet.nodes[i]
                while not (node.ready() and members(node) == wanted):
                    assert time.monotonic() < deadline, f"{node.name}: {members(node)}, {wanted}"
                    time.sleep(0.05)

    def check_handed_over(self, i: int) -> None:
        """The pages that node i had stay with the half that it has left, while there is any."""
        for reader in self.all:
            wanted = 0 if reader in self.proving else COUNT
            wait_hits(self.fleet.engines[reader], first_of(i), wanted, COUNT)

    def check_reads(self) -> None:
        """Each half gets all pages of its own, and none that the other half has set since."""
        self._steps += 1
        fresh = [first_of(holder) + FRESH_STRIDE * self._steps for holder in self.fleet.holders]
        for holder in self.all:
            self.fleet.fill(holder)
            done = self.fleet.engines[holder].ask("set", first=fresh[holder], count=FRESH_COUNT)
            assert done["stored"] == FRESH_COUNT
        for half in self.halves():
            for reader in half:
                engine = self.fleet.engines[reader]
                for holder in self.all:
                    ours = FRESH_COUNT if holder in half else 0
                    wait_hits(engine, fresh[holder], ours, FRESH_COUNT)
                    if ours:
                        wait_hits(engine, first_of(holder), COUNT, COUNT)

    def check_words(self) -> None:
        """Discovery hosts of each half say whom of the other they refuse, and what to do."""
        discovery = set(range(DISCOVERY_HOSTS))
        proving, bare = self.halves()
        for refusing, refused, reason in (
            (proving, bare, CALLER_HAS_NONE),
            (bare, proving, CALLER_HAS_ONE),
        ):
            for i in refusing & discovery:
                for j in refused:
                    address = re.escape(self.fleet.hosts[j].address)
                    refusal = rf"a peer at {address} was refused: .*{re.escape(reason)}"
                    wait_said(self.fleet.nodes[i], refusal)
                failed = self.fleet.nodes[i].metrics()["peercache_peer_failed_hellos_total"]
                assert failed > 0 or not refused
            for i in refused:
                wait_refused(self.fleet.nodes[i], len(refusing & discovery))


def first_of(holder: int) -> int:
    return holder * pages.HOLDER_STRIDE


def members(node: Node) -> dict[str, str]:
    return {member["id"]: member["state"] for member in node.status()["members"]}


def wait_hits(engine: EngineProcess, first: int, wanted: int, count: int) -> None:
    deadline = time.monotonic() + HANG_SECONDS
    while (found := engine.hits(first, count)) != wanted:
        assert time.monotonic() < deadline, f"{engine.name} gets {found} from {first}, not {wanted}"
        time.sleep(0.05)


def wait_said(node: Node, pattern: str) -> None:
    deadline = time.monotonic() + HANG_SECONDS
    while not re.search(pattern, node.output()):
        assert time.monotonic() < deadline, f"{node.name} does not say {pattern}:\n{node.output()}"
        time.sleep(0.05)


def wait_refused(node: Node, hosts: int) -> None:
    """Until so many discovery hosts refuse the node, and the others answer it."""
    deadline = time.monotonic() + HANG_SECONDS
    while True:
        found = node.status()["discovery"]
        if (found["answering"], found["refusing"]) == (DISCOVERY_HOSTS - hosts, hosts):
            return
        assert time.monotonic() < deadline, f"{node.name}: {found}, not {hosts} refusing"
        time.sleep(0.05)


@pytest.fixture
def roll(tmp_path: Path) -> Iterator[Roll]:
    network = Network()  # whose addresses a node without a token listens to only if it is told to
    hosts = [network.host(f"h{i}") for i in range(HOSTS)]
    fleet = Fleet(tmp_path, network, hosts, COUNT, insecure_peers="on")
    try:
        fleet.start()
        fleet.wait_full()
        yield Roll(fleet)
    finally:
        fleet.stop()


@pytest.mark.node
def test_a_cluster_is_given_a_token_and_loses_it_under_load(roll: Roll) -> None:
    fleet = roll.fleet
    readers = [fleet.engine(i, "-reader") for i in fleet.holders]
    for own, reader in enumerate(readers):
        reader.ask("load", holders=[[0, COUNT]] * HOSTS, own=own, writes=0.0, threads=1)

    for i in fleet.holders:  # discovery hosts first, as is advised
        roll.restart(i, token=True)
        roll.wait_parted()
        roll.check_handed_over(i)
        roll.check_reads()
        roll.check_words()
    assert roll.proving == roll.all
    fleet.wait_full()

    # Back, and in an order that is advised against: a node whose half has no discovery host waits.
    roll.restart(NO_DISCOVERY_HOST, token=False)
    alone = fleet.nodes[NO_DISCOVERY_HOST]
    refusal = f"{DISCOVERY_HOSTS} of them and this node refuse each other: give all nodes the same"
    wait_said(alone, rf"discovery: no host answers .*{re.escape(CALLER_HAS_NONE)}")
    status, body = alone.ask("/readyz")
    assert status == 503
    assert refusal in body, body
    for holder in fleet.holders:
        assert fleet.engines[NO_DISCOVERY_HOST].hits(first_of(holder), COUNT) == 0
        for reader in roll.proving:
            wait_hits(fleet.engines[reader], first_of(holder), COUNT, COUNT)
    for i in range(DISCOVERY_HOSTS):
        roll.restart(i, token=False)
        roll.wait_parted()
        roll.check_reads()
        roll.check_words()
    assert not roll.proving
    fleet.wait_full()

    log = fleet.end_loads(readers)  # which fails if a byte was wrong
    # Half of the pages are of the reader's half when the halves are equal.
    assert calls.hit_rate(log, fleet.holders) > LEAST_RATE
    for reader in readers:
        reader.kill()

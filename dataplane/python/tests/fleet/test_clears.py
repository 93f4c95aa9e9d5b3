"""A clear is true: what was set before it is given to nobody after it, also not by a member that
was away meanwhile and comes back with its pages.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator

import pytest

from ..patience import HANG_SECONDS
from . import pages
from .network import Network, loopback
from .nodes import EngineProcess, Fleet, freeze, thaw

COUNT = 64
AWAY_SECONDS = 5.0  # beyond member-ttl-ms, so that the silent are dropped
RETURN_SECONDS = 3.0
# Nodes 0 to 2 host discovery. Pages in replicas would hide what is tested, or the other way round.
HOSTS = 4
AWAY = 3


@pytest.fixture
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    made = Fleet(tmp_path_factory.mktemp("clears"), None, loopback(HOSTS), COUNT)
    try:
        made.start()
        made.wait_full()
        yield made
    finally:
        for node in made.nodes:
            thaw(node)
        made.stop()


def first_of(holder: int) -> int:
    return holder * pages.HOLDER_STRIDE


def exists(engine: EngineProcess, holder: int) -> int:
    return int(engine.ask("exists", first=first_of(holder), count=COUNT)["found"])


def hits(engine: EngineProcess, holder: int) -> int:
    return engine.hits(first_of(holder), COUNT)


def assert_none(fleet: Fleet, seconds: float) -> None:
    """No engine gets a page of any holder, again and again; at the end none is said to exist.

    A record may outlive its page for as long as its withdrawal is under way.
    """
    deadline = time.monotonic() + seconds
    while True:
        last = time.monotonic() > deadline
        for reader, engine in enumerate(fleet.engines):
            for holder in fleet.holders:
                assert hits(engine, holder) == 0, f"pages of {holder} at {reader}"
                assert not last or exists(engine, holder) == 0, f"pages of {holder} at {reader}"
        if last:
            return


def assert_all(fleet: Fleet, holder: int) -> None:
    """Pages that are set now are found by all, soon."""
    fleet.fill(holder)
    deadline = time.monotonic() + HANG_SECONDS
    for engine in fleet.engines:
        while (exists(engine, holder), hits(engine, holder)) != (COUNT, COUNT):
            assert time.monotonic() < deadline, f"{engine.name} does not find pages of {holder}"
            time.sleep(0.05)


@pytest.mark.node
def test_a_member_that_was_stopped_comes_back_without_cleared_pages(fleet: Fleet) -> None:
    away = fleet.nodes[AWAY]
    freeze(away)
    time.sleep(AWAY_SECONDS)
    reason = fleet.engines[0].ask("clear")["reason"]
    assert f"1 of {HOSTS} members do not know it: {away.name};" in reason
    others = fleet.engines[:AWAY]
    assert [exists(engine, AWAY) for engine in others] == [0] * AWAY
    fleet.fill(1)  # set after the clear
    thaw(away)
    # From the first call on: nothing of before the clear, at its own engine neither.
    deadline = time.monotonic() + RETURN_SECONDS
    while time.monotonic() < deadline:
        for engine in reversed(fleet.engines):
            assert (exists(engine, AWAY), hits(engine, AWAY)) == (0, 0), engine.name
    # It has heard by asking, or by the clearer's own message, which waited in its socket.
    assert [exists(engine, 1) for engine in fleet.engines] == [COUNT] * HOSTS
    assert fleet.engines[0].ask("clear")["reason"] == ""
    assert_none(fleet, 0)
    assert_all(fleet, AWAY)


@pytest.mark.node
def test_a_clear_while_a_member_is_stopped_for_a_moment(fleet: Fleet) -> None:
    away = fleet.nodes[AWAY]
    freeze(away)
    reason = fleet.engines[0].ask("clear")["reason"]
    assert f"do not know it: {away.name};" in reason
    # It is in the view, and shards still serve its records.
    for engine in fleet.engines[:AWAY]:
        assert (exists(engine, AWAY), hits(engine, AWAY)) == (0, 0)
    thaw(away)
    assert_none(fleet, RETURN_SECONDS)
    assert_all(fleet, AWAY)


@pytest.mark.node
def test_clears_survive_restarts_of_all_hosts_and_of_the_node_that_made_them(fleet: Fleet) -> None:
    freeze(fleet.nodes[AWAY])
    time.sleep(AWAY_SECONDS)
    assert fleet.engines[0].ask("clear")["reason"] != ""
    # One after another, as a roll does; the clearer is the first.
    for host in range(AWAY):
        fleet.nodes[host].signal(signal.SIGTERM)
        fleet.nodes[host].popen.wait()
        fleet.restart(host)
        deadline = time.monotonic() + HANG_SECONDS
        while not (fleet.nodes[host].ready() and knows_a_clear(fleet, host)):
            assert time.monotonic() < deadline, f"{host} does not hear of the clear"
            time.sleep(0.05)
    thaw(fleet.nodes[AWAY])
    assert_none(fleet, RETURN_SECONDS)
    assert_all(fleet, AWAY)


def knows_a_clear(fleet: Fleet, node: int) -> bool:
    return fleet.nodes[node].metrics()["peercache_clears_known_tags"] == 1


@pytest.mark.node
def test_a_member_that_was_cut_off_gives_nothing_of_before_the_clear(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    network = Network()
    hosts = [network.host(f"h{i}") for i in range(HOSTS)]
    fleet = Fleet(tmp_path_factory.mktemp("cut"), network, hosts, COUNT)
    try:
        fleet.start()
        fleet.wait_full()
        network.apply(Network.isolate(hosts[AWAY]))
        time.sleep(AWAY_SECONDS)
        assert fleet.nodes[AWAY].name in fleet.engines[0].ask("clear")["reason"]
        # It cannot know, so it gives nothing; nor does anybody at the moment of its return.
        assert (exists(fleet.engines[AWAY], AWAY), hits(fleet.engines[AWAY], AWAY)) == (0, 0)
        network.heal()
        assert_none(fleet, RETURN_SECONDS)
        fleet.wait_ready()
        assert_all(fleet, AWAY)
    finally:
        fleet.stop()

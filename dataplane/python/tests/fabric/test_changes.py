"""As test_nodes.py, while a rail gets an address, and another one, and a device is taken away. The
nodes look keys up by READs of each other's shards.

Runs in a guest, by hack/lab/soft-rdma/tests/42-changes.sh.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator

import pytest

from .rails import (
    LONGEST_WAIT,
    PAGES_EACH,
    RailFleet,
    fabric,
    no_wrong_byte,
    running,
    wait_for_rail,
    wait_until,
)

REMEMBERED_MS = 100  # locations of pages


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RailFleet]:
    flags = {"directory_lookups": "one-sided", "dir_cache_ttl_ms": str(REMEMBERED_MS)}
    made = RailFleet(tmp_path_factory.mktemp("nodes"), PAGES_EACH, **flags)
    fabric("ip -n A addr flush dev rail1")
    with running(made):
        yield made


def test_a_rail_without_an_address_comes_into_use_when_it_gets_one(fleet: RailFleet) -> None:
    def rail() -> dict[str, object]:
        return dict(fleet.nodes[0].status()["transport"]["rails"][1])

    assert rail()["waits_for"] == "address"
    assert rail()["address"] == ""
    assert "give the interface an IP address" in str(rail()["why"])
    assert fleet.nodes[0].metrics()['peercache_rail_waits{rail="rxe_a1:1",for="address"}'] == 1
    fleet.begin_load([0, 1])
    for node in (0, 1):
        wait_for_rail(fleet, node, 0)
        assert fleet.read_bytes(node, 1) == 0
    fabric(
        "ip -n A addr add $(rail_address A 1)/24 dev rail1; "
        "ip -n A addr add $(rail_address6 A 1)/64 dev rail1 nodad; rail_ready A 1"
    )
    for node in (0, 1):
        wait_for_rail(fleet, node, 1)
    assert rail()["waits_for"] == rail()["why"] == ""
    assert rail()["address"] == "10.20.1.1"
    no_wrong_byte(fleet.end_load([0, 1]), fleet)


def test_lookups_cross_from_host_to_host_and_ask_nobody(fleet: RailFleet) -> None:
    def looked_up(node: int) -> tuple[float, float]:
        """Keys of the other node's shard: by READs of its memory, and by asking it."""
        name, metrics = "peercache_keys_looked_up_total", fleet.nodes[node].metrics()
        return metrics[f'{name}{{how="one_sided"}}'], metrics[f'{name}{{how="rpc"}}']

    def finds_all_without_asking(node: int) -> bool:
        time.sleep(2 * REMEMBERED_MS / 1000)
        read, asked = looked_up(node)
        fleet.wait_full(LONGEST_WAIT)
        read_now, asked_now = looked_up(node)
        # About half of the 2 * PAGES_EACH keys belong to the other shard.
        return read_now >= read + PAGES_EACH / 2 and asked_now == asked

    for node in (0, 1):
        # A shard is asked for leave about once a second, and for the keys of that call.
        wait_until(lambda at=node: finds_all_without_asking(at), "a shard is asked")


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
        assert "opened again" in str(rail(node)["why"])
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

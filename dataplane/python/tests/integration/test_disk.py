"""The main job with a drive: pages that have left a small pool are hits for SGLang's controller.

Each scenario of test_scenarios.py, with four times as many pages as the pool of a node holds. They
are written prompt by prompt, as fast as the drive takes them, and read on the same node and on
another one.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from .. import wrong_bytes
from ..patience import HANG_SECONDS
from .conftest import Cluster
from .processes import Engine, Node
from .test_scenarios import SCENARIOS

POOL_BYTES = 8 << 20  # the smallest there is
PAGE_TOKENS = 16
PAGE_BYTES = {"mha": 32 << 10, "mla": 72 << 10}
PROMPTS = 8
FLAGS = {
    "pool_size": str(POOL_BYTES),
    "disk_size": "1Gi",
    "disk_write_budget": "unlimited",
    # A slot of which another node was told rests for a lease, and a pool this small has few slots.
    "lease_ms": "100",
    "drain_budget": "0",  # at the end nobody has to have the pages
}


# Of nodes whose drive the machine has kept from answering.
TRIES = 5


class BusyDriveError(Exception):
    """A drive that takes longer than a second for an I/O is off from then on, whoever uses it."""


@dataclass
class Setup:
    nodes: list[Node]  # the first has the pages
    engine: Engine  # of the first
    other: Engine  # of the other

    def disk(self) -> Any:
        disk = self.nodes[0].status()["disk"]
        for device in disk["devices"]:
            if "took longer than" in device["why"]:
                raise BusyDriveError(device)
        return disk

    def write(self, pages: int, **scenario: object) -> list[str]:
        """What is refused while slots rest is written again."""
        deadline = time.monotonic() + HANG_SECONDS
        while True:
            answer = self.engine.ask("write", pages=pages, **scenario)
            if answer["backup"] == pages * PAGE_TOKENS:
                return list(answer["sha256s"])
            assert time.monotonic() < deadline, (answer, self.disk())

    def wait(self, name: str, least: int = 0, most: int = 1 << 60) -> None:
        deadline = time.monotonic() + HANG_SECONDS
        while not least <= self.disk()[name] <= most:
            assert time.monotonic() < deadline, self.disk()
            time.sleep(0.01)


class Setups:
    """Slots of a pool this small are all of one length before those of another one find room: pages
    go before they were written. So each kind has nodes of its own."""

    def __init__(self, cluster: Cluster, drives: Path) -> None:
        self._cluster = cluster
        self._drives = drives
        self._made: dict[str, Setup] = {}
        self._count = 0
        # Of the membership, while the others come and go.
        cluster.node("host", pool_size=str(POOL_BYTES))

    def drop(self, kind: str) -> None:
        made = self._made.pop(kind)
        for process in (made.engine, made.other, *made.nodes):
            process.stop()

    def of(self, kind: str) -> Setup:
        if kind not in self._made:
            self._count += 1
            nodes = [self._node(f"{kind}-{name}{self._count}") for name in "ab"]
            engines = [self._cluster.engine(f"engine-{node.name}", node) for node in nodes]
            self._made[kind] = Setup(nodes, *engines)
        return self._made[kind]

    def _node(self, name: str) -> Node:
        folder = self._drives / name
        folder.mkdir()
        return self._cluster.node(name, disk_path=str(folder), **FLAGS)


@pytest.fixture(scope="module")
def setups(drives: Path, cluster: Cluster) -> Setups:
    return Setups(cluster, drives)


@pytest.mark.node
@pytest.mark.parametrize(
    ("kind", "layout", "v1"), SCENARIOS, ids=[f"{k}-{la}-v{int(v)}" for k, la, v in SCENARIOS]
)
def test_pages_that_have_left_the_pool_are_hits(
    setups: Setups, kind: str, layout: str, v1: bool
) -> None:
    for left in reversed(range(TRIES)):
        try:
            write_and_read(setups.of(kind), kind, layout, v1)
        except BusyDriveError:
            if not left:
                raise
            setups.drop(kind)
        else:
            break


def write_and_read(setup: Setup, kind: str, layout: str, v1: bool) -> None:
    pages = 4 * POOL_BYTES // PAGE_BYTES[kind] // PROMPTS
    scenario = {"kind": kind, "layout": layout, "v1": v1, "pages": pages}
    first = 10_000 + PROMPTS * SCENARIOS.index((kind, layout, v1))
    written = {}
    before = setup.disk()["pages"]
    for seed in range(first, first + PROMPTS):
        written[seed] = setup.write(seed=seed, **scenario)
        setup.wait("waiting_pages", most=0)
    setup.wait("pages", least=before + PROMPTS * pages)
    for reader in (setup.engine, setup.other):
        loaded = setup.disk()["loaded_pages"]
        for seed, sha256s in written.items():
            # A page that the drive does not bring in time is there when it is asked for again.
            # Other nodes hear of an eviction a moment later.
            deadline = time.monotonic() + HANG_SECONDS
            while setup.disk():
                read = reader.ask("read", seed=seed, **scenario)
                wrong_bytes.check_pages(read["sha256s"], sha256s[: len(read["sha256s"])])
                assert (read["stats"]["faults"], read["stats"]["store_faults"]) == (0, {})
                if reader is setup.engine:
                    assert read["hit"] == pages * PAGE_TOKENS
                if (read["hit"], read["prefetched"]) == (pages * PAGE_TOKENS,) * 2:
                    break
                assert time.monotonic() < deadline, read
        # The pool has a quarter of them at most.
        assert setup.disk()["loaded_pages"] - loaded >= PROMPTS * pages * 3 // 4

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
from ..fleet.nodes import Fleet
from .rails import RailFleet

PAGES_EACH = 100
# A guest has one processor.
SETTLED_SECONDS = 3.0
LONGEST_CALL_SECONDS = 5.0


def fabric(command: str) -> None:
    script = f". hack/soft-rdma/fabric.sh; {command}"
    subprocess.run(["bash", "-euo", "pipefail", "-c", script], cwd=ROOT, check=True)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RailFleet]:
    made = RailFleet(tmp_path_factory.mktemp("nodes"), PAGES_EACH)
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

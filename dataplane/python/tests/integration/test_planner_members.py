"""peercache-bench plan beside a real member: the same trace, five sizes of the pool."""

from __future__ import annotations

import pytest
from peercache_bench.capacity_cluster import Cluster, play
from peercache_bench.capacity_model import Prefill
from peercache_bench.capacity_trace import chats
from peercache_bench.nodes import loopback_nodes
from peercache_bench.trace_engine import SLOT, trace_engine

from .processes import binary

pytestmark = pytest.mark.node

BLOCK = 512
MOST_POINTS = 2.0
TRACE = chats(requests=1500, a_second=4.0, seed=3, block_tokens=BLOCK)
DISTINCT = TRACE.distinct_tokens // BLOCK


@pytest.mark.parametrize("share", [0.15, 0.3, 0.45, 0.6, 0.9])
def test_hits_of_the_plan_are_those_of_a_member(share: float) -> None:
    build = binary().parent
    asked = got = 0
    with loopback_nodes(build, {"own": str(int(share * DISTINCT) * SLOT)}) as nodes:
        with trace_engine(build, nodes["own"]) as engine:
            for prompt in TRACE.prompts:
                asked += len(prompt.blocks)
                run = engine.get(prompt.blocks)
                got += run
                engine.set(prompt.blocks[run:])
        pages = int(nodes["own"].status()["pool"]["pages"])
    # Sets as fast as these have a member keep a quarter of its pool free; rare ones leave 5 %.
    cluster = Cluster(1, 0, pages * BLOCK, 1.0, 1e12, Prefill(0.0, 1e-9))
    simulated = 100 * play(TRACE, cluster).hits
    measured = 100 * got / asked
    print(
        f"{share:.0%} of {DISTINCT} pages: {pages} held, {measured:.1f} %, plan {simulated:.1f} %"
    )
    assert abs(measured - simulated) <= MOST_POINTS

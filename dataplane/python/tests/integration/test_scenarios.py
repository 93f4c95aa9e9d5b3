"""The main job: pages written by one SGLang process are read by another, byte for byte.

All layouts, zero copy and generic, within a node and between two nodes, with nothing between write
and read.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hicache_engine.layouts import LAYOUTS

from .. import wrong_bytes
from .conftest import Cluster
from .processes import Engine, Node

PAGES = 300
TOKENS = PAGES * 16
KINDS = [(kind, layout) for kind, layouts in LAYOUTS.items() for layout in layouts]
SCENARIOS = [(kind, layout, v1) for v1 in (True, False) for kind, layout in KINDS]


@dataclass
class Setup:
    writer: Engine
    same_node: Engine
    other_node: Engine
    nodes: list[Node]


@pytest.fixture(scope="module")
def setup(cluster: Cluster) -> Setup:
    a, b = cluster.node("a"), cluster.node("b")
    return Setup(
        cluster.engine("writer", a), cluster.engine("same", a), cluster.engine("other", b), [a, b]
    )


@pytest.mark.node
@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize(
    ("kind", "layout", "v1"), SCENARIOS, ids=[f"{k}-{la}-v{int(v)}" for k, la, v in SCENARIOS]
)
def test_pages_cross(setup: Setup, kind: str, layout: str, v1: bool, nodes: int) -> None:
    seed = 100 * nodes + SCENARIOS.index((kind, layout, v1))
    scenario = {"kind": kind, "layout": layout, "v1": v1, "seed": seed, "pages": PAGES}
    reader = setup.same_node if nodes == 1 else setup.other_node
    written = setup.writer.ask("write", **scenario)
    read = reader.ask("read", **scenario)
    assert (written["backup"], read["hit"], read["prefetched"]) == (TOKENS, TOKENS, TOKENS)
    wrong_bytes.check_pages(read["sha256s"], written["sha256s"])
    assert len(set(read["sha256s"])) == PAGES
    assert written["shared_memory"]
    assert read["shared_memory"]
    # Zero copy goes straight to the host pool; SGLang's generic reads go to private memory first.
    assert (read["stats"]["staged_bytes"] == 0) is v1
    if v1:
        assert written["stats"]["staged_bytes"] == 0
    for answer in (written, read):
        assert answer["stats"]["faults"] == 0
        assert answer["stats"]["store_faults"] == {}


@pytest.mark.node
def test_another_configuration_does_not_hit(setup: Setup) -> None:
    scenario = {"kind": "mha", "seed": 900, "pages": 20}
    setup.writer.ask("write", layout="page_first", **scenario)
    assert setup.same_node.ask("read", layout="page_first", **scenario)["hit"] == 320
    assert setup.same_node.ask("read", layout="page_head", **scenario)["hit"] == 0
    assert setup.same_node.ask("read", layout="page_first", v1=False, **scenario)["hit"] == 0


@pytest.mark.node
def test_what_the_nodes_say(setup: Setup) -> None:
    scenario = {"kind": "mha", "layout": "page_first", "seed": 901, "pages": 50}
    setup.writer.ask("write", **scenario)
    status = setup.nodes[0].status()
    assert len(status["members"]) == 2
    assert status["pool"]["used_bytes"] > 0
    assert "peercache_" in setup.nodes[0].metrics()


@pytest.mark.node
def test_clear_reaches_every_node(setup: Setup) -> None:
    scenario = {"kind": "mha", "layout": "page_first", "seed": 902, "pages": 50}
    assert setup.writer.ask("write", **scenario)["backup"] == 800
    assert setup.other_node.ask("clear")["cleared"]
    for reader in (setup.same_node, setup.other_node):
        assert reader.ask("read", **scenario)["hit"] == 0


@pytest.mark.node
def test_private_host_pools_go_through_the_staging_ring(cluster: Cluster, setup: Setup) -> None:
    engine = cluster.engine("private", setup.nodes[0], extra={"allocator": "default"})
    scenario = {"kind": "mla", "layout": "page_first", "seed": 903, "pages": PAGES}
    written = engine.ask("write", **scenario)
    read = setup.other_node.ask("read", **scenario)
    assert (written["shared_memory"], read["shared_memory"]) == (False, True)
    assert written["stats"]["staged_bytes"] > 0
    wrong_bytes.check_pages(read["sha256s"], written["sha256s"])
    assert read["prefetched"] == TOKENS


@pytest.mark.node
def test_versions_agree(cluster: Cluster) -> None:
    import os
    import subprocess
    import sys

    from .processes import binary, installed_package

    daemon = subprocess.run([binary(), "--version"], check=True, capture_output=True, text=True)
    package = subprocess.run(
        [sys.executable, "-m", "peercache", "--version"],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(installed_package(cluster.folder))},
    )
    assert package.stdout.split()[-1] == daemon.stdout.split()[-1]

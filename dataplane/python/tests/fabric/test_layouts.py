"""Pages that SGLang's own host pools hold, of every layout, read by RDMA on another node and
compared byte for byte.

Runs in a guest, by hack/lab/soft-rdma/tests/45-layouts.sh.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hicache_engine.layouts import LAYOUTS

from .. import wrong_bytes
from ..integration.conftest import SHM
from ..integration.processes import Engine
from .rails import RailFleet, wait_until

PAGES = 40
TOKENS = PAGES * 16
KINDS = [(kind, layout) for kind, layouts in LAYOUTS.items() for layout in layouts]
# Two of them load torch on the guest's one processor.
ENGINE_START_SECONDS = 240
SCENARIOS = [(kind, layout, v1) for v1 in (True, False) for kind, layout in KINDS]


@dataclass
class Setup:
    fleet: RailFleet
    writer: Engine
    reader: Engine

    def read(self, scenario: dict[str, object]) -> tuple[dict[str, Any], bool]:
        """What the reader read, and whether all that its node brought came by RDMA."""
        by_rdma, by_any = self.rail_bytes(), self.remote_bytes()
        read = self.reader.ask("read", **scenario)
        return read, self.rail_bytes() - by_rdma > self.remote_bytes() - by_any > 0

    def rail_bytes(self) -> float:
        """What the reader's node has read over its rails, headers of slots included."""
        return self.fleet.read_bytes(1, 0) + self.fleet.read_bytes(1, 1)

    def remote_bytes(self) -> float:
        """What the reader's node has delivered from other nodes, by whatever way."""
        return self.fleet.nodes[1].metrics()['peercache_read_bytes_total{tier="remote"}']


@pytest.fixture(scope="module")
def setup(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setup]:
    folder = tmp_path_factory.mktemp("layouts")
    fleet = RailFleet(folder, pages_each=0, holders=0)
    engines: list[Engine] = []
    try:
        fleet.start()
        for node in fleet.nodes:
            extra = {"socket": node.socket, **SHM}
            engines.append(Engine(f"sglang-{node.name}", folder, extra, wait=False))
        for engine in engines:
            engine.wait_for(f"http://127.0.0.1:{engine.port}/health", ENGINE_START_SECONDS)
        setup = Setup(fleet, *engines)
        # The first pages come over TCP, while the link is made.
        scenario = {"kind": "mla", "layout": "page_first", "v1": True, "pages": PAGES}
        setup.writer.ask("write", **scenario)
        wait_until(lambda: setup.read(scenario)[1], "no page comes by RDMA")
        yield setup
    finally:
        for engine in engines:
            engine.stop()
        fleet.stop()


@pytest.mark.parametrize(
    ("kind", "layout", "v1"), SCENARIOS, ids=[f"{k}-{la}-v{int(v)}" for k, la, v in SCENARIOS]
)
def test_pages_cross_by_rdma(setup: Setup, kind: str, layout: str, v1: bool) -> None:
    seed = 100 + SCENARIOS.index((kind, layout, v1))
    scenario = {"kind": kind, "layout": layout, "v1": v1, "seed": seed, "pages": PAGES}
    written = setup.writer.ask("write", **scenario)
    assert written["backup"] == TOKENS
    assert len(set(written["sha256s"])) == PAGES

    def comes_by_rdma() -> bool:
        read, by_rdma = setup.read(scenario)
        wrong_bytes.check_pages(read["sha256s"], written["sha256s"][: len(read["sha256s"])])
        return by_rdma and read["hit"] == read["prefetched"] == TOKENS

    # At the first try, unless the machine is so busy that a link or a registration is not waited
    # for any longer.
    wait_until(comes_by_rdma, "these pages do not come by RDMA")

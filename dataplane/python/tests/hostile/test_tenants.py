"""Engines of one tenant against another's pages, sessions and share of the pool.

A tenant is whoever reaches the socket in the tenant's folder: here an engine is told which.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from .. import wrong_bytes
from ..fleet import pages
from ..fleet.nodes import EngineProcess
from ..integration.conftest import Cluster
from ..integration.processes import Node
from ..patience import PATIENT_MS
from . import wire
from .conftest import PAGES, Table

TENANTS = ("victim", "attacker")
POOL = 64 << 20
# Half of the victim's fair share, which is half of the pool.
WORKING_SET = POOL // 4 // pages.PAGE_BYTES
CLEARS = 64


class Tenants:
    """A node with a folder for each tenant, and an engine in each."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.folders = {tenant: cluster.folder / "tenants" / tenant for tenant in TENANTS}
        for folder in self.folders.values():
            folder.mkdir(parents=True)
        secret = cluster.folder / "secret"
        secret.write_text("0123456789abcdef" * 4)
        self.node: Node = cluster.node(
            "shared",
            pool_size=str(POOL),
            tenants_dir=str(cluster.folder / "tenants"),
            tenant_secret_file=str(secret),
            promotion_percent="0",
        )
        self.engines = {tenant: self.engine(tenant) for tenant in TENANTS}

    def socket(self, tenant: str) -> str:
        return str(self.folders[tenant] / Path(self.node.socket).name)

    def engine(self, tenant: str, suffix: str = "") -> EngineProcess:
        name, socket = f"{tenant}{suffix}", self.socket(tenant)
        return EngineProcess(name, self.cluster.folder, socket, timeout_ms=PATIENT_MS)

    def set(self, tenant: str, first: int, count: int) -> int:
        return int(self.engines[tenant].ask("set", first=first, count=count)["stored"])

    def found(self, tenant: str, first: int, count: int) -> int:
        """Pages that the tenant reads, every byte checked."""
        done = self.engines[tenant].ask("get", first=first, count=count)
        wrong_bytes.check_none(done["wrong"], self.engines[tenant].output())
        return int(done["hits"])


def test_metrics_name_tenants_on_demand_alone(tenants: Tenants, table: Table) -> None:
    """Whoever reaches the HTTP port reads /metrics: of tenants it has sums, unless told to."""
    metrics = tenants.node.metrics()
    told = [tenant for tenant in TENANTS if tenant in metrics]
    table("/metrics: names of tenants", "0 told", f"{len(told)} told")
    assert not told
    assert 'peercache_tenant_engines{tenant="(all)"} 2' in metrics

    folder = str(tenants.cluster.folder / "tenants")
    telling = tenants.cluster.node("telling", tenants_dir=folder, tenant_metrics="on")
    assert 'peercache_tenant_engines{tenant="victim"} 0' in telling.metrics()


@pytest.fixture(scope="module")
def tenants(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenants]:
    cluster = Cluster(tmp_path_factory.mktemp("tenants"))
    try:
        made = Tenants(cluster)
        yield made
        for engine in made.engines.values():
            engine.kill()
    finally:
        cluster.stop()


def test_pages_of_another_tenant_are_misses(tenants: Tenants, table: Table) -> None:
    """The same keys, asked for through another socket, are other pages."""
    assert tenants.set("victim", 0, PAGES) == PAGES
    attacker = tenants.engines["attacker"]
    exists = int(attacker.ask("exists", first=0, count=PAGES)["found"])
    got = tenants.found("attacker", 0, PAGES)
    table("another tenant's keys: exists, get", "misses", f"{exists} found, {got} read")
    assert (exists, got) == (0, 0)
    assert tenants.found("victim", 0, PAGES) == PAGES


def test_a_clear_is_of_the_own_pages(tenants: Tenants, table: Table) -> None:
    """A tag is the tenant's own as well, and nobody clears without end."""
    assert tenants.set("victim", 0, PAGES) == PAGES
    assert tenants.set("attacker", 0, PAGES) == PAGES
    reasons = [tenants.engines["attacker"].ask("clear")["reason"] for _ in range(CLEARS)]
    refused = sum(1 for reason in reasons if reason)
    left = tenants.found("victim", 0, PAGES)
    measured = f"{left} of {PAGES} left, {refused} of {CLEARS} clears refused"
    table(f"{CLEARS} clears of another tenant's tag", "no page, 16 at once", measured)
    assert left == PAGES
    assert reasons[0] == ""
    assert refused >= CLEARS - 16 - 10
    assert tenants.found("attacker", 0, PAGES) == 0


def test_nobody_takes_all_sessions(tenants: Tenants, table: Table) -> None:
    """One process attaches as often as it can; engines of others attach all the same."""
    with contextlib.ExitStack() as hog:
        taken: list[wire.Engine] = []
        with contextlib.suppress(AssertionError):  # refused
            while len(taken) < 200:
                taken.append(hog.enter_context(wire.Engine(tenants.socket("attacker"))))
        later = tenants.engine("victim", "-later")
        try:
            found = int(later.ask("exists", first=0, count=1)["found"])
        finally:
            later.kill()
    table(
        "one process attaches 200 times", "others attach", f"{len(taken)} sessions, then a victim's"
    )
    assert len(taken) <= 64
    assert found == 1


def test_nobody_takes_the_pool(tenants: Tenants, table: Table) -> None:
    """One tenant sets pages without end; what another uses of its share stays."""
    first = 10_000
    assert tenants.set("victim", first, WORKING_SET) == WORKING_SET
    written = 0
    while written < 4 * POOL // pages.PAGE_BYTES:
        written += 256
        tenants.set("attacker", 100_000 + written, 256)
    found = tenants.found("victim", first, WORKING_SET)
    share = found / WORKING_SET
    table("a tenant sets 4 times the pool", "95 % of another's share stays", f"{share:.0%}")
    assert share >= 0.95

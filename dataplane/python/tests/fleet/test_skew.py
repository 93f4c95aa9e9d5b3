"""Nodes and engines of two releases in one cluster, as while it is rolled.

The former one is the commit that hack/lab/former/commit names. Every engine checks every byte of
every page that it reads; the node that it asks, the node that holds the page and the node whose
shard has the record are of either release.
"""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ..conftest import ROOT
from ..hostile import wire
from ..integration.processes import binary, extension_folder
from ..patience import HANG_SECONDS
from . import calls, pages
from .network import Host, loopback
from .nodes import PEER_PORT, EngineProcess, Fleet, Node
from .version_relay import VersionRelay

HOSTS = 4
LOAD_SECONDS = 6.0
PAGES_EACH = 150
# A node of all of them has room for 500 pages. Of the 600 that its engine reads and sets, and of
# the replicas, some are evicted all the time.
POOL = "16Mi"
CHURN: dict[str, object] = {"refill": True, "anywhere": True, "writes": 0.3, "threads": 2}
OLD, NEW = "the-token-of-two-releases", "the-token-that-replaces-it"
SPREAD_SECONDS = 1.0
# Two spreads, and what a node takes to look at the file, and to end a connection.
ROTATION_SECONDS = 2 * SPREAD_SECONDS + 3.0
LEAST_RATE = 0.97
LATER_VERSION = 9


@dataclass(frozen=True)
class Release:
    name: str
    build: Path | None = None
    flags: dict[str, str] = field(default_factory=dict)


TREE = Release("tree")


class TwoReleases(Fleet):
    """A fleet whose nodes and engines each are of a release of their own."""

    def __init__(
        self,
        folder: Path,
        hosts: Sequence[Host],
        nodes: Sequence[Release],
        engines: Sequence[Release],
        **flags: str,
    ) -> None:
        super().__init__(folder, None, hosts, PAGES_EACH, **flags)
        self.of_node = list(nodes)
        self.of_engine = list(engines)

    def _node(self, i: int) -> Node:
        release = self.of_node[i]
        flags = {**self.flags, **release.flags}
        return Node(self.hosts[i], self.folder, self.discovery, flags, release.build)

    def engine(self, node: int, suffix: str = "") -> EngineProcess:
        name, socket = f"engine-{node}{suffix}", self.nodes[node].socket
        build = self.of_engine[node].build
        return EngineProcess(name, self.folder, socket, self.page_bytes, build)

    def roll(self, i: int, release: Release) -> None:
        """Ends the node, which must end well, and starts the other release in its place."""
        self.nodes[i].signal(signal.SIGTERM)
        assert self.nodes[i].popen.wait(HANG_SECONDS) == 0, self.nodes[i].output()[-4000:]
        self.of_node[i] = release
        self.restart(i)
        self.wait_ready()
        self.fill(i)


@pytest.fixture(scope="module")
def former() -> Release:
    made = subprocess.run(
        [ROOT / "hack/lab/former/build.sh"], capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stderr
    # It has no option map-pools, which the others of these nodes have off.
    return Release("former", Path(made.stdout.strip()), {"map_pools": ""})


def first_of(holder: int) -> int:
    return holder * pages.HOLDER_STRIDE


def exists(engine: EngineProcess, holder: int) -> int:
    return int(engine.ask("exists", first=first_of(holder), count=PAGES_EACH)["found"])


def hits(engine: EngineProcess, holder: int) -> int:
    return engine.hits(first_of(holder), PAGES_EACH)


def bad_frames(node: Node) -> float:
    return node.metrics()["peercache_peer_bad_frames_total"]


def wait_found(fleet: Fleet, holder: int, wanted: int) -> None:
    """Until every engine finds so many pages of the holder, and gets them."""
    deadline = time.monotonic() + HANG_SECONDS
    for engine in fleet.engines:
        while (exists(engine, holder), hits(engine, holder)) != (wanted, wanted):
            assert time.monotonic() < deadline, f"{engine.name} and the pages of {holder}"
            time.sleep(0.05)


def write_token(folder: Path, token: str) -> None:
    """At once, as a kubelet does."""
    file = folder / "token.next"
    file.write_text(token + "\n")
    file.rename(folder / "token")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory, former: Release) -> Iterator[TwoReleases]:
    """Of each release a node with an engine of it, and one with an engine of the other. The first
    three nodes host discovery."""
    folder = tmp_path_factory.mktemp("skew")
    write_token(folder, OLD)
    made = TwoReleases(
        folder,
        loopback(HOSTS),
        nodes=[former, TREE, former, TREE],
        engines=[former, former, TREE, TREE],
        pool_size=POOL,
        auth_token_file=str(folder / "token"),
        auth_spread_ms=f"{SPREAD_SECONDS * 1000:.0f}",
    )
    try:
        made.start()
        made.wait_full()
        yield made
    finally:
        made.stop()


def other_hosts(count: int) -> list[Host]:
    """Those of the fleet of this module are taken until its last test is over."""
    return loopback(HOSTS + count)[HOSTS:]


@pytest.mark.node
def test_the_processes_are_of_their_release(fleet: TwoReleases) -> None:
    """Else the rest would prove nothing."""
    for node, release in zip(fleet.nodes, fleet.of_node, strict=True):
        assert Path(f"/proc/{node.popen.pid}/exe").samefile(binary(release.build))
    for engine, release in zip(fleet.engines, fleet.of_engine, strict=True):
        maps = Path(f"/proc/{engine.popen.pid}/maps").read_text()
        assert str(extension_folder(release.build).resolve()) in maps
    assert fleet.of_node.count(TREE) == fleet.of_engine.count(TREE) == HOSTS / 2


@pytest.mark.node
def test_every_engine_finds_and_reads_what_every_engine_has_set(fleet: TwoReleases) -> None:
    for holder in fleet.holders:
        wait_found(fleet, holder, PAGES_EACH)
    for node in fleet.nodes:
        assert bad_frames(node) == 0, node.name


@pytest.mark.node
def test_pages_that_are_evicted_and_set_again_are_never_wrong(fleet: TwoReleases) -> None:
    fleet.begin_load(fleet.holders, **CHURN)
    time.sleep(LOAD_SECONDS)
    deadline = time.monotonic() + HANG_SECONDS
    for node, release in zip(fleet.nodes, fleet.of_node, strict=True):
        while not node.status()["pool"]["evictions"]:
            assert time.monotonic() < deadline, (node.name, release.name)
            time.sleep(0.1)
    log = fleet.end_load(fleet.holders)  # which fails if a byte was wrong
    assert calls.hit_rate(log, fleet.holders) > 0.5


@pytest.mark.node
@pytest.mark.parametrize("clearer", range(HOSTS))
def test_a_clear_of_either_release_reaches_both(fleet: TwoReleases, clearer: int) -> None:
    for holder in fleet.holders:
        fleet.fill(holder)
    fleet.wait_full()
    assert fleet.engines[clearer].ask("clear")["reason"] == ""
    for holder in fleet.holders:
        wait_found(fleet, holder, 0)
    fleet.fill(clearer)
    wait_found(fleet, clearer, PAGES_EACH)


@pytest.mark.node
def test_a_secret_is_replaced_while_both_read_each_other(fleet: TwoReleases) -> None:
    for holder in fleet.holders:
        fleet.fill(holder)
    fleet.wait_full()
    fleet.begin_load(fleet.holders, writes=0.0, threads=1)
    write_token(fleet.folder, NEW)
    time.sleep(ROTATION_SECONDS)
    log = fleet.end_load(fleet.holders)
    assert calls.hit_rate(log, fleet.holders) > LEAST_RATE
    for host in fleet.hosts:

        def refusal(token: str, host: Host = host) -> str:
            try:
                with wire.Peer(PEER_PORT, source=host.address, address=host.address) as peer:
                    peer.join(token)
            except AssertionError as reason:
                return str(reason)
            return ""

        assert refusal(NEW) == ""
        deadline = time.monotonic() + HANG_SECONDS
        while not (said := refusal(OLD)):
            assert time.monotonic() < deadline, "the old secret is good for ever"
            time.sleep(0.1)
        assert "another secret" in said
    fleet.wait_full()


@pytest.mark.node
def test_a_cluster_is_rolled_and_goes_back_under_load(
    tmp_path_factory: pytest.TempPathFactory, former: Release
) -> None:
    """Nodes first, then engines, as docs/upgrade.md has it; then the nodes back."""
    folder = tmp_path_factory.mktemp("roll")
    fleet = TwoReleases(folder, other_hosts(3), [former] * 3, [former] * 3)
    try:
        fleet.start()
        fleet.wait_full()
        readers = [fleet.engine(i, "-reader") for i in fleet.holders]
        holders = [[0, PAGES_EACH]] * len(fleet.holders)
        for own, reader in enumerate(readers):
            reader.ask("load", holders=holders, own=own, refill=True, threads=1)
        for release in (TREE, former):
            for i in fleet.holders:
                fleet.roll(i, release)
                fleet.wait_full()
            if release is TREE:
                for i in fleet.holders:
                    fleet.engines[i].kill()
                    fleet.of_engine[i] = TREE
                    fleet.engines[i] = fleet.engine(i, "-tree")
                fleet.wait_full()
        fleet.end_loads(readers)
        for reader in readers:
            reader.kill()
    finally:
        fleet.stop()


@pytest.mark.node
@pytest.mark.parametrize(
    "order", ["former first", pytest.param("tree first", marks=pytest.mark.full)]
)
def test_nodes_of_other_protocol_versions_are_misses_and_say_so(
    tmp_path_factory: pytest.TempPathFactory, former: Release, order: str
) -> None:
    releases = [former, TREE] if order == "former first" else [TREE, former]
    folder = tmp_path_factory.mktemp("versions")
    fleet = TwoReleases(folder, other_hosts(2), releases, releases)
    # Each is told to the other by its relay's address.
    behind = [host.address for host in fleet.hosts]
    shown = [f"{address.rpartition('.')[0]}.{i + 101}" for i, address in enumerate(behind)]
    fleet.of_node = [
        Release(
            release.name,
            release.build,
            {
                **release.flags,
                "advertise_addr": shown[i],
                "discovery_addr": f"{behind[i]}:{PEER_PORT},{shown[1 - i]}:{PEER_PORT}",
            },
        )
        for i, release in enumerate(releases)
    ]
    with (
        VersionRelay(shown[0], behind[0], PEER_PORT) as first,
        VersionRelay(shown[1], behind[1], PEER_PORT) as second,
    ):
        try:
            fleet.start()
            fleet.wait_full()
            refused_before = [bad_frames(node) for node in fleet.nodes]
            first.version = second.version = LATER_VERSION
            # Own pages are read; of the other's no byte comes, and nobody waits for them.
            deadline = time.monotonic() + HANG_SECONDS
            while not all(len(node.status()["members"]) == 1 for node in fleet.nodes):
                for i, engine in enumerate(fleet.engines):
                    hits(engine, 1 - i)
                assert time.monotonic() < deadline, "they do not part"
                time.sleep(0.1)
            for i, engine in enumerate(fleet.engines):
                fleet.fill(i)
                # A node of the former release gives no page for a moment after it has become alone;
                # this tree's give theirs at once.
                soon = time.monotonic() + HANG_SECONDS
                while releases[i] is not TREE and exists(engine, i) != PAGES_EACH:
                    assert time.monotonic() < soon, "it gives none of its own pages"
                assert (exists(engine, i), hits(engine, i)) == (PAGES_EACH, PAGES_EACH)
                assert (exists(engine, 1 - i), hits(engine, 1 - i)) == (0, 0)
                node = fleet.nodes[i]
                assert bad_frames(node) > refused_before[i]
                assert f"frame has protocol version {LATER_VERSION}, this side" in node.output()
            first.version = second.version = 0
            fleet.wait_ready()
            fleet.wait_full()
        finally:
            fleet.stop()

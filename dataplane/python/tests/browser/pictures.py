"""Pictures of the dashboard for docs/pictures: four members, each on a machine of its own as far as
they can tell, under an hour of load that changes; then without one of the machines.

`make pictures`; needs root. Nothing is preloaded: the hour that the pictures show is one that ran.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from playwright.sync_api import Browser, Page, expect

from ..conftest import ROOT
from ..fleet.nodes import EngineProcess
from ..fleet.pages import HOLDER_STRIDE
from ..integration.processes import Node, Process, free_port, http, peercached

MINUTES = float(os.environ.get("PICTURE_MINUTES", "60"))
PICTURES = ROOT / "docs" / "pictures"
# What a picture of a healthy cluster has at least, of the hour.
LEAST_MINUTES = 55
LEAST_HITS = 0.8
MOST_P99 = 0.1  # s
WAIT_MS = 60_000
PHASE_SECONDS = 45
AFTERWARDS_SECONDS = 90  # until the loss is seen in the charts, too
READ_PAGES = 1200  # of each engine's, the newest
NEW_PAGES = 100  # of each engine, in a phase
PREFILL = 9000  # tokens/s that each engine reports
# The machine may have other work: a member is lost only after this.
SLOW = {"member_ttl_ms": "20000"}
# A process that sees a boot id of its own takes its machine for another one.
ELSEWHERE = 'mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"'


class Machine(Node):
    """peercached where the boot id is another one."""

    def __init__(self, name: str, folder: Path, peer_port: int, discovery: str) -> None:
        self.http_port, self.peer_port = free_port(), peer_port
        self.socket = str(folder / f"{name}.sock")
        boot_id = folder / f"{name}.boot_id"
        boot_id.write_text(f"{random.Random(name).getrandbits(128):032x}\n")
        command = peercached(
            name, "127.0.0.1", peer_port, self.http_port, discovery, self.socket, "96Mi", SLOW
        )
        elsewhere = ["unshare", "--mount", "sh", "-c", ELSEWHERE, str(boot_id), *command]
        Process.__init__(self, name, folder, elsewhere, {})
        self.wait_for(f"http://127.0.0.1:{self.http_port}/readyz")


class Engines:
    """One at each node. Conversations continue: in each phase each engine stores new pages, and all
    read what has been stored lately, at a pace that changes."""

    def __init__(self, folder: Path, nodes: list[Machine]) -> None:
        self.folder = folder
        self.chance = random.Random(1)
        self.stored = 0  # pages, by each
        self.engines = [EngineProcess(f"sglang-{n.name}", folder, n.socket) for n in nodes]
        for engine in self.engines:
            engine.ask("prefill", tokens_per_second=PREFILL)
        self._store(READ_PAGES)

    def _store(self, pages: int) -> None:
        for own, engine in enumerate(self.engines):
            engine.ask("set", first=own * HOLDER_STRIDE + self.stored, count=pages)
        self.stored += pages

    def phase(self) -> None:
        """Replaces what the engines do."""
        if self.stored > READ_PAGES:
            for engine in self.engines:
                engine.ask("stop", log=str(self.folder / "log.npy"))
        self._store(NEW_PAGES)
        # Some of what is asked for nobody has computed yet.
        unknown = round(READ_PAGES * self.chance.uniform(0.03, 0.12))
        holders = [[self.stored - READ_PAGES, READ_PAGES + unknown]] * len(self.engines)
        busy = self.chance.uniform(0.5, 1.5)
        for own, engine in enumerate(self.engines):
            pause = 0.06 * busy * self.chance.uniform(0.8, 1.2) * (1 + own / 4)
            engine.ask("load", holders=holders, own=own, threads=1, pause=pause, writes=0)

    def end(self) -> None:
        for engine in self.engines:
            engine.kill()


class Cluster(NamedTuple):
    machines: list[Machine]
    engines: Engines

    @property
    def page(self) -> str:
        """The address of the dashboard of the discovery host."""
        return f"http://127.0.0.1:{self.machines[0].http_port}/"

    def lose_the_last_machine(self) -> None:
        self.engines.engines.pop().kill()
        self.machines[-1].kill()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("machines")
    first = free_port()
    machines = [
        Machine(f"gpu-{n}.default", folder, first if n == 1 else free_port(), f"127.0.0.1:{first}")
        for n in range(1, 5)
    ]
    engines = Engines(folder, machines)
    end = time.monotonic() + MINUTES * 60
    while time.monotonic() < end:
        engines.phase()
        time.sleep(PHASE_SECONDS)
    yield Cluster(machines, engines)
    engines.end()
    for machine in machines:
        machine.kill()


def opened(browser: Browser, address: str, width: int, height: int, scheme: str) -> Page:
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme=scheme,  # type: ignore[arg-type]
        timezone_id="UTC",
    )
    page = context.new_page()
    page.goto(address)
    expect(page.locator("#figure-rates svg path")).to_have_count(3)
    # Stages are of the last minutes from the second look on.
    expect(page.locator("#stages caption")).to_contain_text("in the last", timeout=WAIT_MS)
    return page


def check_health(page: Page, address: str) -> None:
    """What a picture of a healthy cluster shows; a picture of anything else is an advertisement
    for the problem."""
    hour = http(f"{address}v1/history")["fleet"]
    minutes = len(hour["at"]) * 10 / 60
    hits = sum(hour["sum"]["delivered"].values()) / hour["sum"]["looked_up"]
    p99 = hour["sum"]["get_p99_seconds"]
    issues = page.locator("#attention-list li").all_text_contents()
    assert minutes >= LEAST_MINUTES, f"{minutes:.0f} min of history: set PICTURE_MINUTES=60"
    assert hits >= LEAST_HITS, f"{hits:.1%} of the pages looked up were hits: read fewer pages"
    assert p99 <= MOST_P99, f"the p99 of gets is {p99:.3f} s: stop what else this machine does"
    assert issues == [], "the cluster has issues: mend them"


def write(page: Page, name: str, whole: bool) -> None:
    PICTURES.mkdir(exist_ok=True)
    page.screenshot(path=PICTURES / f"{name}.png", full_page=whole)
    page.context.close()


@pytest.mark.parametrize(
    ("name", "width", "height", "scheme", "whole"),
    [
        ("dashboard", 1280, 900, "light", False),
        ("dashboard-dark", 1280, 900, "dark", False),
        ("dashboard-whole", 1280, 900, "light", True),
        ("dashboard-phone", 390, 844, "light", False),
    ],
)
def test_a_healthy_cluster(
    cluster: Cluster,
    browser: Browser,
    name: str,
    width: int,
    height: int,
    scheme: str,
    whole: bool,
) -> None:
    page = opened(browser, cluster.page, width, height, scheme)
    expect(page.locator("h4")).to_have_count(4)
    check_health(page, cluster.page)
    write(page, name, whole)


@pytest.fixture(scope="module")
def without_one(cluster: Cluster) -> Cluster:
    cluster.lose_the_last_machine()
    time.sleep(AFTERWARDS_SECONDS)
    return cluster


@pytest.mark.parametrize(
    ("name", "scheme"), [("dashboard-failed", "light"), ("dashboard-failed-dark", "dark")]
)
def test_a_machine_that_died(
    without_one: Cluster, browser: Browser, name: str, scheme: str
) -> None:
    page = opened(browser, without_one.page, 1280, 900, scheme)
    failed = page.locator("#attention-list li").filter(has_text="gpu-4.default failed")
    expect(failed).to_have_count(1, timeout=WAIT_MS)  # its time to live is over
    expect(page.locator("h4")).to_have_count(3)
    write(page, name, whole=False)

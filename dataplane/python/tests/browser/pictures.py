"""Pictures of the dashboard for docs/pictures: four nodes, each on a machine of its own as far as
they can tell, under a load that changes. `make pictures`; needs root."""

from __future__ import annotations

import itertools
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from ..conftest import ROOT
from ..fleet.nodes import EngineProcess
from ..integration.processes import Node, Process, free_port, peercached

MINUTES = float(os.environ.get("PICTURE_MINUTES", "20"))
PICTURES = ROOT / "docs" / "pictures"
PAGES = 1000
PHASE_SECONDS = 45
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
            name, "127.0.0.1", peer_port, self.http_port, discovery, self.socket, "96Mi", {}
        )
        elsewhere = ["unshare", "--mount", "sh", "-c", ELSEWHERE, str(boot_id), *command]
        Process.__init__(self, name, folder, elsewhere, {})
        self.wait_for(f"http://127.0.0.1:{self.http_port}/readyz")


class Engines:
    """One at each node. In each phase they read other shares of what all have stored."""

    def __init__(self, folder: Path, nodes: list[Machine]) -> None:
        self.folder = folder
        self.engines = [EngineProcess(f"sglang-{n.name}", folder, n.socket) for n in nodes]
        for own, engine in enumerate(self.engines):
            engine.ask("set", first=own * 1_000_000, count=PAGES)

    def phase(self, number: int) -> None:
        chance = random.Random(number)
        for own, engine in enumerate(self.engines):
            engine.ask("stop", log=str(self.folder / "log.npy")) if number > 0 else None
            holders = [[0, round(PAGES * chance.uniform(0.9, 1.5))] for _ in self.engines]
            pause = 0.01 * chance.uniform(1, 4) * (1 + own)
            engine.ask("load", holders=holders, own=own, threads=1, pause=pause, refill=own == 0)

    def end(self) -> None:
        for engine in self.engines:
            engine.kill()


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    folder = tmp_path_factory.mktemp("machines")
    first = free_port()
    nodes = [
        Machine(f"gpu-{n}.default", folder, first if n == 1 else free_port(), f"127.0.0.1:{first}")
        for n in range(1, 5)
    ]
    engines = Engines(folder, nodes)
    end = time.monotonic() + MINUTES * 60
    for number in itertools.count():
        engines.phase(number)
        if time.monotonic() + PHASE_SECONDS > end:
            break
        time.sleep(PHASE_SECONDS)
        if number == 3:  # an event to be seen
            nodes[-1].signal(signal.SIGSTOP)
            time.sleep(2)
            nodes[-1].signal(signal.SIGCONT)
    time.sleep(max(0.0, end - time.monotonic()))
    yield nodes[0]
    engines.end()
    for node in nodes:
        node.kill()


@pytest.mark.parametrize(
    ("name", "width", "height", "scheme", "whole"),
    [
        ("dashboard", 1280, 800, "light", True),
        ("dashboard-dark", 1280, 800, "dark", False),
        ("dashboard-phone", 390, 844, "light", False),
    ],
)
def test_picture(
    host: Machine, browser: Browser, name: str, width: int, height: int, scheme: str, whole: bool
) -> None:
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme=scheme,  # type: ignore[arg-type]
        timezone_id="UTC",
    )
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{host.http_port}/")
    expect(page.locator("h4")).to_have_count(4)
    expect(page.locator("#figure-rates svg path")).to_have_count(3)
    PICTURES.mkdir(exist_ok=True)
    page.screenshot(path=PICTURES / f"{name}.png", full_page=whole)
    context.close()

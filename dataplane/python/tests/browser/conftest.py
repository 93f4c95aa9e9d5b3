"""Three real nodes under load, and a browser that looks at them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from playwright.sync_api import Browser, Page, expect

from ..fleet.nodes import EngineProcess
from ..integration.conftest import Cluster
from ..integration.processes import Node
from .chromium import chromium

PAGES = 64
# A browser takes a processor for itself at times; nobody is lost for that.
SLOW = {"member_ttl_ms": "20000"}
WAIT_MS = 30_000  # the machine may have other work

expect.set_options(timeout=WAIT_MS)


class Nodes(NamedTuple):
    host: Node  # of discovery
    other: Node
    third: Node


class Load:
    """An engine at each node; each reads what all have stored."""

    def __init__(self, folder: Path, nodes: Nodes) -> None:
        self.folder = folder
        self.engines = [
            EngineProcess(f"engine-{at}", folder, node.socket) for at, node in enumerate(nodes)
        ]
        for own, engine in enumerate(self.engines):
            stored = engine.ask("set", first=own * 1_000_000, count=PAGES)["stored"]
            assert stored == PAGES, engine.output()
        # A quarter of what is looked up was never stored.
        holders = [[0, PAGES * 4 // 3]] * len(self.engines)
        for own, engine in enumerate(self.engines):
            engine.ask("load", holders=holders, own=own, threads=1, pause=0.02)

    def end(self) -> None:
        for engine in self.engines:
            engine.kill()


@pytest.fixture(scope="package")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Nodes, Load]]:
    folder = tmp_path_factory.mktemp("nodes")
    cluster = Cluster(folder)
    try:
        # Without copies of what others have, the nodes go on reading from each other.
        names = ("gpu-1.numa0", "gpu-1.numa1", "gpu-2.default")
        made = Nodes(*(cluster.node(name, promotion_percent="0", **SLOW) for name in names))
        load = Load(folder, made)
        yield made, load
        load.end()
    finally:
        cluster.stop()


@pytest.fixture(scope="package")
def nodes(running: tuple[Nodes, Load]) -> Nodes:
    return running[0]


@pytest.fixture(scope="package")
def engines(running: tuple[Nodes, Load]) -> list[EngineProcess]:
    """One at each of the nodes."""
    return running[1].engines


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    with chromium() as made:
        yield made


Open = Callable[..., Page]


@pytest.fixture
def look(browser: Browser) -> Iterator[Open]:
    """Opens an address in a context of its own. Whatever goes wrong in any page fails the test."""
    contexts, troubles = [], []

    def look(address: str | Node, **options: object) -> Page:
        if isinstance(address, Node):
            address = f"http://127.0.0.1:{address.http_port}/"
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})  # type: ignore[arg-type]
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: troubles.append(f"{address}: {error}"))
        page.on(
            "console",
            lambda message: (
                troubles.append(f"{address}: {message.type}: {message.text}")
                if message.type in ("error", "warning")
                else None
            ),
        )
        page.goto(address)
        return page

    yield look
    for context in contexts:
        context.close()
    assert troubles == []

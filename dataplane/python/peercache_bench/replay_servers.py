"""SGLang's own servers on a CPU, with a modelled forward: forks of one process that imports SGLang.

They need a source tree: hack/lab/engines has the platform, and install.sh the engines.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peercache_bench.binaries import TREE, install_package
from peercache_bench.errors import BenchError
from peercache_bench.ports import free_port

LAB = TREE / "hack" / "lab" / "engines"
PAGE_TOKENS = 64  # as docs/tuning.md recommends
# HiCache's host pool, as a multiple of the GPU's.
L2_RATIO = 2
START_SECONDS = 300
_MODEL_SEED = 1


@dataclass(frozen=True)
class Server:
    name: str
    port: int
    group: int  # of its processes
    log: Path
    report: Path  # of the modelled forward

    def reported(self) -> list[dict[str, Any]]:
        """Its forward passes and gets. Raises BenchError after wrong bytes."""
        lines = self.report.read_text().splitlines() if self.report.exists() else []
        found = [json.loads(line) for line in lines]
        for line in found:
            if "wrong" in line:
                raise BenchError(f"{line['wrong']} at server {self.name}: report it; do not retry")
        return found

    def alive(self) -> bool:
        return Path(f"/proc/{self.group}").exists()

    def tail(self) -> str:
        return self.log.read_text(errors="replace")[-2000:] if self.log.exists() else ""


def engines() -> Path:
    """The folder with the engines, which are installed where they are missing (some minutes)."""
    script = LAB / "install.sh"
    if not script.is_file():
        raise BenchError(f"replay needs a source tree: {script} does not exist")
    made = subprocess.run([script], stdout=subprocess.PIPE, text=True, check=False)
    if made.returncode:
        raise BenchError(f"{script} failed: see its error above")
    return Path(made.stdout.strip())


def _release(installed: Path) -> Path:
    found = sorted((installed / "releases").glob("sglang-*"))
    if not found:
        raise BenchError(f"{installed}/releases has no SGLang: run {LAB / 'install.sh'}")
    return found[-1]


class Importer:
    """A process that has imported SGLang, of which servers are forks. Not thread-safe."""

    def __init__(self, build: Path, folder: Path, model: Mapping[str, float]) -> None:
        self._folder = folder
        installed = engines()
        python = installed / "venv" / "bin" / "python"
        self.checkpoint = folder / "model"
        subprocess.run(
            [python, LAB / "model.py", "llama", self.checkpoint, str(_MODEL_SEED)], check=True
        )
        path = (
            _release(installed),
            install_package(build, folder),
            LAB / "sglang_cpu",
            TREE / "dataplane" / "python",
        )
        self._log = folder / "importer.log"
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(
                [python, LAB / "sglang_servers.py"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                text=True,
                start_new_session=True,
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join(map(str, path)),
                    "PEERCACHE_MODELLED": json.dumps(model),
                },
            )
        self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):  # SGLang logs there, too
                return json.loads(line)
        raise BenchError("SGLang cannot be imported:\n" + self._log.read_text()[-2000:])

    def start(self, name: str, flags: Sequence[str]) -> Server:
        """Returns at once."""
        port = free_port()
        log, report = self._folder / f"{name}.log", self._folder / f"{name}.report"
        arguments = [
            *("--model-path", str(self.checkpoint), "--skip-tokenizer-init", "--device", "cpu"),
            *("--host", "127.0.0.1", "--port", str(port), "--nccl-port", str(free_port())),
            *("--page-size", str(PAGE_TOKENS), "--disable-cuda-graph", "--skip-server-warmup"),
            *("--sleep-on-idle", "--disable-overlap-schedule"),
            "--enable-metrics",  # answers have times then
            *("--json-model-override-args", json.dumps({"max_position_embeddings": 1 << 20})),
            *flags,
        ]
        env = {"PEERCACHE_MODELLED_REPORT": str(report)}
        order = {"name": name, "arguments": arguments, "log": str(log), "env": env}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return Server(name, port, self._answer()["group"], log, report)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


def wait(server: Server) -> None:
    """Until it serves. Raises BenchError."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        if not server.alive() or time.monotonic() > deadline:
            raise BenchError(f"server {server.name} does not start; its log:\n{server.tail()}")
        with contextlib.suppress(OSError, urllib.error.URLError):
            urllib.request.urlopen(f"http://127.0.0.1:{server.port}/health", timeout=5)
            return
        time.sleep(0.05)


def stop(server: Server) -> None:
    """Ends all its processes, and removes the shared memory that SGLang leaves."""
    left = shared_memory(server.group)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.group, signal.SIGKILL)
    while server.alive():
        time.sleep(0.01)
    for file in left:
        file.unlink(missing_ok=True)


def shared_memory(group: int) -> set[Path]:
    """Files that processes of SGLang, of a process group, make and never remove."""
    found: set[Path] = set()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.getpgid(int(process.name)) == group:
                words = (process / "maps").read_text().split()
                found.update(Path(word) for word in words if word.startswith("/dev/shm/sgl"))
    return found


def cache_flags(socket: Path | None, prefill_rate: float) -> tuple[str, ...]:
    """HiCache, with PeerCache at the socket of a member; waits are as docs/tuning.md advises."""
    l2 = ("--enable-hierarchical-cache", "--hicache-ratio", str(L2_RATIO))
    if socket is None:
        return l2
    backend = {
        "backend_name": "peercache",
        "module_path": "peercache.store",
        "class_name": "PeerCacheStore",
        "interface_v1": 1,
        "allocator": "shm",
        "socket": str(socket),
        "prefetch_timeout_base": 0.2,
        "prefetch_timeout_per_ki_token": 1024 / prefill_rate,
    }
    return (
        *l2,
        *("--hicache-storage-backend", "dynamic"),
        *("--hicache-storage-backend-extra-config", json.dumps(backend)),
    )


@contextlib.contextmanager
def running(
    importer: Importer, names_and_flags: Mapping[str, Sequence[str]]
) -> Iterator[list[Server]]:
    """All of them ready; ends them."""
    servers: list[Server] = []
    try:
        for name, flags in names_and_flags.items():
            servers.append(importer.start(name, flags))
        for server in servers:
            wait(server)
        yield servers
    finally:
        for server in servers:
            stop(server)

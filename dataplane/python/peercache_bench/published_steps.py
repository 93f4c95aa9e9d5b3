"""What each side of `published` runs in a step, and what it brings."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import json
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from peercache_bench.binding import another_node, node_of_interface, node_of_port, on_node
from peercache_bench.errors import BenchError
from peercache_bench.ladder import attempt, bare_command, bare_rate
from peercache_bench.published import Figures
from peercache_bench.published_figures import REQUESTS, WINDOWS, Step

BARE_QUEUES = 16
# What `serve` takes at least.
LEAST_PAGES = 4
# getsockopt of Linux: what the path to the peer takes in a packet.
IP_MTU = 14
CUDA = "libcuda.so.1"


@dataclass(frozen=True)
class Server:
    """A host that serves, as this one reaches it."""

    host: str
    first_port: int  # of its nodes and of what is measured beside them


@dataclass(frozen=True)
class Here:
    """What one of the hosts was told."""

    devices: tuple[str, ...]
    working_set: int  # bytes
    seconds: float
    warmup: float
    first_port: int
    advertise: str
    numa_node: int | None
    bare: str
    build: Path | None
    node_options: tuple[str, ...]


def path_of(host: str, port: int) -> str:
    """For people: how large packets to the host are, and over which interface they go."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host, port))
            mtu = probe.getsockopt(socket.IPPROTO_IP, IP_MTU)
        except OSError:
            return f"Path to {host}"
    interface = _interface(host)
    return f"Path to {host}: MTU {mtu}" + (f" over {interface}" if interface else "")


def _interface(host: str) -> str:
    """The interface of the route to a host; empty where ip does not say."""
    if shutil.which("ip") is None:
        return ""
    said = subprocess.run(["ip", "-j", "route", "get", host], capture_output=True, check=False)
    with contextlib.suppress(ValueError, LookupError):
        return str(json.loads(said.stdout)[0]["dev"])
    return ""


def _groups(step: Step, here: Here) -> list[tuple[str, ...]]:
    """The devices of each pair of nodes."""
    devices = here.devices[: step.ports]
    return [(device,) for device in devices] if step.pairs else [devices]


def _bound(
    step: Step, here: Here, devices: Sequence[str], host: str = "", far: bool = False
) -> list[str]:
    """Words before a command. Raises BenchError where no NUMA node is known."""
    if not step.bound:
        return []
    node = here.numa_node
    if node is None:
        node = node_of_port(devices[0]) if devices else node_of_interface(_interface(host))
    if node is None and step.pairs:
        return []  # a machine with one node, or ports that are not on PCI
    if node is None:
        raise BenchError("no NUMA node is known: name one by --numa-node")
    if far and (node := another_node(node)) is None:
        raise BenchError("this host has one NUMA node")
    if shutil.which("taskset") is None:
        raise BenchError("no taskset on the PATH: install util-linux")
    return on_node(node)


def _get(step: Step, here: Here, role: str, devices: Sequence[str], address: str) -> list[str]:
    engines = max(step.threads) * step.processes
    pages = max(here.working_set // step.page_bytes, engines * step.batch, LEAST_PAGES)
    line = [
        *_bench(role, here, devices), "--discovery-addr", address,
        "--page-size", str(step.page_bytes), "--batch-size", str(step.batch),
        "--working-set", str(pages),
    ]  # fmt: skip
    line += ["--node-option", f"checksums={step.checksums}"] if step.checksums else []
    return [*line, "--advertise-addr", here.advertise] if here.advertise else line


def _bench(command: str, here: Here, devices: Sequence[str]) -> list[str]:
    line = [sys.executable, "-m", "peercache_bench", command]
    line += ["--protocol", "rdma", "--devices", ",".join(devices)] if devices else []
    line += ["--build", str(here.build)] if here.build else []
    for option in here.node_options:
        line += ["--node-option", option]
    return line


def _timed(here: Here, out: Path) -> list[str]:
    return [
        "--no-limits", "--out-dir", str(out),
        "--duration", str(here.seconds), "--warmup", str(here.warmup),
    ]  # fmt: skip


@contextlib.contextmanager
def served(step: Step, here: Here) -> Iterator[str]:
    """Serves a step; what comes is empty, or why that cannot be."""
    running: list[subprocess.Popen[str]] = []
    try:
        trouble = ""
        try:
            for line, ready in _serving(step, here):
                running.append(subprocess.Popen(line, stdout=subprocess.PIPE, text=True))
                _await(running[-1], shlex.join(line), ready)
        except (BenchError, OSError) as error:
            trouble = " ".join(str(error).split())
        yield trouble
    finally:
        _end(running)


def _serving(step: Step, here: Here) -> Iterator[tuple[list[str], str]]:
    """Commands of the side that serves, and how the line begins that says that they are ready."""
    if step.kind == "bare":
        yield _bare(step, here), ""
    elif step.kind == "iperf3":
        _need("iperf3")
        words = ["iperf3", "--server", "--port", str(here.first_port), "--forceflush"]
        yield [*_bound(step, here, ()), *words], "Server listening"
    else:
        for i, devices in enumerate(_groups(step, here)):
            bind = _bound(step, here, devices)
            yield [*bind, *_get(step, here, "serve", devices, f":{here.first_port + i}")], "ready"


def _await(process: subprocess.Popen[str], line: str, ready: str) -> None:
    """Until it has said that it is ready. The rest is dropped: a full pipe would stop it."""
    assert process.stdout is not None
    found = not ready or any(said.startswith(ready) for said in process.stdout)
    threading.Thread(target=process.stdout.read, daemon=True).start()
    if not found:
        raise BenchError(f"{line} has ended, see above")


def _end(running: Sequence[subprocess.Popen[str]]) -> None:
    for process in running:
        process.terminate()
    for process in running:
        process.wait()


def _need(program: str) -> None:
    if shutil.which(program) is None:
        package = {"ib_read_bw": "perftest"}.get(program, program)
        raise BenchError(f"no {program} on the PATH: apt-get install {package}")


def _bare(step: Step, here: Here) -> list[str]:
    _need("ib_read_bw")
    line = bare_command(here.devices[0], BARE_QUEUES, step.page_bytes, here.first_port)
    return [*line, *shlex.split(here.bare)]


def measure(step: Step, here: Here, servers: Sequence[Server]) -> Figures | str:
    """Bytes a second, by Cell.which; or why there are none. ``servers`` serve, if somebody has to.

    What the commands say goes to standard error.
    """
    try:
        if step.kind == "async":
            return _requests(step, here)
        if step.kind == "bare":
            return {1: bare_rate(attempt([*_bare(step, here), servers[0].host], True)) * 1e9}
        if step.kind == "iperf3":
            return {n: _iperf(step, here, servers[0], n) for n in step.threads}
        if step.gpu:
            need_gpu()
        return _gets(step, here, servers[: step.servers])
    except (BenchError, OSError) as error:
        return " ".join(str(error).split())


def need_gpu() -> None:
    """Raises BenchError where nothing can be read into a GPU."""
    try:
        ctypes.CDLL(CUDA)
    except OSError as error:
        raise BenchError(f"this host shows no GPU ({error}): install NVIDIA's driver") from None


def _iperf(step: Step, here: Here, server: Server, threads: int) -> float:
    _need("iperf3")
    line = [
        *_bound(step, here, (), server.host), "iperf3", "--client", server.host,
        "--port", str(server.first_port),
        "--parallel", str(threads), "--time", str(max(round(here.seconds), 1)), "--json",
    ]  # fmt: skip
    said = subprocess.run(line, capture_output=True, text=True, check=False)
    try:
        values = json.loads(said.stdout)
        return float(values["end"]["sum_received"]["bits_per_second"]) / 8
    except (ValueError, LookupError):
        raise BenchError(f"{shlex.join(line)} failed: {said.stdout}{said.stderr}") from None


def _gets(step: Step, here: Here, servers: Sequence[Server]) -> Figures:
    """All servers and all groups of devices at once."""
    with tempfile.TemporaryDirectory(prefix="peercache-bench-") as folder:
        running: dict[Path, subprocess.Popen[str]] = {}
        try:
            groups = list(enumerate(_groups(step, here)))
            for server, (i, devices) in itertools.product(servers, groups):
                out = Path(folder) / str(len(running))
                line = [
                    *_bound(step, here, devices, server.host, step.far),
                    *_get(step, here, "drive", devices, f"{server.host}:{server.first_port + i}"),
                    "--concurrencies", ",".join(map(str, step.threads)),
                    "--processes", str(step.processes), *_timed(here, out),
                    *(["--gpu"] if step.gpu else []),
                ]  # fmt: skip
                running[out] = subprocess.Popen(line, stdout=subprocess.PIPE, text=True)
            for process in running.values():
                process.communicate()
        finally:
            _end(list(running.values()))
        total: dict[int | str, float] = dict.fromkeys(step.threads, 0.0)
        for out, process in running.items():
            if process.returncode != 0:
                raise BenchError(f"drive ended with status {process.returncode}, see above")
            for result in json.loads((out / "drive.json").read_text())["results"]:
                total[result["case"]["threads"]] += result["figures"]["gb_per_s"] * 1e9
        return total


def _requests(step: Step, here: Here) -> Figures:
    with tempfile.TemporaryDirectory(prefix="peercache-bench-") as folder:
        line = [
            *_bench("async", here, here.devices[: step.ports]),
            "--sizes", str(step.page_bytes), "--requests", ",".join(map(str, REQUESTS)),
            "--windows", ",".join(map(str, WINDOWS)),
            "--working-set", str(max(here.working_set // step.page_bytes, max(REQUESTS))),
            *_timed(here, Path(folder)),
        ]  # fmt: skip
        process = subprocess.run(line, stdout=subprocess.PIPE, text=True, check=False)
        if process.returncode != 0:
            raise BenchError(f"async ended with status {process.returncode}, see above")
        found: dict[int | str, float] = {}
        for result in json.loads((Path(folder) / "async.json").read_text())["results"]:
            case = result["case"]
            number = case["window"] if case["mode"] == "windowed" else case["requests"]
            found[f"{case['mode']} {number}"] = result["figures"]["gb_per_s"] * 1e9
        return found

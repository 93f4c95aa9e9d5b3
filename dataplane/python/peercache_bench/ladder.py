"""ladder: READs over RDMA in steps, each of which adds one thing, and what bounds each of them.

One host serves, the other climbs; both take the same flags, and go through the same steps:

    producer$ peercache-bench ladder --devices mlx5_0,mlx5_1
    consumer$ peercache-bench ladder --devices mlx5_0,mlx5_1 PRODUCER
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from peercache_bench import fabric_flags
from peercache_bench.bare_reads import DEFAULT_PORT
from peercache_bench.binaries import find
from peercache_bench.counters import Counted, Counters, port_folder
from peercache_bench.errors import BenchError
from peercache_bench.perf import Options, words
from peercache_bench.units import GIB, KIB, MIB, count, size

HEADER = ("step", "GB/s", "of the ports", "ib_read_bw", "p50 [us]", "p99 [us]")
THREADS = (2, 4, 8)
# Of the ports, or of ib_read_bw: the goal of docs/hardware.md.
REACHED = 0.94
# How much faster a step must be than another for its difference to be a bound.
FASTER = 1.1
# More of all bytes than one member of a bond of two should bring.
UNEVEN = 0.8
# For the other side to begin the same step: it registers gigabytes first.
PATIENCE_SECONDS = 60.0
# peercache-perf and ib_read_bw say one of these while the other side has not begun.
NOBODY_LISTENS = ("Connection refused", "Couldn't connect to")


@dataclass(frozen=True)
class Step:
    """READs of one shape, over the first so many ports."""

    name: str
    ports: int = 1
    page_bytes: int = 128 * KIB
    options: Options = field(default_factory=dict)
    # Queue pairs of the ib_read_bw beside it; 0: none, since it takes one port alone.
    bare_queues: int = 0
    # What bounds this step if the step of that name, which is without it, is faster.
    but_for: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Climbed:
    """What a step reached. Rates in GB/s; 0: not known."""

    rate: float
    limit: float = 0
    bare: float = 0
    counted: Counted = field(default_factory=Counted)


def steps(ports: int, pool_bytes: int) -> list[Step]:
    """From one queue pair of one port, in a pool that caches hold, to threads over all ports."""
    cold: Options = {"pool_bytes": pool_bytes}
    huge: Options = {**cold, "huge_pages": "auto"}
    node, tables = "as a node has them", "the same in huge pages"
    window, ece = "without pauses between batches", "with rdma-ece"
    found = [
        Step("one queue pair", options={"queues": 1}, bare_queues=1,
             but_for=((node, "its queue pair"),)),
        Step("two queue pairs", options={"queues": 2}, bare_queues=2,
             but_for=((node, "its queue pairs"),)),
        Step("four queue pairs", options={"queues": 4}, bare_queues=4,
             but_for=((node, "its queue pairs"),)),
        Step(node, bare_queues=16,
             but_for=((window, "pauses between its batches"), (ece, "what is sent again"),
                      ("2 threads", "one thread"))),
        Step(window, options={"window": True}, but_for=(("2 threads", "one thread"),)),
        Step(ece, options={"ece": "true"}, but_for=(("2 threads", "one thread"),)),
        Step("without relaxed ordering", options={"relaxed_ordering": "false"},
             but_for=((node, "writes that PCIe keeps in order"),)),
        Step("a pool that no cache holds", options=cold,
             but_for=((tables, "page tables of the NIC"), (node, "memory that no cache holds"))),
        Step(tables, options=huge,
             but_for=(("2 threads", "one thread"), (node, "memory that no cache holds"))),
    ]  # fmt: skip
    found += [
        Step(f"{n} threads", options={**huge, "threads": n}, but_for=_of_threads("{} threads", n))
        for n in THREADS
    ]
    whole = f"{ports} ports, {{}} threads"
    for n in sorted({n for n in (2, 4, 8) if n < ports} | {ports} - {1}):
        more = ((whole.format(2), "one thread"),) if n == ports else ()
        found.append(Step(f"{n} ports, 1 MiB", n, MIB, options=huge, but_for=more))
    if ports > 1:
        found += [
            Step(whole.format(n), ports, MIB, {**huge, "threads": n}, 0, _of_threads(whole, n))
            for n in THREADS
        ]
    return found


def _of_threads(name: str, threads: int) -> tuple[tuple[str, str], ...]:
    return ((name.format(2 * threads), "its threads"),) if 2 * threads in THREADS else ()


def bound(step: Step, climbed: dict[str, Climbed]) -> str:
    """What bounds a step, as far as the other steps and the counters tell."""
    here = climbed[step.name]
    if here.counted.losses:
        return f"loss: {_named(here.counted.losses)}"
    if here.limit and here.rate >= REACHED * here.limit:
        return "the ports"
    if here.counted.waits:
        return f"the network, which asks for less: {_named(here.counted.waits)}"
    came = here.counted.members
    if len(came) > 1 and max(came.values()) > UNEVEN * sum(came.values()):
        most = max(came, key=lambda name: came[name])
        return f"one member of the bond: {came[most] / sum(came.values()):.0%} came by {most}"
    for name, what in step.but_for:
        if name in climbed and climbed[name].rate >= FASTER * here.rate:
            return f"{what}: {name!r} is {climbed[name].rate / here.rate:.1f} times as fast"
    if here.bare and here.rate >= REACHED * here.bare:
        return "what bounds ib_read_bw, too: NIC, PCIe, or the other host"
    return "not shown by these steps: see the counters of both hosts, and peercached doctor"


def _named(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:+,}" for name, count in sorted(counts.items()))


def command(step: Step, arguments: argparse.Namespace) -> list[str]:
    """The command line of peercache-perf for a step."""
    devices = arguments.devices.split(",")
    options: Options = {
        "devices": ",".join(devices[: step.ports]),
        "bytes": step.page_bytes,
        "batch": arguments.batch_size,
        "reads": max(arguments.bytes // step.page_bytes, arguments.batch_size),
        "port": arguments.port,
        **fabric_flags.of_perf(arguments),
        **step.options,
    }
    if arguments.host:
        options["host"] = arguments.host
    return [str(find("peercache-perf", arguments.build)), "rdma-read", *words(options)]


def port_rate(device: str, sysfs: Path = Path("/sys")) -> float:
    """GB/s of a port (``mlx5_0`` or ``mlx5_0:2``); 0 where the kernel does not say."""
    try:
        match = re.match(r"[\d.]+", (port_folder(device, sysfs) / "rate").read_text())
    except OSError:
        return 0
    return float(match[0]) / 8 if match else 0


def row(step: Step, result: dict[str, Any], limit: float, bare: float | None) -> tuple[str, ...]:
    rate, latency = result["gb_per_s"], result["latency_us"]
    return (
        step.name,
        f"{rate:.2f}",
        f"{rate / limit:.2f}" if limit else "-",
        "-" if bare is None else f"{bare:.2f}",
        f"{latency['p50']:.1f}",
        f"{latency['p99']:.1f}",
    )


def add_command(commands: Any) -> None:
    ladder = commands.add_parser(
        "ladder", help="two hosts: READs over RDMA, one more thing in each step",
        description="Without HOST it serves the steps, until the other side has climbed them. Both "
        "sides take the same flags, but for --devices and --bare. Beside the steps of one port "
        "stands ib_read_bw, with --bare.",
    )  # fmt: skip
    ladder.add_argument("host", nargs="?", default="", help="where the steps are served")
    ladder.add_argument(
        "--devices", required=True, metavar="NAME[:PORT],...", help="RDMA ports of this host"
    )
    ladder.add_argument(
        "--ports", type=count, default=None, metavar="N", help="as many on both (default: all)"
    )
    ladder.add_argument(
        "--pool", type=size, default=4 * GIB, metavar="SIZE",
        help="memory that is read from, where caches shall not hold it (default: 4g)",
    )  # fmt: skip
    ladder.add_argument(
        "--bytes", type=size, default=32 * GIB, metavar="SIZE", help="of each step (default: 32g)"
    )
    ladder.add_argument(
        "--batch-size", type=count, default=128, metavar="N",
        help="begun together, or under way at any time (default: 128)",
    )  # fmt: skip
    ladder.add_argument(
        "--bare", default=None, metavar="OPTIONS",
        help="ib_read_bw beside steps of one port, with options of this host, e.g. --bare='-x 3'",
    )  # fmt: skip
    ladder.add_argument(
        "--port", type=count, default=DEFAULT_PORT, help=f"TCP port (default: {DEFAULT_PORT})"
    )
    fabric_flags.add_flags(ladder)
    ladder.add_argument(
        "--out", type=Path, default=None, metavar="FILE", help="the steps as JSON, in a new file"
    )
    ladder.add_argument("--build", type=Path, default=None, metavar="DIR", help="folder of a build")
    ladder.set_defaults(parser=ladder, run=_run)


def _bare_command(step: Step, arguments: argparse.Namespace) -> list[str]:
    device = arguments.devices.split(",")[0]
    line = bare_command(device, step.bare_queues, step.page_bytes, arguments.port + 1)
    line += fabric_flags.of_perftest(arguments)
    return [*line, *shlex.split(arguments.bare), *([arguments.host] if arguments.host else [])]


def bare_command(device: str, queues: int, page_bytes: int, port: int) -> list[str]:
    """ib_read_bw of a port (``mlx5_0:2``); the host that is read from has yet to follow."""
    name, _, number = device.partition(":")
    return [
        "ib_read_bw", "-d", name, "-i", number or "1", "-q", str(queues), "-s", str(page_bytes),
        "-D", "3", "-p", str(port), "--report_gbits",
    ]  # fmt: skip


def bare_rate(output: str) -> float:
    """GB/s of what ib_read_bw prints with --report_gbits: the average is its fourth column."""
    for line in output.splitlines():
        columns = line.split()
        if len(columns) >= 4 and columns[0].isdigit():
            return float(columns[3]) / 8
    raise BenchError(f"ib_read_bw printed no rate: {output.strip()}")


def attempt(line: Sequence[str], climbs: bool) -> str:
    """Its output. The one that climbs waits until the other side listens.

    Nothing else is tried again: the other side goes on to the next step after any connection.
    """
    end = time.monotonic() + (PATIENCE_SECONDS if climbs else 0)
    while True:
        process = subprocess.run(line, capture_output=True, text=True, check=False)
        if process.returncode == 0:
            return process.stdout
        said = process.stderr.strip() or process.stdout.strip()
        if time.monotonic() >= end or not any(words in said for words in NOBODY_LISTENS):
            raise BenchError(f"{' '.join(line)} failed: {said}")
        time.sleep(0.2)


def _each(arguments: argparse.Namespace, plan: Sequence[Step]) -> Iterator[tuple[str, str]]:
    """What peercache-perf and ib_read_bw print in each step; empty without the latter."""
    climbs = bool(arguments.host)
    for step in plan:
        ours = attempt(command(step, arguments), climbs)
        bare = arguments.bare is not None and step.bare_queues > 0
        yield ours, attempt(_bare_command(step, arguments), climbs) if bare else ""


def _run(arguments: argparse.Namespace) -> int:
    devices = arguments.devices.split(",")
    ports = arguments.ports or len(devices)
    if ports > len(devices):
        raise BenchError(f"--ports {ports}: --devices names {len(devices)}")
    if arguments.bare is not None and shutil.which("ib_read_bw") is None:
        raise BenchError("--bare: no ib_read_bw on the PATH: install perftest, or leave it out")
    if arguments.out is not None and arguments.out.exists():
        raise BenchError(f"--out {arguments.out}: it is there already; name another file")
    plan = steps(ports, arguments.pool)
    if not arguments.host:
        print(f"serving {len(plan)} steps at port {arguments.port}", flush=True)
        for done, _ in enumerate(_each(arguments, plan), 1):
            print(f"{done} of {len(plan)}", flush=True)
        return 0
    widths = [max(len(HEADER[0]), *(len(step.name) for step in plan)), *map(len, HEADER[1:])]
    print(_line(HEADER, widths), flush=True)
    counters = Counters(devices[:ports])
    climbed: dict[str, Climbed] = {}
    for step, (ours, bare) in zip(plan, _each(arguments, plan), strict=True):
        limit = sum(map(port_rate, devices[: step.ports]))
        # The lines before the last one are its log.
        result = json.loads(ours.splitlines()[-1])
        rate = bare_rate(bare) if bare else None
        climbed[step.name] = Climbed(result["gb_per_s"], limit, rate or 0, counters.grown())
        print(_line(row(step, result, limit, rate), widths), flush=True)
    print("\nwhat bounds each step, as far as this host shows:")
    bounds = {step.name: bound(step, climbed) for step in plan}
    for name, what in bounds.items():
        print(f"{name:<{widths[0]}}  {what}")
    if arguments.out is not None:
        told = [{"step": name, "bound": bounds[name], **asdict(climbed[name])} for name in bounds]
        arguments.out.write_text(json.dumps(told, indent=2) + "\n")
    return 0


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *rest = zip(cells, widths, strict=True)
    return "  ".join([f"{first[0]:<{first[1]}}", *(f"{cell:>{width}}" for cell, width in rest)])

"""read: READs over RDMA with nothing around them, in the shape of ib_read_bw."""

from __future__ import annotations

import argparse
import json
import subprocess
from pathlib import Path
from typing import Any

from peercache_bench import fabric_flags
from peercache_bench.binaries import find
from peercache_bench.errors import BenchError
from peercache_bench.perf import Result, words
from peercache_bench.units import count, size

# The default port of ib_read_bw.
DEFAULT_PORT = 18515
HEADER = (
    f"{'#bytes':>10} {'#READs':>10} {'depth':>6} {'rails':>6} "
    f"{'GB/s':>8} {'p50[us]':>10} {'p99[us]':>10}"
)


def add_command(commands: Any) -> None:
    read = commands.add_parser(
        "read", help="two hosts: READs over RDMA alone, beside ib_read_bw",
        description="READs as nodes do them, without nodes, lookups and engines. Without HOST it "
        "is what is read from, until the reader has gone; all flags but --reads as over there.",
    )  # fmt: skip
    read.add_argument("host", nargs="?", default="", help="where the other one runs")
    read.add_argument(
        "--devices", "--device-name", default="", metavar="NAME[:PORT],...",
        help="RDMA ports of this host (default: all usable)",
    )  # fmt: skip
    read.add_argument(
        "--page-size",
        type=size,
        default=128 << 10,
        metavar="SIZE",
        help="of one READ (128k)",
    )
    read.add_argument(
        "--batch-size", type=count, default=32, metavar="N", help="begun together (default: 32)"
    )
    read.add_argument(
        "--reads", type=count, default=10_000, metavar="N", help="in all (default: 10000)"
    )
    read.add_argument(
        "--port", type=count, default=DEFAULT_PORT, help=f"TCP port (default: {DEFAULT_PORT})"
    )
    fabric_flags.add_flags(read)
    read.add_argument("--build", type=Path, default=None, metavar="DIR", help="folder of a build")
    read.set_defaults(parser=read, run=_run)


def command(arguments: argparse.Namespace) -> list[str]:
    """The command line of peercache-perf."""
    options: dict[str, object] = {
        "bytes": arguments.page_size,
        "batch": arguments.batch_size,
        "reads": arguments.reads,
        "port": arguments.port,
        **fabric_flags.of_perf(arguments),
    }
    if arguments.devices:
        options["devices"] = arguments.devices
    if arguments.host:
        options["host"] = arguments.host
    return [str(find("peercache-perf", arguments.build)), "rdma-read", *words(options)]


def row(arguments: argparse.Namespace, result: Result) -> str:
    latency = result["latency_us"]
    return (
        f"{arguments.page_size:>10} {result['pages']:>10} {arguments.batch_size:>6} "
        f"{result['rails']:>6} {result['gb_per_s']:>8.3f} "
        f"{latency['p50']:>10.1f} {latency['p99']:>10.1f}"
    )


def _run(arguments: argparse.Namespace) -> int:
    perf = command(arguments)
    if not arguments.host:
        print(f"waiting for a reader at port {arguments.port}", flush=True)
    process = subprocess.run(perf, stdout=subprocess.PIPE, text=True, check=False)
    lines = process.stdout.splitlines()
    if process.returncode != 0 or not lines:
        raise BenchError(f"{' '.join(perf)} failed, see above")
    if arguments.host:
        # The lines before the last one are its log.
        print(f"{HEADER}\n{row(arguments, json.loads(lines[-1]))}")
    return 0

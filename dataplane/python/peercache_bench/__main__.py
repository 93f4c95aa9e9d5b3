"""``peercache-bench``, or ``python -m peercache_bench``: the command line."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from peercache_bench import capacity, cli, disk, ratios, replay, report
from peercache_bench.engine import Engine
from peercache_bench.errors import BenchError


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="peercache-bench",
        description="Measures PeerCache beside the limits of the machine; "
        "see docs/dev/benchmarks.md.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    sub = commands.add_parser("ratios", help="the data plane beside the limits of this machine")
    sub.add_argument("--build", type=Path, required=True, help="folder with peercached")
    sub.add_argument("--engine", type=Path, required=True, help="folder with hicache_engine")
    sub.add_argument("--out", type=Path, required=True, help="folder for ratios.json and .png")
    sub.add_argument("--repetitions", type=int, default=5, help="of every row (default: 5)")
    sub.add_argument("--seconds", type=float, default=1.0, help="of one measurement (default: 1)")
    sub.set_defaults(parser=sub, run=_ratios)
    disk.add_command(commands)
    capacity.add_command(commands)
    replay.add_command(commands)
    cli.add_commands(commands)
    try:
        cli.refuse_command(sys.argv[1:] if argv is None else argv)
        return cli.run(parser.parse_args(argv))
    except BenchError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _ratios(arguments: argparse.Namespace) -> int:
    start = time.monotonic()
    rows = ratios.measure(
        arguments.build,
        Engine(arguments.engine, arguments.build),
        arguments.repetitions,
        arguments.seconds,
        lambda name: print(f"    [{time.monotonic() - start:4.0f} s] {name}", flush=True),
    )
    return report.publish(rows, time.monotonic() - start, arguments.out, "ratios")


if __name__ == "__main__":
    sys.exit(main())

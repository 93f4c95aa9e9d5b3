"""disk: the disk tier beside its goals, as a table that says which of them are met."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from peercache_bench import disk_beside, disk_hits, disk_pairs, disk_recovery, disk_report, fio
from peercache_bench.disk_pairs import Pair
from peercache_bench.errors import BenchError
from peercache_bench.finish import interrupt_on_terminate
from peercache_bench.host import host
from peercache_bench.idle import polling_idle
from peercache_bench.output import write_files
from peercache_bench.progress import Progress
from peercache_bench.report import exit_status, table
from peercache_bench.rows import Row
from peercache_bench.units import GIB, MIB, count, seconds, size

# Room for the pages that stay in memory, beside those that come from disk.
LEAST_POOL = 64 * MIB


def add_command(commands: Any) -> None:
    sub = commands.add_parser(
        "disk", help="the disk tier beside fio and its other goals",
        description="Measures the disk tier in turns with fio, and what else docs/dev/disk-tier.md "
        "promises of it. --folder is on the drive that is measured.",
    )  # fmt: skip
    sub.add_argument(
        "--build", type=Path, required=True, metavar="DIR", help="folder with disk_benchmark"
    )
    sub.add_argument(
        "--folder", type=Path, required=True, metavar="DIR", help="on the drive; exists"
    )
    sub.add_argument(
        "--trace", type=Path, required=True, metavar="FILE",
        help="what engines ask for: of dataplane/bench/eviction/sessions.py, or of Mooncake",
    )  # fmt: skip
    sub.add_argument(
        "--out-dir", type=Path, required=True, metavar="DIR",
        help="for disk.json, disk.md, disk.html and disk-goals.png",
    )  # fmt: skip
    sub.add_argument("--turns", type=count, default=5, metavar="N", help="of a lap (default: 5)")
    sub.add_argument(
        "--turn-bytes", type=size, default=GIB, metavar="SIZE",
        help="moved by each side in a turn (default: 1g)",
    )  # fmt: skip
    sub.add_argument(
        "--seconds", type=seconds, default=1.0, metavar="S",
        help="of a measurement of latency (default: 1)",
    )  # fmt: skip
    sub.set_defaults(parser=sub, run=_run)


def measure(arguments: argparse.Namespace) -> Iterator[Row]:
    """All rows, in some minutes; idle processors poll meanwhile, as in ``ratios``."""
    fio.need_fio()
    if not arguments.folder.is_dir():
        raise BenchError(f"--folder {arguments.folder} is not a folder: create it, on the drive")
    with polling_idle():
        where = (arguments.build, arguments.folder)
        turns, turn_bytes = arguments.turns, arguments.turn_bytes
        yield from disk_pairs.pair_rows(*where, Pair(turn_bytes, turns))
        pool = max(LEAST_POOL, turn_bytes // 2)
        yield from disk_beside.beside_rows(*where, pool, turns, arguments.seconds)
        yield from disk_hits.hit_rows(*where, arguments.trace)
        yield from disk_recovery.recovery_rows(*where, turns * turn_bytes, turns)


def _run(arguments: argparse.Namespace) -> int:
    interrupt_on_terminate()  # what was measured with goes, however it ends
    progress, start, before = Progress(), time.monotonic(), host()
    rows: list[Row] = []
    for row in measure(arguments):
        rows.append(row)
        progress.say(f"{row.name}: {row.ratio:.2f}")
    run = disk_report.Run(before, arguments.turns, arguments.turn_bytes, time.monotonic() - start)
    files = write_files(
        "disk", "peercache-bench disk", arguments.out_dir, disk_report.values(rows, run),
        disk_report.document(rows, run), [disk_report.chart(rows)], [],
    )  # fmt: skip
    print(table(rows))
    print(f"report: {files[0]}, and {len(files) - 1} files beside it")
    return exit_status(rows)

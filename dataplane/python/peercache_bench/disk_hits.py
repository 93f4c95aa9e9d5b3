"""A trace played to a real node with a disk, beside the simulator of the same trace."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from peercache_bench.disk_trace import Request, parse, simulate
from peercache_bench.errors import BenchError
from peercache_bench.nodes import BenchNode, loopback_nodes
from peercache_bench.rows import Row
from peercache_bench.trace_engine import PAGE, SLOT, trace_engine
from peercache_bench.units import KIB, MIB

# RAM : disk is 1 : 10.
MEMORY_PAGES, DISK_PAGES = 2500, 25_000
# Regions of the disk have their contents before their pages, and three are kept free (keeper.h):
# little of a drive, much of 25,000 pages.
REGION, CONTENTS, FREE_REGIONS = 64 * MIB, 256 * KIB, 3
# After so many sets the engine waits until they are written: the trace takes an hour, and its
# replay a minute, so sets would overtake the drive as they do not in an hour.
AHEAD = 512
WRITE_SECONDS = 120


def hit_rows(build: Path, folder: Path, trace: Path) -> Iterator[Row]:
    try:
        with trace.open() as lines:
            requests = parse(lines)
    except OSError as error:
        raise BenchError(f"--trace {trace} cannot be read: {error.strerror}") from None
    points = Row("hits on the trace, RAM : disk 1 : 10", "%", "simulated - 2 points", 1)
    alone = Row("hits on the trace beside RAM alone", "%", "RAM alone, simulated", 1, held=False)
    hits, memory = _played(build, folder, requests)
    points.add(100 * simulate(requests, memory, DISK_PAGES) - 2, 100 * hits)
    alone.add(100 * simulate(requests, memory, 0), 100 * hits)
    yield from (points, alone)


def disk_bytes(pages: int) -> int:
    """The size of a disk that keeps so many pages."""
    regions = -(-pages // ((REGION - CONTENTS) // PAGE)) + FREE_REGIONS
    return MIB + regions * REGION


def _played(build: Path, folder: Path, requests: Sequence[Request]) -> tuple[float, int]:
    """The share of the prompts' pages that an engine got, and how many pages the pool had."""
    with tempfile.TemporaryDirectory(prefix="peercache-disk-", dir=folder) as place:
        options = {
            "disk-path": place,
            "disk-size": str(disk_bytes(DISK_PAGES)),
            "disk-write-budget": "unlimited",
        }
        pool = str(MEMORY_PAGES * SLOT)
        with loopback_nodes(build, {"own": pool}, options) as nodes:
            node = nodes["own"]
            with trace_engine(build, node) as engine:
                asked = got = fresh = 0
                for request in requests:
                    asked += len(request.prompt)
                    run = engine.get(request.prompt)
                    got += run
                    fresh += engine.set((*request.prompt[run:], *request.answer))
                    if fresh >= AHEAD:
                        fresh = 0
                        _written(node)
            pages = int(node.status()["pool"]["pages"])
    return got / max(1, asked), pages


def _written(node: BenchNode) -> None:
    deadline = time.monotonic() + WRITE_SECONDS
    while (waiting := node.status()["disk"]["waiting_pages"]) > 0:
        if time.monotonic() > deadline:
            raise BenchError(f"{waiting} pages are not on disk after {WRITE_SECONDS} s")
        time.sleep(0.01)

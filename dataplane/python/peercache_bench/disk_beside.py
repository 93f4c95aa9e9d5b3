"""Pages of the pool, while engines read pages from disk as fast as the drive gives them."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from peercache_bench.errors import BenchError
from peercache_bench.nodes import BenchNode, loopback_nodes
from peercache_bench.perf import Options, Perf
from peercache_bench.rows import Row
from peercache_bench.units import KIB, MIB

PAGE = 128 * KIB
# What is read from memory, as a share of the pool, in calls of 4 MiB; and how often more is read
# from disk than fits.
HOT, BATCH, OVER = 8, 32, 4
# The most that the calls of one engine have under way at the drive.
COLD_BATCH = 128
# Cold pages are set in pieces that the pool has room for until they are on disk.
PIECES = 8
WRITE_SECONDS = 120


def beside_rows(
    build: Path, folder: Path, pool_bytes: int, repetitions: int, seconds: float
) -> Iterator[Row]:
    """Latency of memory hits with and without reads from disk beside them, and what those get."""
    name = "memory hits beside a saturated tier, p50"
    hits = Row(name, "us", "without", 1.05, at_least=False)
    # The same load out of memory: what it takes of the processors, without a disk.
    name = "memory hits beside other memory hits, p50"
    others = Row(name, "us", "without", 1.05, at_least=False, held=False)
    name = "pages from disk beside memory hits"
    loads = Row(name, "GB/s", "without", 0.90, held=False)
    perf = Perf(build)
    cold_bytes = OVER * pool_bytes
    cold: Options = {**_shape(cold_bytes), "batch": COLD_BATCH}
    hot: Options = {**_shape(pool_bytes // HOT), "batch": BATCH, "first_key": cold_bytes // PAGE}
    with tempfile.TemporaryDirectory(prefix="peercache-disk-", dir=folder) as place:
        options = {
            "disk-path": place,
            "disk-size": str(2 * cold_bytes + 1024 * MIB),
            "disk-write-budget": "unlimited",
            "promotion-percent": "0",
        }
        with loopback_nodes(build, {"own": str(pool_bytes)}, options) as nodes:
            node = nodes["own"]
            node.settle()
            _fill(perf, node, cold)
            for _ in range(repetitions):
                at = {"socket": node.socket, "warmup": 0.3}
                # Evicted meanwhile, perhaps: what is there is not set again.
                perf("set", socket=node.socket, **hot, seconds=0)
                read = {**hot, **at, "seconds": seconds}
                # Begins before, and ends after.
                load = {**cold, **at, "warmup": 0, "seconds": seconds + 0.6}
                without, alone = perf("get", **read), perf("get", **load)
                beside, loaded = perf.together("get", [read, load])
                hits.add(without["latency_us"]["p50"], beside["latency_us"]["p50"])
                other, _ = perf.together("get", [read, {**read, "batch": COLD_BATCH}])
                others.add(without["latency_us"]["p50"], other["latency_us"]["p50"])
                loads.add(alone["gb_per_s"], loaded["gb_per_s"])
    yield from (hits, others, loads)


def _shape(total: int) -> Options:
    pages = total // PAGE
    return {"page_bytes": PAGE, "pages": pages, "window": min(pages, 512)}


def _fill(perf: Perf, node: BenchNode, cold: Options) -> None:
    pages = int(str(cold["pages"])) // PIECES
    for piece in range(PIECES):
        shape = {**cold, "pages": pages, "first_key": piece * pages, "seconds": 0}
        perf("set", socket=node.socket, **shape)
        _written(node, (piece + 1) * pages)


def _written(node: BenchNode, pages: int) -> None:
    """Waits until so many pages are on disk."""
    deadline = time.monotonic() + WRITE_SECONDS
    while (there := node.status()["disk"]["pages"]) < pages:
        if time.monotonic() > deadline:
            raise BenchError(f"{there} of {pages} pages are on disk after {WRITE_SECONDS} s")
        time.sleep(0.05)

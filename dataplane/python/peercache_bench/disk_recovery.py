"""How long a new process takes to have the pages of the one before, for a million of them."""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from peercache_bench import disk_tier
from peercache_bench.binaries import find
from peercache_bench.disk_tier import Shape
from peercache_bench.errors import BenchError
from peercache_bench.nodes import loopback_nodes
from peercache_bench.rows import Row
from peercache_bench.units import KIB

MILLION = 1_000_000
# The shortest pages that fill a region, so that there are many: contents are what is read.
SCANNED_PAGE = 20 * KIB
# A node's index has room for pages of 64 KiB on average, an eighth of which it keeps free.
PUBLISHED_PAGE = 80 * KIB
# The pool's headers are read, whatever lies between them.
ADOPTED_PAGE = 4 * KIB
# disk_benchmark's, so that a node takes its file.
CLUSTER = "benchmark"
PUBLISH_SECONDS = 120


def recovery_rows(build: Path, folder: Path, lap_bytes: int, repetitions: int) -> Iterator[Row]:
    yield _scanned(build, folder, lap_bytes, repetitions)
    yield _published(build, folder, lap_bytes, repetitions)
    yield _adopted(build, lap_bytes, repetitions)


def a_million(seconds: float, pages: int) -> float:
    return seconds / pages * MILLION


def _row(name: str) -> Row:
    return Row(f"{name}, a million pages", "s", "promised", 1, at_least=False)


def _scanned(build: Path, folder: Path, lap_bytes: int, repetitions: int) -> Row:
    row = _row("disk contents scanned")
    shape = Shape(SCANNED_PAGE, lap_bytes // SCANNED_PAGE, 1, 16)
    with (
        tempfile.TemporaryDirectory(prefix="peercache-disk-", dir=folder) as place,
        disk_tier.tier(build, Path(place), shape) as tier,
    ):
        tier.write()
        for _ in range(repetitions):
            found = tier.restart()
            if found["pages"] < shape.pages:
                raise BenchError(f"{found['pages']} of {shape.pages} pages after a restart")
            row.add(0.3, a_million(found["seconds"], found["pages"]))
    return row


def _published(build: Path, folder: Path, lap_bytes: int, repetitions: int) -> Row:
    """From the start of a process until the directory has all records, less what a process with
    an empty disk takes to be there.
    """
    row = _row("records of disk pages published")
    pages = lap_bytes // PUBLISHED_PAGE
    with (
        tempfile.TemporaryDirectory(prefix="peercache-disk-", dir=folder) as full,
        tempfile.TemporaryDirectory(prefix="peercache-disk-", dir=folder) as empty,
    ):
        with disk_tier.tier(build, Path(full), Shape(PUBLISHED_PAGE, pages, 1, 16)) as tier:
            tier.write()
        size = (Path(full) / "peercache.disk").stat().st_size
        for _ in range(repetitions):
            bare = _until_published(build, empty, size, 0)
            row.add(
                1.5, a_million(max(0.001, _until_published(build, full, size, pages) - bare), pages)
            )
    return row


def _until_published(build: Path, disk: str, size: int, pages: int) -> float:
    options = {"cluster": CLUSTER, "disk-path": disk, "disk-size": str(size)}
    start = time.monotonic()
    with loopback_nodes(build, {"own": "64Mi"}, options) as nodes:
        while (records := nodes["own"].status()["directory"]["records"]) < pages:
            if time.monotonic() > start + PUBLISH_SECONDS:
                raise BenchError(f"{records} of {pages} records after {PUBLISH_SECONDS} s")
            time.sleep(0.002)
        return time.monotonic() - start


def _adopted(build: Path, lap_bytes: int, repetitions: int) -> Row:
    row = _row("pages in memory adopted")
    pages = min(MILLION, lap_bytes // ADOPTED_PAGE)
    command = [str(find("adoption_benchmark", build)), str(pages), str(ADOPTED_PAGE)]
    for _ in range(repetitions):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise BenchError(f"{' '.join(command)} failed: {done.stderr.strip()}")
        row.add(3, a_million(json.loads(done.stdout)["seconds"], pages))
    return row

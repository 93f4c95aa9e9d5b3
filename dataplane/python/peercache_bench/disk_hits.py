"""A trace played to a real node with a disk, beside the simulator of the same trace."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import importlib.util
import mmap
import os
import struct
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from peercache_bench.disk_trace import Request, parse, simulate
from peercache_bench.errors import BenchError
from peercache_bench.nodes import BenchNode, loopback_nodes
from peercache_bench.rows import Row
from peercache_bench.units import KIB, MIB

# RAM : disk is 1 : 10.
MEMORY_PAGES, DISK_PAGES = 2500, 25_000
PAGE, SLOT = 64 * KIB, 64 * KIB + 512
# Regions of the disk have their contents before their pages, and three are kept free (keeper.h):
# little of a drive, much of 25,000 pages.
REGION, CONTENTS, FREE_REGIONS = 64 * MIB, 256 * KIB, 3
# Pages of a call, as SGLang's HiCacheController has them.
BATCH = 128
# After so many sets the engine waits until they are written: the trace takes an hour, and its
# replay a minute, so sets would overtake the drive as they do not in an hour.
AHEAD = 512
WRITE_SECONDS = 120
TIMEOUT_MS = 10_000
PREFIX, TAG = bytes(32), 1
EXTENSION = "peercache._peercache"


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
            with _engine(build, node) as engine:
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


class _Engine:
    """An engine whose host pool holds the pages of one call. A page begins with its number."""

    def __init__(self, client: Any, memory: mmap.mmap, base: int) -> None:
        self._client = client
        self._memory = memory
        self._places = [base + i * PAGE for i in range(BATCH)]

    def get(self, pages: Sequence[int]) -> int:
        """Length of the leading run that is there, and has come."""
        there = self._client.exists(PREFIX, [_key(page) for page in pages]) if pages else 0
        run = 0
        for at in range(0, there, BATCH):
            batch = pages[at : min(at + BATCH, there)]
            came = self._client.get(PREFIX, *self._arguments(batch))
            for i, (page, here) in enumerate(zip(batch, came, strict=True)):
                if not here:
                    return run
                if struct.unpack_from("<Q", self._memory, i * PAGE)[0] != page:
                    raise BenchError(f"WRONG BYTES of page {page}: a fault of PeerCache, report it")
                run += 1
        return run

    def set(self, pages: Sequence[int]) -> int:
        for at in range(0, len(pages), BATCH):
            batch = pages[at : at + BATCH]
            for i, page in enumerate(batch):
                struct.pack_into("<Q", self._memory, i * PAGE, page)
            self._client.set(PREFIX, TAG, *self._arguments(batch))
        return len(pages)

    def _arguments(self, pages: Sequence[int]) -> tuple[list[str], list[int], list[int]]:
        keys = [_key(page) for page in pages]
        return keys, self._places[: len(pages)], [PAGE] * len(pages)


def _key(page: int) -> str:
    """A hash, as keys of engines are: tables take their bytes as they are."""
    return hashlib.sha256(str(page).encode()).hexdigest()


@contextlib.contextmanager
def _engine(build: Path, node: BenchNode) -> Iterator[_Engine]:
    client, reason = _extension(build).connect(str(node.socket), "trace", TIMEOUT_MS, MIB)
    if client is None:
        raise BenchError(f"node {node.name} refuses an engine: {reason}")
    fd = os.memfd_create("trace")
    try:
        os.ftruncate(fd, BATCH * PAGE)
        memory = mmap.mmap(fd, BATCH * PAGE)
        base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        if refused := client.register_region(fd, base, BATCH * PAGE):
            raise BenchError(f"node {node.name} refuses the host pool: {refused}")
        yield _Engine(client, memory, base)
        if (said := client.stats())["faults"]:
            raise BenchError(f"{said['faults']} calls of the engine failed: {said['last_fault']}")
    finally:
        client.close()
        os.close(fd)


def _extension(build: Path) -> Any:
    """The module of the build, for this Python. A process can have its types once only."""
    if EXTENSION in sys.modules:
        return sys.modules[EXTENSION]
    file = build / "python" / f"_peercache{sysconfig.get_config_var('EXT_SUFFIX')}"
    spec = importlib.util.spec_from_file_location(EXTENSION, file)
    if spec is None or spec.loader is None or not file.is_file():
        raise BenchError(f"there is no {file}: build the data plane with `make build`")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules[EXTENSION] = module
    return module

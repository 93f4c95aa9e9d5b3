"""An engine that asks a real node for the pages of a trace, and checks each that it gets."""

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
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from peercache_bench.errors import BenchError
from peercache_bench.nodes import BenchNode
from peercache_bench.units import KIB, MIB

PAGE, SLOT = 64 * KIB, 64 * KIB + 512
# Pages of a call, as SGLang's HiCacheController has them.
BATCH = 128
TIMEOUT_MS = 10_000
PREFIX, TAG = bytes(32), 1
EXTENSION = "peercache._peercache"


class TraceEngine:
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
def trace_engine(build: Path, node: BenchNode) -> Iterator[TraceEngine]:
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
        yield TraceEngine(client, memory, base)
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

"""Engines of one process: SGLang's real HiCacheController over a store and a fake cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .conftest import SOCKET

PAGES = 8


def flags(path: Path | str = "test/model", *more: str, **extra: object) -> Any:
    """SGLang's command line; ``extra`` goes to the extra-config."""
    from hicache_engine import flags as engine_flags

    backend = {
        "backend_name": "peercache",
        "module_path": "peercache.store",
        "class_name": "PeerCacheStore",
        "interface_v1": 1,
        "socket": SOCKET,
        **extra,
    }
    return engine_flags.parse(
        [
            f"--model-path={path}",
            "--enable-hierarchical-cache",
            "--hicache-storage-backend=dynamic",
            f"--hicache-storage-backend-extra-config={json.dumps(backend)}",
            *more,
        ]
    )


@contextmanager
def engine(path: Path | str = "test/model", *more: str, **extra: object) -> Iterator[Any]:
    """A cache with its controller, attached; stands for a process of its own."""
    from hicache_engine.cache import Cache
    from peercache.sglang import updates

    updates._latest = None
    with Cache(flags(path, *more, **extra), "mha", "page_first", None, PAGES + 1) as cache:
        yield cache


def write(cache: Any, seed: int = 1) -> int:
    """Backs pages up; how many the store took."""
    return int(cache.backup(seed, PAGES).prefetched) // int(cache.flags.page_size)


def hits(cache: Any, seed: int = 1) -> int:
    """Pages that a prefetch finds and brings."""
    cache.scribble()
    found = cache.prefetch(seed, PAGES)
    assert found.hit == found.prefetched
    return int(found.hit) // int(cache.flags.page_size)

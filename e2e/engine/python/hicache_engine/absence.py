"""What an absent node costs SGLang, as one JSON object on standard output.

    python3 -m hicache_engine.absence --extension dataplane/build/release/python

"No PeerCache" is the same SGLang, HiCache on, with a storage backend that has nothing and takes
nothing (null_store.py): without a backend SGLang asks nobody, so there would be nothing to compare.
The rest of a server, its model and requests, is left out of all figures, which makes the shares
larger than they are.

start     from the start of this process until SGLang's controller has its host pool and its store:
          seconds; and of these, the milliseconds that PeerCache's store takes to be made and to
          register the pool, more than the null store
prefetch  a prefetch of that many pages that nobody has, by the real controller: microseconds with
          each store, in turns
backup    the same of a backup
calls     of these, the microseconds inside the calls of the store
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import sglang  # noqa: F401 -- puts the stand-ins of hicache_engine.shim in place first
from hicache_engine.cache import Cache
from hicache_engine.flags import Flags

_NULL = {
    "backend_name": "null",
    "module_path": "hicache_engine.null_store",
    "class_name": "NullStore",
}
_PEERCACHE = {
    "backend_name": "peercache",
    "module_path": "peercache.store",
    "class_name": "PeerCacheStore",
    "socket": "/nowhere/absent.sock",
}


def _cache(backend: dict[str, Any], pages: int) -> Cache:
    extra = json.dumps({"interface_v1": 1, "allocator": "shm", **backend})
    flags = Flags.of_backend("absence", 16, extra)
    return Cache(flags, "mha", "page_first", True, pages + 1)


class _Timed:
    """Times the calls of a cache's store, as SGLang makes them."""

    def __init__(self, cache: Cache) -> None:
        self.cache = cache
        self.seconds = 0.0
        backend, cls = cache.controller.storage_backend, type(cache.store)
        for name in ("batch_exists", "batch_set_v1", "batch_get_v1"):
            # As the class has it: Cache times the calls for itself, which is not what is measured.
            setattr(backend, name, self._timed(getattr(cls, name).__get__(cache.store)))

    def _timed(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any) -> Any:
            started = time.perf_counter()
            answer = call(*arguments)
            self.seconds += time.perf_counter() - started
            return answer

        return timed

    def round(self, work: Callable[[Cache], Any]) -> tuple[float, float]:
        """Microseconds of a round, and of the calls in it."""
        self.seconds = 0.0
        started = time.perf_counter()
        work(self.cache)
        return (time.perf_counter() - started) * 1e6, self.seconds * 1e6


def _start_of_process() -> float:
    """Seconds since this process was made."""
    with open("/proc/self/stat") as stat, open("/proc/uptime") as uptime:
        ticks = int(stat.read().rsplit(")", 1)[1].split()[19])
        return float(uptime.read().split()[0]) - ticks / os.sysconf("SC_CLK_TCK")


def _store_seconds(cache: Cache, config: Any) -> float:
    """Of a store that is made and given the host pool."""
    cls = type(cache.store)
    started = time.perf_counter()
    store = cls(config, {})
    store.register_mem_pool_host(cache.pool)
    took = time.perf_counter() - started
    store.close()
    return took


def measure(pages: int, rounds: int) -> dict[str, Any]:
    """The figures of the module's text; lists have a value per round."""
    result: dict[str, Any] = {"pages": pages}
    peercache = _cache(_PEERCACHE, pages)
    result["start_seconds"] = _start_of_process()
    null = _cache(_NULL, pages)
    with peercache, null:
        if peercache.store.attached:
            raise RuntimeError("there is a node")
        config = peercache.controller.storage_config
        result["pool_bytes"] = peercache.pool.kv_buffer.nbytes
        result["store_ms"] = [_store_seconds(peercache, config) * 1e3 for _ in range(5)]
        tokens, hashes = peercache.tokens(1, pages), peercache.hashes(1, pages)
        indices = peercache.pool.alloc(len(tokens))

        def prefetch(cache: Cache) -> None:
            if cache.prefetch(1, pages).hit:
                raise RuntimeError("a page is there")

        def backup(cache: Cache) -> None:
            cache.controller.write_storage(indices, tokens, hash_value=hashes, prefix_keys=[])
            if cache.controller.ack_backup_queue.get(timeout=60).completed_tokens:
                raise RuntimeError("a page was stored")

        stores = {"peercache": _Timed(peercache), "null": _Timed(null)}
        for name, work in (("prefetch", prefetch), ("backup", backup)):
            figures: dict[str, list[float]] = {}
            for _ in range(rounds):
                for store, timed in stores.items():
                    took, inside = timed.round(work)
                    figures.setdefault(f"{store}_us", []).append(took)
                    figures.setdefault(f"{store}_calls_us", []).append(inside)
            result[name] = figures
    return result


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python3 -m hicache_engine.absence")
    parser.add_argument("--extension", help="folder with _peercache.*.so, when it is not installed")
    parser.add_argument("--pages", type=int, default=128, help="of a round; 128: one call")
    parser.add_argument("--rounds", type=int, default=400)
    parsed = parser.parse_args(arguments)
    if parsed.extension:
        importlib.import_module("peercache").__path__.append(parsed.extension)
    # SGLang writes a line for each backup that is not stored, whoever does not store it.
    logging.getLogger("sglang").setLevel(logging.ERROR)
    print(json.dumps(measure(parsed.pages, parsed.rounds)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

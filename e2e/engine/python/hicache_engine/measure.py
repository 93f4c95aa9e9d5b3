"""Measurements through SGLang's real HiCache, one JSON object on standard output.

    python3 -m hicache_engine.measure controller --writer W.sock --reader R.sock --page-size 28 ...
    python3 -m hicache_engine.measure call --writer W.sock --reader R.sock --page-size 28 ...

controller  HiCacheController prefetches pages that another node holds, and the same pages from a
            dictionary in this process, in turns: GB/s of both, a value per round
call        batch_get_v1 of such pages, in turns with the same calls in C++ (peercache-perf turns):
            microseconds of both, a value per turn;
            and GB/s by 1, 2 and 4 threads that share out the pages, a value per round
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import sglang  # noqa: F401 -- puts the stand-ins of hicache_engine.shim in place first
from hicache_engine.cache import Cache
from hicache_engine.flags import Flags

_SEED = 7
# Keys of a call, and the rows of the host pool that their pages go to.
_Call = tuple[list[str], Any]
# Calls in one turn: 10 ms or so, which is short for what else a machine does.
_TURN = 8
_THREADS = (1, 2, 4)


def _flags(backend: dict[str, Any], page_size: int) -> Flags:
    extra = {"interface_v1": 1, "allocator": "shm", **backend}
    return Flags.of_backend("measure", page_size, json.dumps(extra))


def _peercache(socket: str, page_size: int) -> Flags:
    backend = {
        "backend_name": "peercache",
        "module_path": "peercache.store",
        "class_name": "PeerCacheStore",
        "socket": socket,
    }
    return _flags(backend, page_size)


def _dictionary(page_size: int) -> Flags:
    backend = {
        "backend_name": "dict",
        "module_path": "hicache_engine.dict_store",
        "class_name": "DictStore",
    }
    return _flags(backend, page_size)


def _cache(flags: Flags, pages: int) -> Cache:
    return Cache(flags, "mla", "page_first", True, pages + 1)


def _page_bytes(cache: Cache) -> int:
    _, sizes = cache.pool.get_page_buffer_meta(cache.pool.alloc(cache.flags.page_size))
    cache.pool.clear()
    return sum(sizes)


def _prefetched(cache: Cache, pages: int) -> float:
    done = cache.prefetch(_SEED, pages)
    if done.prefetched != pages * cache.flags.page_size:
        raise RuntimeError(f"{done.prefetched} tokens of {pages} pages arrived")
    return done.seconds


def controller(arguments: argparse.Namespace) -> dict[str, Any]:
    """GB/s of a prefetch through the controller, from another node and from a dictionary."""
    size, pages = arguments.page_size, arguments.pages
    with _cache(_peercache(arguments.writer, size), pages) as writer:
        writer.backup(_SEED, pages)
        page_bytes = _page_bytes(writer)
    result: dict[str, Any] = {"page_bytes": page_bytes, "pages": pages}
    gigabytes = page_bytes * pages / 1e9
    remote, local = [], []
    with (
        _cache(_peercache(arguments.reader, size), pages) as peercache,
        _cache(_dictionary(size), pages) as dictionary,
    ):
        dictionary.backup(_SEED, pages)
        for warm in (peercache, dictionary):
            _prefetched(warm, pages)
        for _ in range(arguments.rounds):
            local.append(gigabytes / _prefetched(dictionary, pages))
            remote.append(gigabytes / _prefetched(peercache, pages))
    return {**result, "dict_gb_per_s": local, "peercache_gb_per_s": remote}


def call(arguments: argparse.Namespace) -> dict[str, Any]:
    """batch_get_v1 beside Client::Get in C++, and by threads with pages of their own."""
    size, pages, batch = arguments.page_size, arguments.pages, arguments.batch
    with _cache(_peercache(arguments.writer, size), pages) as writer:
        writer.backup(_SEED, pages)
        page_bytes = _page_bytes(writer)
    with _cache(_peercache(arguments.reader, size), pages) as cache:
        hashes = cache.hashes(_SEED, pages)
        indices = cache.pool.alloc(pages * size)
        calls = [
            (hashes[at : at + batch], indices[at * size : (at + batch) * size])
            for at in range(0, pages - batch + 1, batch)
        ]

        # As a class has it: Cache times the calls of its store, which is not what is measured.
        batch_get_v1 = partial(type(cache.store).batch_get_v1, cache.store)

        def get(part: list[_Call]) -> None:
            for keys, rows in part:
                if False in batch_get_v1(keys, rows):
                    raise RuntimeError("a page is missing")

        get(calls)
        prefix = cache.store._require_kv().prefixes[0]
        with tempfile.NamedTemporaryFile() as keys:
            keys.writelines(_key(prefix, text) for text in hashes)
            keys.flush()
            above, below = _in_turns(arguments, cache, page_bytes, keys.name, get, calls)
        rates: dict[str, list[float]] = {str(count): [] for count in _THREADS}
        for _ in range(arguments.rounds):
            for count in _THREADS:
                seconds = _together(get, [calls[t::count] for t in range(count)])
                rates[str(count)].append(len(calls) * batch * page_bytes / 1e9 / seconds)
    return {
        "page_bytes": page_bytes,
        "batch": batch,
        "native_us": below,
        "batch_get_v1_us": above,
        "gb_per_s_by_threads": rates,
    }


def _key(prefix: bytes, text: str) -> bytes:
    """The key of the page that SGLang names so, as docs/dev/protocol.md has it."""
    return bytes(a ^ b for a, b in zip(prefix, bytes.fromhex(text), strict=True))


def _in_turns(
    arguments: argparse.Namespace,
    cache: Cache,
    page_bytes: int,
    keys: str,
    get: Callable[[list[_Call]], None],
    calls: list[_Call],
) -> tuple[list[float], list[float]]:
    """Microseconds a call, here and in C++: some calls here, as many there, and so on.

    Both get the same pages, into the memory of the one host pool: where memory lies on its host is
    worth 5 to 20 %. Half a round lies between them, so neither finds in a processor's cache what
    the other one has left there.
    """
    (memory,) = cache.pool.allocator.fds
    command = [arguments.perf, "turns", "--socket", arguments.reader]
    command += ["--host-pool", f"/dev/fd/{memory}", "--keys", keys]
    for name in ("pages", "window"):
        command += [f"--{name}", str(arguments.pages)]
    command += ["--page-bytes", str(page_bytes), "--batch", str(arguments.batch)]
    above, below = [], []
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
        pass_fds=(memory,),
    ) as native:
        asked, answers = native.stdin, native.stdout
        assert asked is not None
        assert answers is not None

        def there(count: int) -> float:
            asked.write(f"{count}\n")
            answer = answers.readline()
            if not answer:
                raise RuntimeError(f"{' '.join(command)} has ended")
            return float(answer)

        there(len(calls))  # once through its host pool, as here
        for turn in range(arguments.turns):
            at = (len(calls) // 2 + turn * _TURN) % len(calls)
            below.append(there(_TURN) / _TURN * 1e6)
            above.append(_seconds(get, calls[at : at + _TURN]) / _TURN * 1e6)
    return above, below


def _seconds(work: Callable[..., None], *arguments: Any) -> float:
    started = time.perf_counter()
    work(*arguments)
    return time.perf_counter() - started


def _together(get: Callable[[list[_Call]], None], parts: list[list[_Call]]) -> float:
    """Seconds until as many threads as there are parts have each done theirs."""
    done = []

    def one(part: list[_Call]) -> None:
        get(part)
        done.append(part)

    def all_of_them() -> None:
        threads = [threading.Thread(target=one, args=(part,)) for part in parts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    seconds = _seconds(all_of_them)
    if len(done) != len(parts):
        raise RuntimeError("a thread has failed")
    return seconds


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python3 -m hicache_engine.measure")
    parser.add_argument("what", choices=("controller", "call"))
    parser.add_argument("--writer", required=True, help="socket of the node that holds the pages")
    parser.add_argument("--reader", required=True, help="socket of the node that reads them")
    parser.add_argument("--extension", help="folder with _peercache.*.so, when it is not installed")
    parser.add_argument("--page-size", type=int, default=28, help="tokens; 28: 126 KiB")
    parser.add_argument("--pages", type=int, default=2048)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--turns", type=int, default=96, help="of call, in Python and in C++ each")
    parser.add_argument("--perf", help="peercache-perf, for call")
    parsed = parser.parse_args(arguments)
    if parsed.extension:
        importlib.import_module("peercache").__path__.append(parsed.extension)
    result = (controller if parsed.what == "controller" else call)(parsed)
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""One process of a store that is compared: it holds pages, or reads them. Run by others.py.

A script of its own, which imports nothing of peercache_bench: each store has its own interpreter,
and the original's package has the name of ours. Commands come as lines of JSON on standard input,
and each is answered by a line on standard output.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import mmap
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

MIB = 1 << 20
FILL_TRIES = 5
NAMESPACE = bytes(32)  # of our keys: a digest


class Arm(Protocol):
    """What the stores have in common: pages between registered memory and the store."""

    def register(self, fd: int, address: int, length: int) -> None: ...
    def put(self, keys: list[str], places: list[int], sizes: list[int]) -> int: ...
    def get(self, keys: list[str], places: list[int], sizes: list[int]) -> list[bool]: ...
    def exists(self, keys: list[str]) -> int: ...


class PeerCache:
    """An engine of a node: what SGLang's store calls, without SGLang."""

    def __init__(self, role: str, where: dict[str, Any]) -> None:
        sys.path.insert(0, where["extension"])
        extension = importlib.import_module("_peercache")
        client, reason = extension.connect(where[role], role, 5000, 64 * MIB)
        if client is None:
            raise RuntimeError(reason)
        self._client = client

    def register(self, fd: int, address: int, length: int) -> None:
        if reason := self._client.register_region(fd, address, length):
            raise RuntimeError(reason)

    def put(self, keys: list[str], places: list[int], sizes: list[int]) -> int:
        return sum(self._client.set(NAMESPACE, 0, keys, places, sizes))

    def get(self, keys: list[str], places: list[int], sizes: list[int]) -> list[bool]:
        pages: list[bool] = self._client.get(NAMESPACE, keys, places, sizes)
        return pages

    def exists(self, keys: list[str]) -> int:
        found: int = self._client.exists(NAMESPACE, keys)
        return found


class Mooncake:
    """A client of Mooncake Store in this process, over TCP. The holder's has the pool."""

    def __init__(self, role: str, where: dict[str, Any]) -> None:
        package = importlib.import_module("mooncake.store")
        self._store = package.MooncakeDistributedStore()
        pool = where["pool"] if role == "holder" else 0
        failed = self._store.setup(
            "127.0.0.1", "P2PHANDSHAKE", pool, 16 * MIB, "tcp", "", where["master"]
        )
        if failed:
            raise RuntimeError(f"setup of Mooncake's client failed: {failed}")
        self._replicas = package.ReplicateConfig()
        self._replicas.replica_num = 1

    def register(self, _fd: int, address: int, length: int) -> None:
        if failed := self._store.register_buffer(address, length):
            raise RuntimeError(f"register_buffer failed: {failed}")

    def put(self, keys: list[str], places: list[int], sizes: list[int]) -> int:
        codes: list[int] = self._store.batch_put_from(keys, places, sizes, self._replicas)
        return codes.count(0)

    def get(self, keys: list[str], places: list[int], sizes: list[int]) -> list[bool]:
        return [got > 0 for got in self._store.batch_get_into(keys, places, sizes)]

    def exists(self, keys: list[str]) -> int:
        codes: list[int] = self._store.batch_is_exist(keys)
        return codes.count(1)


class Original:
    """A store of the original PeerCache in this process, over TCP; its defaults but for sizes."""

    def __init__(self, role: str, where: dict[str, Any]) -> None:
        package = importlib.import_module("peercache.store")
        pool = where["pool"] if role == "holder" else 64 * MIB
        self._store = package.PeerCacheStore(
            None,
            {
                "discovery_addr": where["meta"],
                "protocol": "tcp",
                "node_id": role,
                "global_segment_size": pool,
                "disk_enabled": False,
                "local_hostname": "127.0.0.1",
                "metrics_enabled": False,
            },
        )
        self._store._ensure_published_pool()

    def register(self, _fd: int, address: int, length: int) -> None:
        self._store.runtime.transport.register_mr(address, length)

    def put(self, keys: list[str], places: list[int], sizes: list[int]) -> int:
        done = self._store.batch_set(keys, target_locations=places, target_sizes=sizes)
        return len(keys) if done else 0

    def get(self, keys: list[str], places: list[int], sizes: list[int]) -> list[bool]:
        got = self._store.batch_get(keys, target_locations=places, target_sizes=sizes)
        return [place is not None for place in got]

    def exists(self, keys: list[str]) -> int:
        found: int = self._store.batch_exists(keys)
        return found


ARMS: dict[str, Callable[[str, dict[str, Any]], Arm]] = {
    "peercache": PeerCache,
    "mooncake": Mooncake,
    "original": Original,
}


class Worker:
    """Host memory of ``window`` bytes, and what is done with it."""

    def __init__(self, arm: Arm, window: int) -> None:
        self._arm = arm
        self._window = window
        fd = os.memfd_create("others")
        os.ftruncate(fd, window)
        self._memory = mmap.mmap(fd, window)
        self._memory.write(bytes(window))  # the machine has given all of it from here on
        self._base = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        arm.register(fd, self._base, window)

    def fill(self, page_bytes: int, pages: int, batch: int) -> dict[str, float]:
        stored = 0
        for keys in batches(pages, batch):
            for slot, key in enumerate(keys):
                at = slot * page_bytes
                self._memory[at : at + page_bytes] = content(key, page_bytes)
            places, lengths = self._places(range(len(keys)), page_bytes)
            for _ in range(FILL_TRIES):  # a busy machine refuses some at first
                taken = self._arm.put(names(keys, page_bytes), places, lengths)
                if taken == len(keys):
                    break
            stored += taken
        return {"pages": stored}

    def get(self, page_bytes: int, pages: int, batch: int, seconds: float) -> dict[str, float]:
        """Pages in the order of their keys, each batch to the next places of the window."""
        turns = self._window // page_bytes // batch
        todo = [(keys, names(keys, page_bytes)) for keys in batches(pages, batch)]
        places = [
            self._places(range(turn * batch, (turn + 1) * batch), page_bytes)
            for turn in range(turns)
        ]
        last: dict[int, tuple[Sequence[int], list[bool]]] = {}
        hits = calls = 0
        began = now = time.monotonic()
        while now < began + seconds:
            keys, named = todo[calls % len(todo)]
            got = self._arm.get(named, *places[calls % turns])
            hits += sum(got)
            last[calls % turns] = keys, got
            calls += 1
            now = time.monotonic()
        wrong = sum(
            self._memory[at * page_bytes : (at + 1) * page_bytes] != content(key, page_bytes)
            for turn, (read, got) in last.items()
            for at, (key, hit) in enumerate(zip(read, got, strict=True), turn * batch)
            if hit
        )
        return {"seconds": now - began, "asked": calls * batch, "hits": hits, "wrong": wrong}

    def exists(self, page_bytes: int, pages: int, batch: int, seconds: float) -> dict[str, float]:
        todo = [names(keys, page_bytes) for keys in batches(pages, batch)]
        found = calls = 0
        began = now = time.monotonic()
        while now < began + seconds:
            found += self._arm.exists(todo[calls % len(todo)])
            calls += 1
            now = time.monotonic()
        return {"seconds": now - began, "asked": calls * batch, "hits": found, "wrong": 0}

    def _places(self, slots: range, page_bytes: int) -> tuple[list[int], list[int]]:
        return [self._base + slot * page_bytes for slot in slots], [page_bytes] * len(slots)


def batches(pages: int, batch: int) -> list[range]:
    return [range(first, first + batch) for first in range(0, pages - batch + 1, batch)]


def names(keys: Sequence[int], page_bytes: int) -> list[str]:
    """As long as SGLang's keys, which are SHA-256 in hexadecimal digits."""
    return [f"{page_bytes:032x}{key:032x}" for key in keys]


def content(key: int, size: int) -> bytes:
    return (key * 2 + 1).to_bytes(8, "little") * (size // 8)


def main() -> None:
    name, role, where = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    # What stores print must not stand between answers.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    worker = Worker(ARMS[name](role, where), where["window"])
    print(json.dumps({"ready": True}), file=answers)
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps(getattr(worker, asked.pop("do"))(**asked)), file=answers)
    os._exit(0)  # threads of a store do not keep the process


if __name__ == "__main__":
    main()

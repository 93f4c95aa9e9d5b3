"""LMCache's own factory makes our L2 adapter: a program that reads a JSON object a line and answers
with one. It runs in the interpreter of the engines, with a release of LMCache first on PYTHONPATH.

  {"do": "make", "name", "socket", "params", "shared"}   an adapter, with an L1 of its own
  {"do": "store" | "lookup" | "load", "name", "seed", "chunks", ...}

Chunks' bytes follow from their keys. Each answer waits for the task's event, as LMCache does.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import mmap
import os
import select
import sys
from dataclasses import dataclass
from typing import Any

from lmcache.v1.distributed.api import ObjectKey
from lmcache.v1.distributed.internal_api import L1MemoryDesc
from lmcache.v1.distributed.l2_adapters.factory import create_l2_adapter_from_registry
from lmcache.v1.distributed.l2_adapters.plugin_l2_adapter import PluginL2AdapterConfig

CHUNK = 64 << 10
CHUNKS = 64


@dataclass
class Chunk:
    """What the adapter uses of LMCache's MemoryObj."""

    data_ptr: int

    def get_size(self) -> int:
        return CHUNK


class Adapter:
    def __init__(self, socket: str, params: dict[str, Any], shared: bool = True) -> None:
        fd = os.memfd_create("l1") if shared else -1
        if shared:
            os.ftruncate(fd, CHUNK * CHUNKS)
        self.memory = mmap.mmap(fd, CHUNK * CHUNKS)
        self.base = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        config = PluginL2AdapterConfig(
            "peercache.lmcache", "PeerCacheL2Adapter", {"socket": socket, **params}
        )
        desc = L1MemoryDesc(ptr=self.base, size=CHUNK * CHUNKS, align_bytes=4096)
        self.adapter = create_l2_adapter_from_registry(config, desc)

    def objects(self, count: int) -> list[Chunk]:
        return [Chunk(self.base + i * CHUNK) for i in range(count)]

    def wait(self, fd: int) -> None:
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        poll.poll()
        os.eventfd_read(fd)

    def store(self, keys: list[ObjectKey]) -> dict[str, object]:
        for i, key in enumerate(keys):
            self.memory[i * CHUNK : (i + 1) * CHUNK] = content(key)
        task = self.adapter.submit_store_task(keys, self.objects(len(keys)))
        self.wait(self.adapter.get_store_event_fd())
        result = self.adapter.pop_completed_store_tasks()[task]
        return {"ok": result.is_successful(), "bytes": result.bytes_transferred()}

    def lookup(self, keys: list[ObjectKey]) -> dict[str, object]:
        task = self.adapter.submit_lookup_and_lock_task(keys, {})
        self.wait(self.adapter.get_lookup_and_lock_event_fd())
        found = self.adapter.query_lookup_and_lock_result(task)
        assert self.adapter.query_lookup_and_lock_result(task) is None, "it answers twice"
        self.adapter.submit_unlock(keys)
        return {"found": found.popcount()}

    def load(self, keys: list[ObjectKey]) -> dict[str, object]:
        self.memory[:] = bytes(len(self.memory))
        task = self.adapter.submit_load_task(keys, self.objects(len(keys)))
        self.wait(self.adapter.get_load_event_fd())
        loaded = self.adapter.query_load_result(task)
        hits = [i for i in range(len(keys)) if loaded.test(i)]
        right = [i for i in hits if self.memory[i * CHUNK : (i + 1) * CHUNK] == content(keys[i])]
        return {"hits": len(hits), "right": len(right)}

    def state(self) -> dict[str, object]:
        fds = {
            self.adapter.get_store_event_fd(),
            self.adapter.get_lookup_and_lock_event_fd(),
            self.adapter.get_load_event_fd(),
        }
        status = self.adapter.report_status()
        return {"fds": len(fds), "shared": status["shared_bytes"], "healthy": status["is_healthy"]}

    def close(self) -> dict[str, object]:
        self.adapter.close()
        return {}


def content(key: ObjectKey) -> bytes:
    return hashlib.sha256(key.chunk_hash).digest() * (CHUNK // 32)


def keys_of(order: dict[str, Any]) -> list[ObjectKey]:
    seed, chunks = order.pop("seed"), order.pop("chunks")
    fields = {"model_name": "m", "kv_rank": 0, **order}
    return [
        ObjectKey(chunk_hash=hashlib.sha256(f"{seed} {i}".encode()).digest(), **fields)
        for i in range(chunks)
    ]


def main() -> None:
    adapters: dict[str, Adapter] = {}
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        do, name = order.pop("do"), order.pop("name")
        try:
            if do == "make":
                adapters[name] = Adapter(**order)
                answer = adapters[name].state()
            else:
                arguments = [keys_of(order)] if "seed" in order else []
                answer = getattr(adapters[name], do)(*arguments)
        except Exception as error:  # the test says whether that is right
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()

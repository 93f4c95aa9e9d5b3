"""Hybrid: SGLang's real HybridCacheController over several host pools, and its storage backend."""

from __future__ import annotations

import threading
import types
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from sglang.srt.mem_cache.deepseek_v4_memory_pool import DeepSeekV4TokenToKVPool
from sglang.srt.mem_cache.hicache_storage import PoolHitPolicy, PoolName, PoolTransfer
from sglang.srt.mem_cache.hybrid_cache.hybrid_cache_controller import HybridCacheController
from sglang.srt.mem_cache.memory_pool import MLATokenToKVPool
from sglang.srt.mem_cache.pool_host import HostPoolGroup, PoolEntry
from sglang.srt.mem_cache.utils import get_storage_hash_str

_ANSWER_SECONDS = 60


class _Device:
    device = "cpu"
    layer_num = 4

    def register_layer_transfer_counter(self, counter: object) -> None:
        pass


class MhaDevice(_Device):
    """The device pool, of which the controller asks this much, and its class."""


class MlaDevice(_Device, MLATokenToKVPool):  # type: ignore[misc]
    pass


class V4Device(_Device, DeepSeekV4TokenToKVPool):  # type: ignore[misc]
    pass


@dataclass
class Side:
    """A host pool beside the anchor, and the rule by which its pages follow the prefix."""

    name: PoolName
    pool: Any
    indices_from: PoolName | None = PoolName.KV  # None: rows of its own
    window: int = 0  # pages at the end of a prefix that it needs; 0: all pages

    def transfer(self, keys: Sequence[str] | None = None, rows: Any = None) -> PoolTransfer:
        """As SGLang's tree makes it, for a backup (keys and rows) or for a prefetch."""
        policy = PoolHitPolicy.TRAILING_PAGES if self.window else PoolHitPolicy.ALL_PAGES
        if keys is None and self.window:
            keys = ["__placeholder__"] * self.window
        return PoolTransfer(
            name=self.name,
            host_indices=rows,
            keys=None if keys is None else list(keys),
            hit_policy=policy,
            indices_from_pool=self.indices_from,
        )


@dataclass
class Restored:
    """What a prefetch brought, in pages; ``data``: the bytes of each page by pool."""

    hit: int
    pages: int
    pool_hits: dict[str, int] = field(default_factory=dict)
    data: dict[str, list[bytes]] = field(default_factory=dict)


def fill(pool: Any, seed: int) -> None:
    """Overwrites the memory of a host pool with bytes made from the seed."""
    generator = torch.Generator().manual_seed(seed)
    for buffer in buffers(pool):
        # One buffer may be a view that the allocator made of a larger one.
        buffer.copy_(torch.randint(0, 100, buffer.shape, generator=generator).to(buffer.dtype))


def buffers(pool: Any) -> list[torch.Tensor]:
    """The tensors of a host pool; none of a logical one."""
    hybrid = getattr(pool, "get_hybrid_pool_buffer", None)
    found = hybrid() if hybrid else getattr(pool, "kv_buffer", None)
    if found is None:
        return []
    return list(found) if isinstance(found, (list, tuple)) else [found]


class Hybrid:
    """A context manager: attaches when it is made, and detaches on exit."""

    def __init__(
        self,
        anchor: Any,
        sides: Sequence[Side],
        extra: dict[str, Any],
        *,
        device: Any = None,
        model: str = "test/hybrid",
        tp_group: Any = None,
    ) -> None:
        self.sides = list(sides)
        self.page_size = int(anchor.page_size)
        self.group = HostPoolGroup(
            [
                PoolEntry(PoolName.KV, anchor, None, lambda _: None, is_primary_index_anchor=True),
                *(PoolEntry(side.name, side.pool, None, lambda _: None) for side in self.sides),
            ]
        )
        device = device or MlaDevice()
        self.controller = HybridCacheController(
            types.SimpleNamespace(get_kvcache=lambda: device),
            self.group,
            self.page_size,
            tp_group,
            threading.Event(),
            write_policy="write_through",
            io_backend="direct",
            storage_backend="dynamic",
            prefetch_threshold=self.page_size,
            model_name=model,
            storage_backend_extra_config=dict(extra),
        )

    def __enter__(self) -> Hybrid:
        return self

    def __exit__(self, *_: object) -> None:
        self.controller.detach_storage_backend()

    @property
    def store(self) -> Any:
        """The storage backend, without SGLang's failure injector around it."""
        backend = self.controller.storage_backend
        return getattr(backend, "_backend", backend)

    def add(self, side: Side) -> None:
        """Registers a pool after the attach, as SGLang does with those of a draft model."""
        self.controller.register_host_pool_entry(
            PoolEntry(side.name, side.pool, None, lambda _: None)
        )
        self.sides.append(side)

    def fill(self, seed: int) -> None:
        """Overwrites all pools with bytes made from the seed."""
        for entry in self.group.entries:
            fill(entry.host_pool, seed)

    def hashes(self, seed: int, pages: int) -> list[str]:
        """The keys of the pages of a seed's tokens."""
        tokens = _tokens(seed, pages * self.page_size)
        return list(get_storage_hash_str(tokens, None, page_size=self.page_size))

    def backup(self, seed: int, ends: Sequence[int]) -> Restored:
        """Writes the first ``ends[-1]`` pages of a seed, in nodes that end at ``ends``."""
        pages = ends[-1]
        hashes = self.hashes(seed, pages)
        tokens = _tokens(seed, pages * self.page_size)
        rows = self.group.alloc(pages * self.page_size)
        done, start = 0, 0
        written: dict[str, list[bytes]] = {
            "kv": self._data(self.group.anchor_entry.host_pool, rows)
        }
        for end in ends:
            span = slice(start * self.page_size, end * self.page_size)
            transfers = []
            own: dict[PoolName, Any] = {PoolName.KV: rows[span]}
            for side in self.sides:
                count = min(side.window or end - start, end - start)
                keys = hashes[end - count : end] if side.window else None
                taken = None
                if side.indices_from is None:
                    taken = own[side.name] = side.pool.alloc(count * int(side.pool.page_size))
                transfers.append(side.transfer(keys, taken))
                source = own[side.indices_from or side.name]
                written.setdefault(side.name.value, []).extend(self._data(side.pool, source))
            self.controller.write_storage(
                rows[span], tokens[span], hashes[start:end], hashes[:start], transfers or None
            )
            operation = self.controller.ack_backup_queue.get(timeout=_ANSWER_SECONDS)
            done += operation.completed_tokens // self.page_size
            for side in self.sides:
                if side.name in own:
                    side.pool.free(own[side.name])
            start = end
        self.group.free(rows)
        return Restored(pages, done, data=written)

    def prefetch(self, seed: int, pages: int) -> Restored:
        """Reads as much of the first ``pages`` pages as the storage has."""
        transfers = [side.transfer() for side in self.sides]
        handle = types.SimpleNamespace(rid=f"request-{seed}")
        tokens = _tokens(seed, pages * self.page_size)
        operation = self.controller.prefetch(handle, tokens, None, [], transfers or None)
        self.controller.prefetch_hit_queue.get(timeout=_ANSWER_SECONDS)
        hit = operation.storage_hit_count // self.page_size
        if not hit:
            return Restored(0, 0)
        operation.host_indices = self.group.alloc(hit * self.page_size)
        own: dict[PoolName, Any] = {PoolName.KV: operation.host_indices}
        for side, transfer in zip(self.sides, transfers, strict=True):
            if side.indices_from is None:
                count = min(side.window, hit) * int(side.pool.page_size)
                transfer.host_indices = own[side.name] = side.pool.alloc(count)
        self.controller.prefetch_buffer.put(operation)
        restored = Restored(hit, 0)
        while True:
            ack = self.controller.ack_prefetch_queue.get(timeout=_ANSWER_SECONDS)
            if ack.completed_tokens is not None:
                restored.pages = ack.completed_tokens // self.page_size
            if ack.pool_hits:
                restored.pool_hits = {
                    str(name): hits for name, hits in ack.pool_hits.items() if hits
                }
            if ack.completed_req:
                break
        kept = operation.host_indices[: restored.pages * self.page_size]
        restored.data["kv"] = self._data(self.group.anchor_entry.host_pool, kept)
        for side in self.sides:
            source = (
                kept if side.indices_from is PoolName.KV else own[side.indices_from or side.name]
            )
            restored.data[side.name.value] = self._data(side.pool, source)
        for name, rows in own.items():
            self.group.free(rows, pool=name)
        return restored

    def _data(self, pool: Any, rows: Any) -> list[bytes]:
        size = int(pool.page_size)
        return [
            bytes(
                pool.get_data_page(int(row))
                .contiguous()
                .view(torch.uint8)
                .flatten()
                .numpy()
                .tobytes()
            )
            for row in rows[::size]
        ]


def _tokens(seed: int, count: int) -> list[int]:
    first = seed * 1_000_003 % 2_000_000_011
    return list(range(first, first + count))

"""Cache: one real HiCacheController with its host pool and storage backend."""

from __future__ import annotations

import hashlib
import threading
import time
import types
from dataclasses import dataclass
from typing import Any

import torch
from sglang.srt.managers.cache_controller import HiCacheController
from sglang.srt.mem_cache.memory_pool import MLATokenToKVPool
from sglang.srt.mem_cache.utils import get_storage_hash_str

from hicache_engine import hostpools, hub, shim
from hicache_engine.flags import Flags

_ANSWER_SECONDS = 120
_STORE_CALLS = (
    "batch_exists",
    "batch_get",
    "batch_get_v1",
    "batch_set",
    "batch_set_v1",
    "batch_exists_v2",
    "batch_get_v2",
    "batch_set_v2",
)


class _Device:
    """The device pool, of which the controller only asks this much."""

    device = "cpu"
    layer_num = hostpools.LAYERS

    def register_layer_transfer_counter(self, counter: object) -> None:
        pass


class _MlaDevice(_Device, MLATokenToKVPool):  # type: ignore[misc]
    """SGLang tells MLA models by the class of their device pool."""


@dataclass(frozen=True)
class Fetched:
    hit: int  # tokens that the storage claimed to have
    prefetched: int  # tokens that arrived
    sha256s: list[str]  # of the pages that arrived, in order
    seconds: float = 0.0  # that SGLang took to move the pages into the host pool


class Cache:
    """A context manager: attaches on enter and detaches on exit, as SGLang does over HTTP."""

    def __init__(self, flags: Flags, kind: str, layout: str, v1: bool | None, pages: int) -> None:
        self.flags = flags
        self.pages = pages
        hub.provide(flags.path, flags.identity.get("revision"))
        shim.publish(
            memory=types.SimpleNamespace(
                hicache_storage_backend=flags.storage_backend,
                hicache_storage_backend_extra_config=flags.extra_config_text,
            ),
            model=shim.declared(
                "model",
                model_path=flags.path,
                kv_cache_dtype=flags.kv_cache_dtype,
                **flags.identity,
            ),
            serving=shim.declared(
                "serving",
                served_model_name=flags.model,
                weight_version=flags.weight_version,
            ),
        )
        extra = flags.extra_config()
        if v1 is not None:
            extra["interface_v1"] = int(v1)
        self.pool = hostpools.build(kind, layout, flags.page_size, pages * flags.page_size)
        device = _MlaDevice() if kind == "mla" else _Device()
        self.controller = HiCacheController(
            types.SimpleNamespace(get_kvcache=lambda: device),
            self.pool,
            flags.page_size,
            None,
            threading.Event(),
            write_policy="write_through",
            io_backend="direct",
            storage_backend=flags.storage_backend,
            prefetch_threshold=flags.page_size,
            model_name=flags.model,
            storage_backend_extra_config=extra,
        )
        self.max_call_seconds = 0.0
        self.calls = 0
        self._time_store_calls()

    def __enter__(self) -> Cache:
        return self

    def __exit__(self, *_: object) -> None:
        self.controller.detach_storage_backend()

    @property
    def store(self) -> Any:
        """The storage backend, without SGLang's failure injector around it."""
        backend = self.controller.storage_backend
        return getattr(backend, "_backend", backend)

    def tokens(self, seed: int, pages: int) -> list[int]:
        """Token ids that no other seed has."""
        first = seed * 1_000_003 % 2_000_000_011
        return list(range(first, first + pages * self.flags.page_size))

    def hashes(self, seed: int, pages: int) -> list[str]:
        """The keys of a seed's pages."""
        return list(
            get_storage_hash_str(self.tokens(seed, pages), None, page_size=self.flags.page_size)
        )

    def backup(self, seed: int, pages: int) -> Fetched:
        """Fills the pool with bytes made from the seed and writes them to the storage."""
        generator = torch.Generator().manual_seed(seed)
        self.pool.kv_buffer.view(torch.int16).random_(-(2**15), 2**15, generator=generator)
        tokens, hashes = self.tokens(seed, pages), self.hashes(seed, pages)
        indices = self.pool.alloc(len(tokens))
        try:
            self.controller.write_storage(indices, tokens, hash_value=hashes, prefix_keys=[])
            done = self.controller.ack_backup_queue.get(timeout=_ANSWER_SECONDS).completed_tokens
            return Fetched(0, done, self._sha256s(indices, pages))
        finally:
            self.pool.free(indices)

    def prefetch(self, seed: int, pages: int) -> Fetched:
        """Reads the pages of a seed back; asks for one more, so that the query meets its end."""
        size = self.flags.page_size
        self.controller.prefetch("request", [*self.tokens(seed, pages), *[1] * size], None, [])
        operation = self.controller.prefetch_hit_queue.get(timeout=_ANSWER_SECONDS)
        hit = operation.storage_hit_count
        if not hit:
            return Fetched(0, 0, [])
        operation.host_indices = self.pool.alloc(hit)
        try:
            started = time.perf_counter()
            self.controller.prefetch_buffer.put(operation)
            done, finished = 0, False
            while not finished:
                ack = self.controller.ack_prefetch_queue.get(timeout=_ANSWER_SECONDS)
                if ack.completed_tokens is not None:
                    done = ack.completed_tokens
                finished = bool(ack.completed_req)
            seconds = time.perf_counter() - started
            sha256s = self._sha256s(operation.host_indices, done // size)
            return Fetched(hit, done, sha256s, seconds)
        finally:
            self.pool.free(operation.host_indices)

    def scribble(self) -> None:
        """Overwrites the pool, so that what an earlier read left cannot pass for the next."""
        self.pool.kv_buffer.view(torch.int16).fill_(0x5A5A)

    def stats(self) -> dict[str, Any]:
        """The backend's own counters, where it has any."""
        stats = getattr(self.store, "stats", None)
        return dict(stats()) if callable(stats) else {}

    def _sha256s(self, indices: torch.Tensor, pages: int) -> list[str]:
        size = self.flags.page_size
        return [
            hashlib.sha256(
                self.pool.get_data_page(int(indices[page * size]))
                .contiguous()
                .view(torch.int16)
                .numpy()
                .tobytes()
            ).hexdigest()
            for page in range(pages)
        ]

    def _time_store_calls(self) -> None:
        backend = self.controller.storage_backend
        for name in _STORE_CALLS if backend is not None else ():
            setattr(backend, name, self._timed(getattr(backend, name)))

    def _timed(self, call: Any) -> Any:
        def timed(*args: Any, **kwargs: Any) -> Any:
            started = time.perf_counter()
            try:
                return call(*args, **kwargs)
            finally:
                self.calls += 1
                self.max_call_seconds = max(self.max_call_seconds, time.perf_counter() - started)

        return timed

"""DictStore: the fastest storage backend there can be, a dictionary in the engine's own process.

What measure.py compares PeerCache with. Zero copy interface only: one copy per page, no checks.
"""

from __future__ import annotations

import ctypes
from typing import Any

from sglang.srt.mem_cache.hicache_storage import HiCacheStorage


class DictStore(HiCacheStorage):  # type: ignore[misc]
    """Loaded by SGLang with ``"backend_name": "dict"``; see measure.py."""

    def __init__(self, storage_config: Any, kwargs: Any = None) -> None:
        self._pages: dict[str, list[bytes]] = {}
        self._pool: Any = None

    def register_mem_pool_host(self, mem_pool_host: Any) -> None:
        self._pool = mem_pool_host

    def batch_set_v1(
        self, keys: list[str], host_indices: Any, extra_info: Any = None
    ) -> list[bool]:
        ptrs, sizes = self._pool.get_page_buffer_meta(host_indices)
        segments = len(ptrs) // len(keys)
        for page, key in enumerate(keys):
            span = range(page * segments, (page + 1) * segments)
            self._pages[key] = [ctypes.string_at(ptrs[i], sizes[i]) for i in span]
        return [True] * len(keys)

    def batch_get_v1(
        self, keys: list[str], host_indices: Any, extra_info: Any = None
    ) -> list[bool]:
        ptrs, sizes = self._pool.get_page_buffer_meta(host_indices)
        segments = len(ptrs) // len(keys)
        done = []
        for page, key in enumerate(keys):
            held = self._pages.get(key)
            done.append(held is not None)
            for i, part in enumerate(held or []):
                at = page * segments + i
                ctypes.memmove(ptrs[at], part, sizes[at])
        return done

    def batch_exists(self, keys: list[str], extra_info: Any = None) -> int:
        for found, key in enumerate(keys):
            if key not in self._pages:
                return found
        return len(keys)

    def exists(self, key: str) -> bool:
        return key in self._pages

    def _refused(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError("DictStore is measured through the zero copy interface only")

    get = set = batch_get = batch_set = _refused

    def clear(self) -> None:
        self._pages.clear()

"""NullStore: a storage backend that has nothing and takes nothing, for as little as SGLang allows.

What absence.py compares an absent node with.
"""

from __future__ import annotations

from typing import Any

from sglang.srt.mem_cache.hicache_storage import HiCacheStorage


class NullStore(HiCacheStorage):  # type: ignore[misc]
    """Loaded by SGLang with ``"backend_name": "null"``; see absence.py."""

    def __init__(self, storage_config: Any, kwargs: Any = None) -> None:
        pass

    def batch_exists(self, keys: list[str], extra_info: Any = None) -> int:
        return 0

    def exists(self, key: str) -> bool:
        return False

    def batch_set_v1(
        self, keys: list[str], host_indices: Any, extra_info: Any = None
    ) -> list[bool]:
        return [False] * len(keys)

    batch_get_v1 = batch_set_v1

    def batch_set(self, keys: list[str], *_: Any, **__: Any) -> bool:
        return False

    def batch_get(self, keys: list[str], *_: Any, **__: Any) -> list[None]:
        return [None] * len(keys)

    def set(self, *_: Any, **__: Any) -> bool:
        return False

    def get(self, *_: Any, **__: Any) -> None:
        return None

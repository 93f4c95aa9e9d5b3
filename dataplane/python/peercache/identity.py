"""Identity: under which namespaces this engine's pages go.

Puts together what SGLang tells a backend about the engine (HiCacheStorageConfig) and what the host
pool shows, and decides for each pool who writes.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any

from peercache import page_map, pools
from peercache.config import ConfigError
from peercache.namespace import Namespace, Rank
from peercache.page_map import PageMap

logger = logging.getLogger(__name__)

SEGMENTS = "segments"
FLAT = "flat"


@dataclass(frozen=True)
class Pages:
    """The pages of one host pool and the prefixes of their keys."""

    name: str
    pool: Any
    prefixes: tuple[bytes, ...]  # one per head group; one when pages are not split
    writer: bool  # False: another rank writes the same bytes
    map: PageMap | None = None  # where they lie, when that is known

    @property
    def split(self) -> int:
        return len(self.prefixes)


def model_name(storage: Any, tag: str) -> str:
    """The name of the model, which must be there in one form or another."""
    name = storage.model_name or ""
    if not name and not tag:
        raise ConfigError(
            "SGLang gave no model name, so pages of different models could not be told apart: set "
            '--served-model-name, or "tag" in the extra-config'
        )
    return str(name)


def segment_pages(storage: Any, tag: str, name: str, pool: Any) -> Pages:
    """Pages that travel straight between pool and node; ConfigError if they cannot."""
    split = head_groups(storage) if name == "kv" else 1
    try:
        groups = pools.segments(pool, _first_page(pool), split)
    except Exception as error:  # pools say no with various exceptions
        raise ConfigError(
            f"host pool {name} ({type(pool).__name__}, layout {getattr(pool, 'layout', '?')}) has "
            f"no zero-copy interface ({error}): remove "
            '"interface_v1" from the extra-config, or choose another --hicache-mem-layout'
        ) from error
    pages = _pages(storage, tag, name, pool, SEGMENTS, groups[0].sizes, split)
    return pages if split > 1 else replace(pages, map=page_map.learn(pool))


def flat_pages(storage: Any, tag: str, name: str, pool: Any) -> Pages:
    """Pages that SGLang copies into flat tensors (its generic interface)."""
    try:
        page = pool.get_dummy_flat_data_page()
    except Exception as error:  # pools say no with various exceptions
        raise ConfigError(
            f"host pool {name} ({type(pool).__name__}) has no generic interface ({error}): set "
            '"interface_v1": 1 in the extra-config'
        ) from error
    return _pages(storage, tag, name, pool, FLAT, [page.numel() * page.element_size()], 1)


def head_groups(storage: Any) -> int:
    """In how many parts a page is stored, so that engines with another TP size can read it."""
    if not getattr(storage, "should_split_heads", False):
        return 1
    return int(storage.tp_lcm_size) // int(storage.tp_size)


def _pages(
    storage: Any, tag: str, name: str, pool: Any, encoding: str, sizes: list[int], split: int
) -> Pages:
    replicated = pools.is_replicated(name, pool, bool(storage.is_mla_model))
    shape = pools.shape(pool, sizes, split)
    if pools.is_byte_view(pool):
        shape["kv_cache_dtype"] = _kv_cache_dtype()
    prefixes = tuple(
        Namespace(
            model=str(storage.model_name or ""),
            tag=tag,
            pool=name,
            encoding=encoding,
            rank=_rank(storage, replicated, split, group),
            shape=shape,
        ).prefix()
        for group in range(split)
    )
    writer = not replicated or bool(getattr(storage, "is_storage_writer", storage.tp_rank == 0))
    return Pages(name, pool, prefixes, writer)


def _rank(storage: Any, replicated: bool, split: int, group: int) -> Rank:
    tp = (storage.tp_rank * split + group, storage.tp_size * split)
    return Rank(
        tp=None if replicated else tp,
        pp=(storage.pp_rank, storage.pp_size),
        cp=(getattr(storage, "attn_cp_rank", 0), getattr(storage, "attn_cp_size", 1)),
        dcp=(getattr(storage, "dcp_rank", 0), getattr(storage, "dcp_size", 1)),
    )


def _first_page(pool: Any) -> Any:
    import torch

    rows = int(getattr(pool, "page_size", 1)) * int(getattr(pool, "dcp_size", 1))
    return torch.arange(rows, dtype=torch.int64)


def _kv_cache_dtype() -> str:
    """--kv-cache-dtype, which alone tells the fp8 formats apart."""
    try:
        from sglang.srt.runtime_context import get_model

        setting = get_model().kv_cache_dtype
    except Exception as error:  # another SGLang, or one that is not running
        logger.debug("SGLang does not tell its kv_cache_dtype: %s", error)
        setting = None
    if not isinstance(setting, str):
        logger.warning(
            "PeerCache cannot tell the fp8 formats of the KV cache apart here; engines with "
            'different --kv-cache-dtype need different "tag" values in the extra-config'
        )
        return "unknown"
    return setting

"""SGLang's host pools: the shared memory, segments and shape that the store needs.

Reads the attributes of SGLang 0.5.23's HostKVCache and imports no SGLang, so a pool kind of a later
release is handled by the attributes that it has.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable, Sequence
from typing import Any

from peercache.core.segments import Region, Segments

# Attributes of a pool that decide the bytes of a page, beside the segment sizes.
_SHAPE_ATTRIBUTES = (
    "page_size",
    "layer_num",
    "target_layer_num",
    "start_layer",
    "end_layer",
    "head_num",
    "head_dim",
    "v_head_dim",
    "kv_lora_rank",
    "qk_rope_head_dim",
    "kv_cache_dim",
    "head_group_num",
    "num_mamba_layers",
    "size_per_token",
    "dcp_size",
)
# The attribute in which SGLang names a page format of its own.
_FORMAT = "storage_format_tag"
_DTYPE_ATTRIBUTES = ("dtype", "conv_dtype", "temporal_dtype")
# Attributes that shrink when a page is split into head groups.
_SPLIT_ATTRIBUTES = ("head_num", "size_per_token")

# Pools whose bytes are the same on all TP ranks of an MLA model; Mamba states never are.
_REPLICATED_SIDECARS = ("indexer", "draft_indexer", "swa")
_REPLICATED_SIDECAR_FAMILY = "deepseek_v4_"
_KV = "kv"
_MAMBA = "mamba"


def has_memory(pool: Any) -> bool:
    """False for logical anchors, which own indices only (their bytes are in sidecars)."""
    return getattr(pool, "kv_buffer", None) is not None or bool(_buffers(pool))


def regions(pool: Any) -> list[Region]:
    """The memfds behind a pool that was allocated with ``"allocator": "shm"``; [] for any other."""
    allocator = getattr(pool, "allocator", None)
    fds = list(getattr(allocator, "fds", None) or [])
    maps = list(getattr(allocator, "mms", None) or [])
    if fds and len(fds) == len(maps):
        return [
            Region(fd, ctypes.addressof(ctypes.c_char.from_buffer(mapped)), len(mapped))
            for fd, mapped in zip(fds, maps, strict=True)
        ]
    fd = getattr(pool, "fd", None)
    buffer = getattr(pool, "kv_buffer", None)
    if fd is None or buffer is None:
        return []
    return [Region(fd, buffer.data_ptr(), os.fstat(fd).st_size)]


def segments(pool: Any, indices: Any, split: int = 1) -> list[Segments]:
    """The pages that start at ``indices``, once for each of the ``split`` head groups of a page."""
    if split == 1:
        ptrs, sizes = pool.get_page_buffer_meta(indices)[:2]
        return [Segments(list(ptrs), list(sizes))]
    ptrs, sizes = pool.get_split_heads_page_buffer_meta(indices, split)[:2]
    return split_groups(ptrs, sizes, len(indices) // pool.page_size, split)


def split_groups(
    ptrs: Sequence[int], sizes: Sequence[int], pages: int, split: int
) -> list[Segments]:
    """Splits segments in the order (page, group, segment) into one list per group."""
    if pages == 0:
        return [Segments([], []) for _ in range(split)]
    per_group = len(ptrs) // (pages * split)
    groups = []
    for group in range(split):
        starts = [(page * split + group) * per_group for page in range(pages)]
        groups.append(
            Segments(
                [ptr for at in starts for ptr in ptrs[at : at + per_group]],
                [size for at in starts for size in sizes[at : at + per_group]],
            )
        )
    return groups


def shape(pool: Any, page_segments: Iterable[int], split: int = 1) -> dict[str, object]:
    """What decides the bytes of a page: pool kind, layout, dtypes, counts and segment sizes."""
    found: dict[str, object] = {
        "kind": type(pool).__name__,
        "layout": str(getattr(pool, "layout", "")),
        "segments": list(page_segments),
    }
    for name in _DTYPE_ATTRIBUTES:
        if hasattr(pool, name):
            found[name] = str(getattr(pool, name)).removeprefix("torch.")
    for name in _SHAPE_ATTRIBUTES:
        value = getattr(pool, name, None)
        if isinstance(value, int):
            found[name] = value // split if name in _SPLIT_ATTRIBUTES else value
    if getattr(pool, _FORMAT, None):
        found[_FORMAT] = str(getattr(pool, _FORMAT))
    return found


def is_byte_view(pool: Any) -> bool:
    """Whether the pool's dtype hides the real one: SGLang keeps both fp8 formats as uint8."""
    return str(getattr(pool, "dtype", "")).removeprefix("torch.") in ("uint8", "int8")


def is_replicated(name: str, pool: Any, mla_model: bool) -> bool:
    """Whether all TP ranks hold the same bytes. False in doubt: it costs hits, True wrong bytes."""
    if not mla_model or name == _MAMBA or _has_heads(pool):
        return False
    if name == _KV or name in _REPLICATED_SIDECARS or name.startswith(_REPLICATED_SIDECAR_FAMILY):
        return True
    return hasattr(pool, "kv_lora_rank") or type(pool).__name__.startswith("DeepSeekV4")


def may_hold_draft(name: str, pool: Any) -> bool:
    """Whether the pool may hold KV of a draft model, alone or beside the target's."""
    if "draft" in name or name.startswith("auxiliary"):
        return True
    layers = getattr(pool, "layer_num", None)
    return layers is None or layers != getattr(pool, "target_layer_num", None)


def _has_heads(pool: Any) -> bool:
    """Whether each TP rank has its own heads, as in a draft with MHA beside a target with MLA."""
    return hasattr(pool, "head_num") and not hasattr(pool, "kv_lora_rank")


def _buffers(pool: Any) -> list[Any]:
    get = getattr(pool, "get_hybrid_pool_buffer", None)
    return [buffer for buffer in get() if buffer is not None] if get is not None else []

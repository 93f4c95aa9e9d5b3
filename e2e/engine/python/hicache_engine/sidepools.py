"""SGLang's real host pools beside the KV, over small CPU tensors in place of a GPU's."""

from __future__ import annotations

import types
from typing import Any

import torch
from sglang.srt.mem_cache.device_pool_info import MambaStateBufferInfo
from sglang.srt.mem_cache.memory_pool import DSATokenToKVPool
from sglang.srt.mem_cache.memory_pool_host import (
    DeepSeekV4PagedHostPool,
    DeepSeekV4StateHostPool,
    LogicalHostPool,
)
from sglang.srt.mem_cache.pool_host.common import get_allocator_type
from sglang.srt.mem_cache.pool_host.dsa import DSAIndexerPoolHost, make_dsa_indexer_pool_decl
from sglang.srt.mem_cache.pool_host.mamba import MambaPoolHost

_LAYERS = 3
_INDEX_DIM = 128

DSATokenToKVPool.index_k_with_scale_buffer_dtype = torch.uint8


def indexer(anchor: Any) -> Any:
    """The index keys of DeepSeek's sparse attention, laid out as the anchor is."""
    page = int(anchor.page_size)
    device = types.SimpleNamespace(
        device="cpu",
        page_size=page,
        index_page_size=page,
        index_head_dim=_INDEX_DIM,
        quant_block_size=128,
        skip_topk_layers=[False] * _LAYERS,
        store_dtype=torch.uint8,
        start_layer=0,
        end_layer=_LAYERS,
        layer_num=_LAYERS,
        layer_shard_enabled=False,
        index_k_with_scale_buffer=[
            torch.zeros(2, page * (_INDEX_DIM + 4), dtype=torch.uint8) for _ in range(_LAYERS)
        ],
    )
    return DSAIndexerPoolHost(
        make_dsa_indexer_pool_decl(device),
        anchor,
        pin_memory=False,
        allocator_type=get_allocator_type(),
    )


def mamba(states: int, layout: str = "page_first", side_states: bool = False) -> Any:
    """Recurrent states, one a page; ``side_states`` share their slots in buffers of their own."""
    slots = 4
    info = MambaStateBufferInfo(
        temporal=torch.zeros(_LAYERS, slots, 2, 8, 16, dtype=torch.float32),
        conv=(torch.zeros(_LAYERS, slots, 96, 3, dtype=torch.bfloat16),),
        extra_checkpoint_buffers=(torch.zeros(slots, 7, dtype=torch.uint8),) if side_states else (),
    )
    return MambaPoolHost(
        info,
        states / slots,
        0,
        device_capacity=slots,
        pin_memory=False,
        allocator_type=get_allocator_type(),
        layout=layout,
    )


def v4_anchor(pages: int, page_size: int, layout: str) -> Any:
    """DeepSeek-V4's anchor: rows without memory."""
    return LogicalHostPool(pages * page_size, page_size, layout)


def v4_paged(name: str, pages: int, page_size: int, layout: str, item_bytes: int) -> Any:
    """A compressed pool of DeepSeek-V4, or its sliding window."""
    return DeepSeekV4PagedHostPool(
        name,
        [torch.zeros(2, item_bytes, dtype=torch.uint8) for _ in range(_LAYERS)],
        item_bytes,
        pages,
        page_size,
        layout,
        pin_memory=False,
        allocator_type=get_allocator_type(),
    )


def v4_state(name: str, pages: int, page_size: int, layout: str) -> Any:
    """The compressor's states of DeepSeek-V4, which follow the rows of its sliding window."""
    ring = 4
    states = [
        types.SimpleNamespace(
            ring_size=ring,
            swa_page_size=page_size,
            kv_score_buffer=types.SimpleNamespace(
                kv_score=torch.zeros(8 * ring, 24, dtype=torch.float32)
            ),
        )
        for _ in range(_LAYERS)
    ]
    return DeepSeekV4StateHostPool(
        name,
        states,
        pages,
        page_size,
        layout,
        pin_memory=False,
        allocator_type=get_allocator_type(),
    )

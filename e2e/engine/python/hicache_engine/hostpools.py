"""SGLang's real host pools over small CPU tensors in place of a GPU's KV cache."""

from __future__ import annotations

from typing import Any

import torch
from sglang.srt.mem_cache.device_pool_info import (
    KVBufferLayout,
    KVBuffers,
    MHABufferInfo,
    MLABufferInfo,
)
from sglang.srt.mem_cache.pool_host import base
from sglang.srt.mem_cache.pool_host.common import get_allocator_type
from sglang.srt.mem_cache.pool_host.mha import MHATokenToKVPoolHost
from sglang.srt.mem_cache.pool_host.mla import MLATokenToKVPoolHost

from .layouts import LAYOUTS

LAYERS = 4
HEADS, HEAD_DIM = 2, 64
KV_LORA_RANK, ROPE_DIM = 512, 64
DEVICE_TOKENS = 256
DTYPE = torch.bfloat16

# SGLang leaves 10 GiB of the host to others; a test pod has less in all.
base.HICACHE_HOST_MEMORY_RESERVE_BYTES = 0


def build(kind: str, layout: str, page_size: int, tokens: int, heads: int = HEADS) -> Any:
    """A host pool of ``tokens`` tokens, allocated as the server's flags ask for."""
    if layout not in LAYOUTS.get(kind, ()):
        raise ValueError(f"kind {kind!r} with layout {layout!r} is none of {LAYOUTS}")
    if kind == "mla":
        return _mla(layout, page_size, tokens)
    return _mha(layout, page_size, tokens, heads)


def _pointers(tensors: tuple[torch.Tensor, ...]) -> torch.Tensor:
    addresses = [tensor.data_ptr() for tensor in tensors]
    return torch.tensor(addresses, dtype=getattr(torch, "uint64", torch.int64))


def _mha(layout: str, page_size: int, tokens: int, heads: int) -> Any:
    rows = DEVICE_TOKENS + page_size
    keys = tuple(torch.zeros(rows, heads, HEAD_DIM, dtype=DTYPE) for _ in range(LAYERS))
    values = tuple(torch.zeros(rows, heads, HEAD_DIM, dtype=DTYPE) for _ in range(LAYERS))
    info = MHABufferInfo(
        buffers=KVBuffers(
            k=keys,
            v=values,
            k_data_ptrs=_pointers(keys),
            v_data_ptrs=_pointers(values),
            layout=KVBufferLayout.NHD,
        ),
        page_size=page_size,
        head_num=heads,
        head_dim=HEAD_DIM,
        v_head_dim=HEAD_DIM,
        dtype=DTYPE,
        device=torch.device("cpu"),
    )
    return MHATokenToKVPoolHost(info, 2.0, 0, page_size, layout, **_on_the_host(tokens))


def _mla(layout: str, page_size: int, tokens: int) -> Any:
    rows = DEVICE_TOKENS + page_size
    width = KV_LORA_RANK + ROPE_DIM
    buffers = tuple(torch.zeros(rows, 1, width, dtype=DTYPE) for _ in range(LAYERS))
    info = MLABufferInfo(
        buffers=buffers,
        data_ptrs=_pointers(buffers),
        layer_indices=tuple(range(LAYERS)),
        device_layer_num=LAYERS,
        page_size=page_size,
        kv_lora_rank=KV_LORA_RANK,
        qk_rope_head_dim=ROPE_DIM,
        kv_cache_dim=width,
        dtype=DTYPE,
        device=torch.device("cpu"),
    )
    return MLATokenToKVPoolHost(
        info, 2.0, 0, page_size, layout, target_layer_num=LAYERS, **_on_the_host(tokens)
    )


def _on_the_host(tokens: int) -> dict[str, Any]:
    """What both kinds of pools are given alike."""
    return {
        "pin_memory": False,
        "device": "cpu",
        "allocator_type": get_allocator_type(),
        "device_capacity_tokens": DEVICE_TOKENS,
        "start_layer": 0,
        "end_layer": LAYERS,
        "host_token_capacity": tokens,
    }

"""What sgl_kernel copies between the device's pool and HiCache's host pool, by torch.

Names and arguments are sgl_kernel's. The device's pool has a tensor a layer, with a row a token.
The host pool has, by --hicache-mem-layout,
  page_first         [token, layer, ...]
  page_first_direct  [page, layer, token of the page, ...]
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

# With this variable set, the last rows of each load have other bytes: a control of the tests.
SPOIL = "PEERCACHE_SPOIL_LOADS"
SPOILED_ROWS = 16


def _load(device: Tensor, rows: Tensor, values: Tensor) -> None:
    device[rows] = values.view(-1, *device.shape[1:])
    if SPOIL in os.environ:
        device[rows[-SPOILED_ROWS:]] *= -1


def _load_layer(
    src: Tensor, dst: Tensor, src_indices: Tensor, dst_indices: Tensor, layer_id: int, **_: int
) -> None:
    _load(dst, dst_indices, src[src_indices, layer_id])


def _store_all_layers(
    src_layers: Tensor,
    dst: Tensor,
    src_indices: Tensor,
    dst_indices: Tensor,
    item_size: int,
    num_layers: int,
    **_: int,
) -> None:
    """``src_layers``: addresses of the device's layers. ``item_size``: bytes of a row."""
    host = dst.view(torch.uint8).reshape(len(dst), num_layers, item_size)
    rows = int(src_indices.max()) + 1
    for layer, address in enumerate(src_layers.tolist()):
        device = torch.frombuffer(
            (ctypes.c_uint8 * (rows * item_size)).from_address(address), dtype=torch.uint8
        )
        host[dst_indices, layer] = device.view(rows, item_size)[src_indices]


def _load_layer_direct(
    src_ptrs: list[Tensor],
    dst_ptrs: list[Tensor],
    src_indices: Tensor,
    dst_indices: Tensor,
    layer_id: int,
    page_size: int,
) -> None:
    page, row = src_indices // page_size, src_indices % page_size
    for host, device in zip(src_ptrs, dst_ptrs, strict=True):
        _load(device, dst_indices, host[page, layer_id, row])


def _store_all_layers_direct(
    src_ptrs: list[Tensor],
    dst_ptrs: list[Tensor],
    src_indices: Tensor,
    dst_indices: Tensor,
    page_size: int,
) -> None:
    """``src_ptrs``: all layers of K, then those of V; or all layers of the one latent buffer."""
    page, row = dst_indices // page_size, dst_indices % page_size
    layers = len(src_ptrs) // len(dst_ptrs)
    for i, device in enumerate(src_ptrs):
        host = dst_ptrs[i // layers]
        host[page, i % layers, row] = device[src_indices].view(-1, *host.shape[3:])


def _of_k_and_v(copy: Callable[..., None]) -> Callable[..., None]:
    """The form with arguments for K and for V: src_k, dst_v_layers."""

    def both(**arguments: Any) -> None:
        for one, other in (("_k", "_v"), ("_v", "_k")):
            mine = {name: value for name, value in arguments.items() if other not in name}
            copy(**{name.replace(one, "", 1): value for name, value in mine.items()})

    return both


COPIES = {
    "transfer_kv_per_layer_pf_lf": _of_k_and_v(_load_layer),
    "transfer_kv_all_layer_lf_pf": _of_k_and_v(_store_all_layers),
    "transfer_kv_per_layer_mla_pf_lf": _load_layer,
    "transfer_kv_all_layer_mla_lf_pf": _store_all_layers,
    "transfer_kv_per_layer_direct_pf_lf": _load_layer_direct,
    "transfer_kv_all_layer_direct_lf_pf": _store_all_layers_direct,
}

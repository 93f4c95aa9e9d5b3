"""What SGLang 0.5.23 needs besides a platform, to serve with HiCache on a CPU."""

from __future__ import annotations

import importlib
import multiprocessing
import os
from typing import Any

from torch import Tensor

from .copies import COPIES

MEMORY = "sglang.srt.mem_cache"
# The forward pass is a model of it: JSON of modelled.Model.
MODELLED = "PEERCACHE_MODELLED"


def register() -> None:
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    # By fork, all processes of a server share one import, which takes 20 s of a processor.
    HookRegistry.register(
        "sglang.srt.entrypoints.engine._set_envs_and_config",
        lambda *_, **__: multiprocessing.set_start_method("fork", force=True),
        HookType.AFTER,
    )
    _host_pools()
    _hash_of_pages()
    _attention_of_mla()
    if MODELLED in os.environ:  # it needs peercache_bench on the path
        importlib.import_module(f"{__package__}.modelled").register(os.environ[MODELLED])


def _host_pools() -> None:
    common: Any = importlib.import_module(f"{MEMORY}.pool_host.common")
    common.ALLOC_MEMORY_FUNCS["cpu"] = _allocate
    base: Any = importlib.import_module(f"{MEMORY}.pool_host.base")
    base.HICACHE_HOST_MEMORY_RESERVE_BYTES = 0  # machines of tests have little memory
    for name in ("mha", "mla"):
        module = importlib.import_module(f"{MEMORY}.pool_host.{name}")
        for copy, function in COPIES.items():
            setattr(module, copy, function)


def _allocate(
    dims: tuple[int, ...], *, dtype: Any, device: str, allocator: Any, **_: object
) -> Tensor:
    """SGLang's own allocator, without pinning the memory by CUDA."""
    tensor: Tensor = allocator.allocate(dims, dtype=dtype, device=device)
    return tensor


def _hash_of_pages() -> None:
    """SGLang's extension as install.sh has compiled it: a pod has no compiler."""
    module: Any = importlib.import_module(f"{MEMORY}.cpp_utils.native_hash")
    module._load_native_hash_module = lambda: importlib.import_module("hicache_hash_cpp")


def _attention_of_mla() -> None:
    """torch_native has the absorbed form alone; SGLang would choose another for a prefill."""
    handler = importlib.import_module("sglang.srt.models.deepseek_common.attention_backend_handler")
    handler.AttentionBackendRegistry.register(
        "torch_native", lambda *_: handler.AttnForwardMethod.MLA
    )

"""What of SGLang 0.5.23 needs a GPU, and what stands in for it.

SGLang's storage layer imports kernels, device pools and the runtime of the server, none of which it
calls on the path between host pool and storage backend. Those modules are replaced in sys.modules;
what they offer is refused with a clear error when it is called after all. Debian's torch 1.13 lacks
two names that SGLang uses; they are added.
"""

from __future__ import annotations

import array
import ctypes
import gc
import hashlib
import os
import sys
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_DEFAULT_FOLDER = "/opt/engine"
_KERNELS = (
    "sglang.kernels",
    "sglang.kernels.ops",
    "sglang.kernels.ops.kvcache",
    "sglang.kernels.ops.kvcache.hicache",
    "sglang.kernels.ops.kvcache.mla_buffer",
)
_SERVER = (
    "sglang.srt.distributed",
    "sglang.srt.distributed.parallel_state",
    "sglang.srt.layers",
    "sglang.srt.layers.dcp",
    "sglang.srt.layers.dcp.layout",
    "sglang.srt.layers.dp_attention",
    "sglang.srt.mem_cache.allocator",
    "sglang.srt.mem_cache.base_prefix_cache",
    "sglang.srt.mem_cache.cpp_utils",
    "sglang.srt.mem_cache.cpp_utils.native_hash",
    "sglang.srt.mem_cache.deepseek_v4_memory_pool",
    "sglang.srt.mem_cache.memory_pool",
    "sglang.srt.platforms",
    "sglang.srt.runtime_context",
    "sglang.srt.utils",
    "sglang.srt.utils.common",
)


def engine_folder() -> Path:
    """Where install.sh put SGLang's source and msgspec."""
    return Path(os.environ.get("PEERCACHE_ENGINE", _DEFAULT_FOLDER))


def source_folder() -> str:
    folder = engine_folder() / "source" / "sglang"
    if not (folder / "srt").is_dir():
        raise ImportError(
            f"{folder} does not hold SGLang's source: run e2e/engine/install.sh and set "
            "PEERCACHE_ENGINE to the folder that it prints"
        )
    return str(folder)


class _Replaced(types.ModuleType):
    """A module whose names exist, but whose functions must not be called."""

    __path__: list[str]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value: Any
        if name[:1].isupper():
            value = type(name, (), {})
        else:

            def value(*_: object, **__: object) -> None:
                raise RuntimeError(f"{self.__name__}.{name} needs a GPU or a running server")

        setattr(self, name, value)
        return value


def install() -> None:
    """Puts the replacements in place. Idempotent; runs when the package sglang is imported."""
    if "sglang.srt.runtime_context" in sys.modules:
        return
    site = str(engine_folder() / "site")
    if site not in sys.path:
        sys.path.append(site)
    _complete_torch()
    for name in (*_KERNELS, *_SERVER):
        module = _Replaced(name)
        module.__path__ = []
        sys.modules[name] = module
    _fill_utils()
    _fill_runtime_context()
    sys.modules["sglang.srt.layers.dp_attention"].is_dp_attention_enabled = lambda: False  # type: ignore[attr-defined]
    sys.modules["sglang.srt.mem_cache.cpp_utils.native_hash"].get_native_hash = chained_hash  # type: ignore[attr-defined]
    sys.modules["sglang.srt.platforms"].current_platform = types.SimpleNamespace(  # type: ignore[attr-defined]
        capabilities=types.SimpleNamespace(hicache_device_kernels=False)
    )


# The server's flags, by SGLang's names of their groups.
_published: dict[str, types.SimpleNamespace] = {}


def publish(memory: types.SimpleNamespace, model: types.SimpleNamespace) -> None:
    """Makes the server's flags visible where SGLang's code looks for them."""
    _published.update(memory=memory, model=model)


def chained_hash(tokens: Any, prior: bytes | None, page_size: int | None = None) -> str | list[str]:
    """SGLang's chain of page hashes: sha256 over the previous digest and the page's tokens."""
    ids: Sequence[int] = list(getattr(tokens, "token_ids", tokens))
    size = page_size or max(1, len(ids))
    digest = prior or b""
    hashes = []
    for start in range(0, len(ids) - len(ids) % size, size):
        page = array.array("I", ids[start : start + size]).tobytes()
        digest = hashlib.sha256(digest + page).digest()
        hashes.append(digest.hex())
    if page_size:
        return hashes
    return hashes[0] if hashes else ""


def _complete_torch() -> None:
    import torch

    if not hasattr(torch, "uint64"):
        setattr(torch, "uint64", torch.int64)  # noqa: B010 -- torch 2 has it: tables of pointers
    if not hasattr(torch.dtype, "itemsize"):
        # torch.dtype takes no new attributes, except through the dict behind its mappingproxy.
        attributes = gc.get_referents(torch.dtype.__dict__)[0]
        attributes["itemsize"] = property(lambda dtype: torch.empty((), dtype=dtype).element_size())
        ctypes.pythonapi.PyType_Modified(ctypes.py_object(torch.dtype))


class _Event:
    """A device event on a device that is always done."""

    def __init__(self, **_: object) -> None:
        pass

    def record(self, *_: object) -> None:
        pass

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        pass


def _fill_utils() -> None:
    utils: Any = sys.modules["sglang.srt.utils"]
    for name in ("cuda", "hip", "npu", "xpu", "mps", "musa", "cpu"):
        setattr(utils, f"is_{name}", lambda: False)
    utils.get_device_module = lambda: types.SimpleNamespace(
        Event=_Event,
        Stream=lambda *_, **__: None,
        current_stream=lambda: None,
        __name__="cpu",
    )


def _fill_runtime_context() -> None:
    parallel = types.SimpleNamespace(
        tp_rank=0,
        tp_size=1,
        pp_rank=0,
        pp_size=1,
        attn_tp_rank=0,
        attn_tp_size=1,
        attn_dp_rank=0,
        attn_dcp_size=1,
        attn_dcp_rank=0,
        nnodes=1,
        launch_world_size=1,
    )
    context: Any = sys.modules["sglang.srt.runtime_context"]
    context.get_parallel = lambda: parallel
    context.get_memory = lambda: _published["memory"]
    context.get_model = lambda: _published["model"]
    publish(
        types.SimpleNamespace(
            hicache_storage_backend=None, hicache_storage_backend_extra_config=None
        ),
        types.SimpleNamespace(kv_cache_dtype="auto"),
    )

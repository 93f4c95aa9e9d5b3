"""What of SGLang 0.5.23 needs a GPU, and what stands in for it.

SGLang's storage layer imports kernels, device pools and the runtime of the server, none of which it
calls on the path between host pool and storage backend. Those modules are replaced in sys.modules;
what they offer is refused with a clear error when it is called after all. Debian's torch 1.13 lacks
two names that SGLang uses; they are added.
"""

from __future__ import annotations

import array
import ctypes
import functools
import gc
import hashlib
import importlib
import os
import sys
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hicache_engine import hub

_DEFAULT_FOLDER = "/opt/engine"
_MODEL = "test/model"  # until an engine names its own
_KERNELS = (
    "sglang.kernels",
    "sglang.kernels.ops",
    "sglang.kernels.ops.kvcache",
    "sglang.kernels.ops.kvcache.hicache",
    "sglang.kernels.ops.kvcache.hisparse",
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
    "sglang.srt.mem_cache.allocator.page_interleave",
    "sglang.srt.mem_cache.base_prefix_cache",
    "sglang.srt.mem_cache.cpp_utils",
    "sglang.srt.mem_cache.cpp_utils.native_hash",
    "sglang.srt.mem_cache.deepseek_v4_memory_pool",
    "sglang.srt.mem_cache.memory_pool",
    "sglang.srt.mem_cache.page_interleave",
    "sglang.srt.mem_cache.radix_cache",
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


def publish(**namespaces: types.SimpleNamespace) -> None:
    """Makes the server's flags visible where SGLang's code looks for them."""
    _published.update(namespaces)


def publish_defaults() -> None:
    """The flags of a server that has been given none."""
    publish(
        memory=types.SimpleNamespace(
            hicache_storage_backend=None, hicache_storage_backend_extra_config=None
        ),
        model=declared("model", model_path=_MODEL, revision=None),
        spec=declared("spec"),
        serving=declared("serving", served_model_name=_MODEL),
        # Its declaration needs more of the server than there is.
        lora=types.SimpleNamespace(enable_lora=None, lora_paths=None),
    )


def _namespace(name: str) -> types.SimpleNamespace:
    return _published[name]


def declared(name: str, **given: object) -> types.SimpleNamespace:
    """A namespace of flags as SGLang declares it, with its defaults where none is given."""
    msgspec = importlib.import_module("msgspec")
    module = importlib.import_module(f"sglang.srt.arg_groups.fields.{name}")
    fields = msgspec.structs.fields(getattr(module, name.capitalize()))
    unknown = given.keys() - {field.name for field in fields}
    if unknown:
        raise ValueError(f"SGLang has no flags {sorted(unknown)} in {name}")
    return types.SimpleNamespace(**{**{field.name: field.default for field in fields}, **given})


def join_ranks(rank: int, size: int, rendezvous: str) -> Any:
    """Makes this process one of ``size`` TP ranks over gloo; they meet in the file. The group."""
    import torch.distributed as ranks

    ranks.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=size)
    parallel = sys.modules["sglang.srt.runtime_context"].get_parallel()
    parallel.tp_rank = parallel.attn_tp_rank = rank
    parallel.tp_size = parallel.attn_tp_size = parallel.launch_world_size = size
    if not hasattr(ranks, "get_process_group_ranks"):
        setattr(  # noqa: B010 -- torch 2 has it
            ranks, "get_process_group_ranks", lambda group: list(range(ranks.get_world_size(group)))
        )
    state: Any = sys.modules["sglang.srt.distributed.parallel_state"]
    state.create_custom_parallel_group = lambda group_ranks, backend: ranks.new_group(
        group_ranks, backend=backend
    )
    return ranks.group.WORLD


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
    if not hasattr(torch.Tensor, "nbytes"):
        setattr(  # noqa: B010
            torch.Tensor, "nbytes", property(lambda tensor: tensor.numel() * tensor.element_size())
        )
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
    for name in ("model", "spec", "lora", "serving"):
        setattr(context, f"get_{name}", functools.partial(_namespace, name))
    hub.provide(_MODEL)
    publish_defaults()

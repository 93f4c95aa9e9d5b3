"""SGLang's real weight updaters, of the scheduler and of a model runner, without a model.

What they call of a loader, a GPU and other processes is replaced; which of their methods call
which, in what order, and what they tell the scheduler, is SGLang's own.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest
from hicache_engine import shim

_RUNNER = "sglang.srt.model_executor.model_runner"
_UPDATER = f"{_RUNNER}_components.weight_updater"
_SCHEDULER = "sglang.srt.managers.scheduler_components.weight_updater"


class Request(types.SimpleNamespace):
    """Any message of SGLang's io_struct; what is not given is as its fields default to."""

    flush_cache = True
    weight_version = None
    selector = "all"
    load_format = None
    torch_empty_cache = False
    recapture_cuda_graph = False


class _Loader:
    """SGLang's loader of checkpoints, as far as an update asks it."""

    class Source(types.SimpleNamespace):
        @classmethod
        def init_new(cls, config: Any, _: Any) -> Any:
            return cls(path=config.model_path)

    @staticmethod
    def _get_weights_iterator(source: Any) -> Iterator[Any]:
        return iter(os.listdir(source.path))

    @staticmethod
    def nothing(*_: object, **__: object) -> None:
        pass

    restore_weights_before_loading = nothing
    load_weights_and_postprocess = nothing
    postprocess_weights = nothing


class Model:
    """Takes any weights."""

    broken = False

    def modules(self) -> list[Any]:
        return []

    def load_weights(self, weights: Any) -> None:
        if self.broken:
            raise RuntimeError("the weights do not fit")


class Scheduler:
    """The scheduler around one cache: what it does when weights change."""

    def __init__(self, cache: Any) -> None:
        self.cache = cache
        self.busy = False  # a busy scheduler refuses to flush
        self.device_tokens = 1 << 20  # of KV; 0: nothing is in the GPU
        self.model = Model()
        updater = sys.modules[_UPDATER].WeightUpdater  # type: ignore[attr-defined]
        self.runner = types.SimpleNamespace(token_to_kv_pool_allocator=self)
        self.runner.weight_updater = updater(
            tp_rank=0,
            device="cpu",
            gpu_id=0,
            model_config=types.SimpleNamespace(model_path="", dtype=None),
            custom_weight_loaders={},
            get_model=lambda: self.model,
            update_model_fields=lambda model, **fields: None,
            recapture_cuda_graph=lambda: None,
            get_model_runner=lambda: self.runner,
        )
        worker = types.SimpleNamespace(
            model_runner=self.runner,
            weight_update_runners=lambda: [("target", self.runner)],
            deserialize_own_rank=lambda tensors: tensors,
        )
        self.weights = sys.modules[_SCHEDULER].SchedulerWeightUpdaterManager(  # type: ignore[attr-defined]
            tp_worker=worker,
            draft_worker=None,
            memory_saver_adapter=None,
            flush_cache=self.flush_cache,
            is_fully_idle=lambda **_: not self.busy,
            scheduler=self,
        )

    # Of the device pool's allocator.
    size, page_size = 1 << 21, 16

    def available_size(self) -> int:
        return self.size - self.device_tokens

    def flush_cache(self, empty_cache: bool = True) -> bool:
        if self.busy:
            return False
        self.cache.controller.reset()
        self.cache.controller.mem_pool_host.clear()
        self.device_tokens = 0
        return True

    def record_weight_version_change(self, new_version: str | None) -> None:
        if new_version is not None:
            shim._published["serving"].weight_version = new_version

    def from_disk(self, path: object, **more: object) -> Any:
        return self.weights.update_weights_from_disk(Request(model_path=str(path), **more))

    @contextlib.contextmanager
    def session(self) -> Iterator[None]:
        assert self.weights.begin_weight_update(Request()).success
        yield
        assert self.weights.end_weight_update(Request()).success

    def from_tensor(self, **more: object) -> Any:
        request = Request(serialized_named_tensors=[], **more)
        return self.weights.update_weights_from_tensor(request)

    def from_ipc(self, **more: object) -> Any:
        return self.weights.update_weights_from_ipc(Request(zmq_handles={}, **more))


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the two modules importable."""
    import sglang.srt  # noqa: F401
    import torch

    def module(name: str, **names: Any) -> None:
        made: Any = shim._Replaced(name)
        made.__path__ = []
        vars(made).update(names)
        monkeypatch.setitem(sys.modules, name, made)

    def nothing(*_: object, **__: object) -> None:
        pass

    loader = "sglang.srt.model_loader"
    module(loader)
    module(
        f"{loader}.loader",
        DefaultModelLoader=_Loader,
        get_model_loader=lambda *_: _Loader(),
        post_load_weights=nothing,
    )
    module(f"{loader}.utils", set_default_torch_dtype=lambda _: contextlib.nullcontext())
    module(f"{loader}.weight_utils", get_pp_stage_load_group=nothing)
    module("sglang.srt.configs")
    module("sglang.srt.configs.load_config", LoadConfig=types.SimpleNamespace)
    module("sglang.srt.utils.network")
    module("sglang.srt.utils.patch_torch", monkey_patch_torch_reductions=nothing)
    module("sglang.srt.utils.weight_checker")
    module("sglang.srt.weight_sync")
    module("sglang.srt.weight_sync.tensor_bucket")
    module("sglang.kernels.ops.gemm")
    module("sglang.kernels.ops.gemm.bf16_fp32", hpc_bf16xfp32_gemm_enabled=lambda: False)
    module("sglang.srt.disaggregation")
    module("sglang.srt.disaggregation.utils")
    module("sglang.srt.checkpoint_engine")
    module(
        "sglang.srt.checkpoint_engine.checkpoint_engine_worker",
        SGLangCheckpointEngineWorkerExtensionImpl=lambda runner: types.SimpleNamespace(
            update_weights_from_ipc=nothing
        ),
    )
    structs = types.ModuleType("sglang.srt.managers.io_struct")
    structs.__getattr__ = lambda name: Request  # type: ignore[method-assign]
    monkeypatch.setitem(sys.modules, structs.__name__, structs)
    utils = sys.modules["sglang.srt.utils"]
    monkeypatch.setattr(utils, "get_available_gpu_memory", lambda *_, **__: 0.0, raising=False)
    parallel: Any = sys.modules["sglang.srt.runtime_context"].get_parallel()  # type: ignore[attr-defined]
    group = types.SimpleNamespace(cpu_group=None)
    monkeypatch.setattr(parallel, "tp_group", group, raising=False)
    monkeypatch.setattr(torch.distributed, "barrier", nothing)
    device = types.SimpleNamespace(current_device=lambda: "cpu")
    monkeypatch.setattr(torch, "get_device_module", lambda _: device, raising=False)
    for name in (_UPDATER, _SCHEDULER):
        monkeypatch.delitem(sys.modules, name, raising=False)
        importlib.import_module(name)
    monkeypatch.setitem(sys.modules, _RUNNER, types.ModuleType(_RUNNER))

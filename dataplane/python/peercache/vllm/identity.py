"""Identity: what two engines must have in common for their bytes of one block hash to be the same.

vLLM names a block by the hash of its tokens, and of what else decides them: images, the cache salt,
the name of a LoRA adapter. Weights, dtype, layout and ranks are not in that name. They are here:
``weights_of`` and ``Adapters`` say what the model computes, ``Layout`` how the bytes lie.

vLLM's version is part of it, and the kind of device: both choose the layout of the KV cache.
"""

from __future__ import annotations

import dataclasses
import enum
import os
from collections.abc import Mapping
from typing import Any

from peercache.core.checkpoint import Checkpoint, Unidentified
from peercache.core.digest import digest

# Settings of ModelConfig that do not change the KV of given tokens, or that Checkpoint reads.
_WITHOUT_EFFECT = frozenset(
    {
        "model",
        "model_weights",
        "revision",
        "trust_remote_code",
        "max_model_len",
        "original_max_model_len",
        "spec_target_max_model_len",
        "tokenizer",
        "tokenizer_mode",
        "tokenizer_revision",
        "skip_tokenizer_init",
        "served_model_name",
        "seed",
        "enforce_eager",
        "max_logprobs",
        "logprobs_mode",
        "return_sampling_mask",
        "generation_config",
        "override_generation_config",
        "logits_processors",
        "logits_processor_pattern",
        "io_processor_plugin",
        "renderer_num_workers",
        "hf_token",
        "allowed_local_media_path",
        "allowed_media_domains",
        "multimodal_config",
        "pooler_config",
        "enable_sleep_mode",
        "sleep_preserve_parameter_names",
        "sleep_mode_backend",
        "sleep_mode_offload_cudagraph",
        "enable_nccl_comm_suspend",
        "enable_cumem_allocator",
        "enable_trace_replay",
        "hf_config",
        "hf_text_config",
        "hf_image_processor_config",
        "encoder_config",
        "attention_chunk_size",
        "model_arch_config",
    }
)
_OF_CACHE = (
    "cache_dtype",
    "prefix_caching_hash_algo",
    "sliding_window",
    "kv_cache_dtype_skip_layers",
    "kv_sharing_fast_prefill",
    "mamba_cache_dtype",
    "mamba_ssm_cache_dtype",
    "mamba_cache_mode",
)


def weights_of(config: Any) -> str:
    """The digest of all weights that a VllmConfig names. Raises Unidentified."""
    cache = config.cache_config
    if getattr(cache, "calculate_kv_scales", False):
        raise Unidentified("the scales of its KV cache come from its first request")
    settings = {name: _plain(getattr(cache, name, None)) for name in _OF_CACHE}
    found = {
        "target": _checkpoint(config.model_config, config.load_config, settings).identity(),
        "draft": _draft(config),
    }
    return digest("vllm weights", found).hex()


def _draft(config: Any) -> object:
    """A model that speculates keeps its KV beside the target's."""
    speculative = config.speculative_config
    draft = getattr(speculative, "draft_model_config", None)
    if draft is None:
        return str(getattr(speculative, "method", ""))
    load = getattr(speculative, "draft_load_config", None) or config.load_config
    settings = {"method": _plain(getattr(speculative, "method", None))}
    return _checkpoint(draft, load, settings).identity()


def _checkpoint(model: Any, load: Any, settings: Mapping[str, object]) -> Checkpoint:
    load_format = getattr(load.load_format, "value", load.load_format)
    if getattr(model, "model_weights", ""):
        raise Unidentified(f"{model.model_weights} is not a folder of this machine")
    own = {
        field.name: _plain(getattr(model, field.name, None))
        for field in dataclasses.fields(model)
        if field.name not in _WITHOUT_EFFECT
    }
    return Checkpoint(
        path=model.model,
        revision=model.revision,
        load_format=str(load_format),
        download_dir=load.download_dir,
        remote_code=bool(model.trust_remote_code),
        context_length=model.max_model_len,
        settings={"model": own, **settings, "loader": _plain(load.model_loader_extra_config)},
    )


def _plain(value: Any) -> object:
    """The value as JSON has it, equal in every process. Raises Unidentified where there is none."""
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        inners = [_plain(inner) for inner in value]
        return sorted(inners, key=str) if isinstance(value, (set, frozenset)) else inners
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name, None)) for f in dataclasses.fields(value)}
    text = str(value)
    if callable(value) or " at 0x" in text:
        raise Unidentified(f"a setting of the model is a Python object ({text})")
    return text  # such as torch.bfloat16


class Adapters:
    """The identities of LoRA adapters, by their path. vLLM's hashes have at most name and path."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, float], str | None] = {}

    def identity(self, path: str) -> str | None:
        """The digest of an adapter's files; None where they cannot be identified.

        Costs: reads the files once for each time of change of the folder.
        """
        try:
            key = (path, os.stat(path).st_mtime)
        except OSError:
            return None
        if key not in self._known:
            try:
                self._known[key] = Checkpoint(path).identity()
            except Unidentified:
                self._known[key] = None
        return self._known[key]


@dataclasses.dataclass(frozen=True)
class Layout:
    """How the bytes of a row of the host pool lie: one chunk of tokens, all ranks of the engine."""

    fields: Mapping[str, object]

    @classmethod
    def of(cls, config: Any, row_bytes: int, version: str, device: str, hash_seed: str) -> Layout:
        """From vLLM's OffloadingConfig, whose fields grew from release to release."""
        parallel = config.parallel
        # The bytes of all ranks in their order are then the same for any number of ranks.
        portable = parallel.is_parallelism_agnostic or config.replicated_layout
        ranks = ("tp_size", "pp_size", "pcp_size", "dcp_size")
        return cls(
            {
                "engine": f"vllm {version}",
                "device": device,
                "dtype": str(config.model.dtype),
                "hash_seed": hash_seed,
                "tokens_per_hash": config.cache.tokens_per_hash,
                "blocks_per_chunk": config.cache.blocks_per_chunk,
                "groups": [
                    [getattr(group, "group_id", i), group.tokens_per_block, list(group.layer_names)]
                    for i, group in enumerate(config.groups)
                ],
                "ranks": "any" if portable else [getattr(parallel, name) for name in ranks],
                "replicated": config.replicated_layout,
                "canonical": config.canonical_layout,
                "layout": str(getattr(config, "kv_cache_layout", None)),
                "row": row_bytes,
            }
        )

    def prefix(self, *, weights: str, tag: str, epoch: str, adapter: str, group: int) -> bytes:
        """The 32 bytes that are XORed onto the block hashes of one group of layers."""
        named = {"weights": weights, "tag": tag, "epoch": epoch, "adapter": adapter}
        return digest("vllm pages", {**self.fields, **named, "group": group})

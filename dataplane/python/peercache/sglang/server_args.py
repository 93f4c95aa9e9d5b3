"""Server arguments: the weights that this process serves, as SGLang names them.

Reads the namespaces of ``sglang.srt.runtime_context`` (0.5.22 and newer), which hold the resolved
command line, and where these lack a field, ServerArgs, which hold the command line as given.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from peercache.core.checkpoint import Checkpoint, Unidentified, file_digest
from peercache.core.config import ConfigError

# The fields to read, by namespace; tests compare them with SGLang's own declarations.
_SOURCE = ("model_path", "revision", "load_format", "download_dir")
# Settings that change, or may change, what the model computes.
_SETTINGS = (
    "quantization",
    "json_model_override_args",
    "dtype",
    "model_impl",
    "model_config_parser",
    "modelopt_quant",
    "quantize_and_serve",
    "qsa_indexer_dtype",
)
MODEL = (
    *_SOURCE,
    *_SETTINGS,
    "trust_remote_code",
    "context_length",
    "quantization_param_path",
    "modelopt_checkpoint_restore_path",
    "weight_cache_mode",
)
SPEC = (
    "speculative_algorithm",
    "speculative_draft_model_path",
    "speculative_draft_model_revision",
    "speculative_draft_load_format",
    "speculative_draft_model_quantization",
    "uno_lora_path",
)
LORA = ("lora_paths",)
SERVING = ("weight_version",)

# Without these fields the weights cannot be identified. A release of SGLang may lack the others.
_REQUIRED = frozenset({*_SOURCE[:3], *_SETTINGS[:2]})
_MISSING = object()


@dataclass(frozen=True)
class WeightSources:
    """The checkpoints that SGLang's arguments name."""

    target: Checkpoint
    draft: Checkpoint | None  # the model that speculates, if there is one
    adapters: Mapping[str, Checkpoint]  # LoRA, by SGLang's id, which page hashes contain
    paths: frozenset[str]  # of the target: as given, and as resolved

    def is_default(self, served_name: str) -> bool:
        """Whether the served name is only the path. SGLang may append a page format to it."""
        return any(served_name == path or served_name.startswith(f"{path}-") for path in self.paths)


def read() -> WeightSources:
    """Raises Unidentified if SGLang lacks a required field, or loads weights that no file holds."""
    model = _namespace("model", MODEL)
    missing = sorted(_REQUIRED - model.keys())
    if missing:
        raise Unidentified(f"SGLang does not report {', '.join(missing)}")
    target, path = _target(model), model["model_path"]
    return WeightSources(
        target=target,
        draft=_draft(model, target, _namespace("spec", SPEC)),
        adapters=_adapters(model, _namespace("lora", LORA).get("lora_paths")),
        paths=frozenset({str(path), str(_server_arg("model_path", path))}),
    )


def refuse_older() -> None:
    """Raises ConfigError for SGLang before 0.5.22: there, pages of a LoRA adapter have the same
    hashes as pages of the bare model.
    """
    from sglang.srt.mem_cache import utils

    if not hasattr(utils, "storage_namespace_seed"):
        raise ConfigError(
            "this release of SGLang leaves LoRA adapters and cache salts out of page hashes, so "
            "their pages would get the same keys: use SGLang 0.5.22 or newer"
        )


def version_reader() -> Callable[[], str]:
    """A function that returns the current weight version, which SGLang changes after updates.

    Costs: less than 1 us a call.
    """
    try:
        from sglang.srt.runtime_context import get_serving

        str(get_serving().weight_version)
    except Exception:  # another release of SGLang, or no running one: there are no versions
        return lambda: ""
    return lambda: str(get_serving().weight_version)


def initial_version() -> str | None:
    """The weight version on the command line; None if SGLang does not have it."""
    version = _server_arg("weight_version", None)
    return None if version is None else str(version)


def _target(model: Mapping[str, Any]) -> Checkpoint:
    if model.get("weight_cache_mode") == "client":
        raise Unidentified("weights come from another process (--weight-cache-mode client)")
    if model.get("modelopt_checkpoint_restore_path"):
        raise Unidentified("weights come from --modelopt-checkpoint-restore-path")
    settings = {name: model.get(name) for name in _SETTINGS}
    settings["json_model_override_args"] = _parsed(model["json_model_override_args"])
    scales = model.get("quantization_param_path")
    return Checkpoint(
        path=str(model["model_path"]),
        revision=model["revision"],
        load_format=_format(model["load_format"]),
        download_dir=model.get("download_dir"),
        remote_code=bool(model.get("trust_remote_code")),
        context_length=model.get("context_length"),
        settings={**settings, "kv_scales": file_digest(scales) if scales else None},
    )


def _draft(
    model: Mapping[str, Any], target: Checkpoint, spec: Mapping[str, Any]
) -> Checkpoint | None:
    if not spec.get("speculative_algorithm"):
        return None
    path = spec.get("speculative_draft_model_path")
    lora = spec.get("uno_lora_path")
    settings = {
        **target.settings,
        "algorithm": spec["speculative_algorithm"],
        "quantization": spec.get("speculative_draft_model_quantization"),
        # SGLang raises the draft's own limit to the target's.
        "context_length": target.context_length,
        "lora": _adapter(model, lora).identity() if lora else None,
    }
    if not path:
        path, revision = target.path, target.revision
    else:
        revision = spec.get("speculative_draft_model_revision")
    return Checkpoint(
        path=str(path),
        revision=revision,
        load_format=_format(spec.get("speculative_draft_load_format") or target.load_format),
        download_dir=target.download_dir,
        remote_code=target.remote_code,
        context_length=target.context_length,
        settings=settings,
    )


def _adapters(model: Mapping[str, Any], given: Any) -> dict[str, Checkpoint]:
    """LoRA adapters by id. SGLang makes ids from name and path, so ids do not identify weights."""
    adapters = list(given.values() if isinstance(given, Mapping) else given or ())
    for adapter in adapters:
        if not getattr(adapter, "lora_id", None) or not getattr(adapter, "lora_path", None):
            raise Unidentified(f"SGLang does not report the id of the LoRA adapter {adapter}")
    return {str(each.lora_id): _adapter(model, each.lora_path) for each in adapters}


def _adapter(model: Mapping[str, Any], path: Any) -> Checkpoint:
    return Checkpoint(path=str(path), download_dir=model.get("download_dir"))


def _format(load_format: Any) -> str:
    return str(getattr(load_format, "value", load_format) or "auto")


def _parsed(text: Any) -> Any:
    try:
        return json.loads(text) if isinstance(text, str) else text
    except ValueError:
        return text


def _namespace(name: str, fields: tuple[str, ...]) -> dict[str, Any]:
    """The fields that SGLang has: resolved ones, else those of the command line."""
    try:
        from sglang.srt import runtime_context

        bag = getattr(runtime_context, f"get_{name}")()
    except Exception:  # another release of SGLang, or no running one
        bag = None
    found = {field: _field(bag, field) for field in fields}
    return {field: value for field, value in found.items() if value is not _MISSING}


def _field(bag: Any, field: str) -> Any:
    value = getattr(bag, field, _MISSING)
    return _server_arg(field) if value is _MISSING else value


def _server_arg(field: str, default: Any = _MISSING) -> Any:
    try:
        from sglang.srt.runtime_context import get_server_args

        return getattr(get_server_args(), field, default)
    except Exception:  # another release of SGLang, or no running one
        return default

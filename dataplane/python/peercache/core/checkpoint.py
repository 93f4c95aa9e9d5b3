"""Checkpoint: the identity of weights on disk, made from the contents of their files.

The same model has the same identity on every machine, under any path, loaded from the hub's cache
or from a copy. Times and owners of files and links do not count. Only reads files: no engine.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from peercache.core import samples

# The files that engines read, by load format: those of the first pattern that matches any. SGLang
# and vLLM give equal names equal meanings.
_SAFETENSORS = ("*.safetensors",)
_ANY = ("*.safetensors", "*.bin", "*.pt")
_FORMATS: Mapping[str, Sequence[str]] = {
    "auto": _ANY,
    "hf": _ANY,
    "safetensors": _SAFETENSORS,
    "instanttensor": _SAFETENSORS,
    "fastsafetensors": _SAFETENSORS,
    "runai_streamer": _SAFETENSORS,
    "sharded_state": _SAFETENSORS,
    "presharded": _ANY,
    "layered": _ANY,
    "bitsandbytes": _ANY,
    "mistral": ("consolidated*.safetensors",),
    "pt": ("*.pt",),
    "npcache": ("*.bin",),
    "gguf": ("*.gguf",),
}
_INDEX = "model.safetensors.index.json"
# Trainers leave these files beside the weights; engines do not load them.
_NOT_WEIGHTS = ("training_args.bin", "optimizer.bin", "optimizer.pt", "scheduler.pt", "scaler.pt")
# Engines read the first that exists; a copy of a model may have more than the hub's cache.
_CONFIGS = ("config.json", "params.json", "adapter_config.json")
_MISTRAL_CONFIGS = ("params.json", "config.json")
# Read if the configuration does not name the quantization.
_QUANTIZATIONS = ("hf_quant_config.json", "quantize_config.json", "quant_config.json")
# These keys differ between copies of one model.
_VOLATILE = frozenset(
    {"_name_or_path", "_commit_hash", "transformers_version", "base_model_name_or_path"}
)
# Types of rotary embeddings that depend on the context length.
_ROPE_BY_LENGTH = frozenset({"dynamic", "longrope", "su"})
_GGUF_PART = re.compile(r"-\d{5}-of-\d{5}\.gguf$")
_MAX_JSON = 64 << 20


class Unidentified(Exception):
    """The weights cannot be identified; the text says why."""


@dataclass(frozen=True)
class Checkpoint:
    """Weights as a command line names them."""

    path: str  # a folder, a file, or a name on the Hugging Face hub
    revision: str | None = None
    load_format: str = "auto"
    download_dir: str | None = None
    remote_code: bool = False  # whether Python files of the checkpoint are executed
    context_length: int | None = None
    # Further settings of the command line that change what the model computes.
    settings: Mapping[str, object] = field(default_factory=dict)

    def identity(self) -> str:
        """The digest of weights, configuration and settings. Raises Unidentified.

        Costs: see samples.py; about one CPU-second for the largest checkpoints.
        """
        if self.load_format not in _FORMATS:
            raise Unidentified(f"load format {self.load_format} does not read weights from files")
        try:
            folder, files = self._files()
            digests = samples.digest([str(folder / name) for name in files])
            configs = self._configs(folder)
            code = _code(folder, configs) if self.remote_code else {}
        except (OSError, ValueError, TypeError, AttributeError, RuntimeError) as error:
            raise Unidentified(f"{self.path}: {error}") from error
        by_length = any(map(_rope_depends_on_length, [*configs.values(), self.settings]))
        found = {
            "files": list(zip(_names(files), digests, strict=True)),
            "configs": configs,
            "code": code,
            "load_format": self.load_format if self.load_format == "bitsandbytes" else "",
            "context_length": self.context_length if by_length else None,
            "settings": self.settings,
        }
        text = json.dumps(found, sort_keys=True, separators=(",", ":"), default=str)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    def _files(self) -> tuple[Path, list[str]]:
        path = Path(self.path)
        if path.is_file():
            return path.parent, _parts_of(path)
        folder = path if path.is_dir() else self._snapshot()
        present = sorted(entry.name for entry in folder.iterdir() if entry.is_file())
        for pattern in _FORMATS[self.load_format]:
            names = [name for name in fnmatch.filter(present, pattern) if name not in _NOT_WEIGHTS]
            if names:
                return folder, _indexed(folder, names)
        raise Unidentified(f"{folder} has no weights of load format {self.load_format}")

    def _configs(self, folder: Path) -> dict[str, Any]:
        if Path(self.path).is_file():  # GGUF: the file's header has the configuration
            return {}
        names = _MISTRAL_CONFIGS if self.load_format == "mistral" else _CONFIGS
        found = _present(folder, names)[:1]
        configs = {name: _config(folder / name) for name in found}
        if not any(map(_tells_quantization, configs.values())):
            extra = _present(folder, _QUANTIZATIONS)
            configs.update({name: _config(folder / name) for name in extra})
        return configs

    def _snapshot(self) -> Path:
        """The model's folder in the hub's cache."""
        if "://" in self.path or not re.fullmatch(r"\w[\w.-]*(/\w[\w.-]*)?", self.path):
            raise Unidentified(f"{self.path} is neither a folder nor a model of the hub")
        repository = hub_cache(self.download_dir) / f"models--{self.path.replace('/', '--')}"
        commit = self.revision or "main"
        reference = repository / "refs" / commit
        if reference.is_file():
            commit = reference.read_text().strip()
        folder = repository / "snapshots" / commit
        if not folder.is_dir():
            raise Unidentified(f"{self.path} is not a folder, and {folder} does not exist")
        return folder


def hub_cache(download_dir: str | None, environ: Mapping[str, str] = os.environ) -> Path:
    """The folder in which huggingface_hub keeps models."""
    named = download_dir or environ.get("HF_HUB_CACHE") or environ.get("HUGGINGFACE_HUB_CACHE")
    if named:
        return Path(named).expanduser()
    home = environ.get("HF_HOME") or os.path.join(
        environ.get("XDG_CACHE_HOME") or "~/.cache", "huggingface"
    )
    return Path(home).expanduser() / "hub"


def file_digest(path: str) -> str:
    """The digest of a small file that a setting names."""
    try:
        return hashlib.sha256(_bytes(Path(path))).hexdigest()
    except (OSError, ValueError) as error:
        raise Unidentified(str(error)) from error


def _indexed(folder: Path, names: list[str]) -> list[str]:
    """The files that engines load: those that the index names, and layers for speculation."""
    index = folder / _INDEX
    if not names[0].endswith(".safetensors") or not index.is_file():
        return names
    indexed = set(json.loads(_bytes(index)).get("weight_map", {}).values())
    kept = [name for name in names if name in indexed or "mtp" in name]
    return kept or names


def _parts_of(path: Path) -> list[str]:
    """All parts of a GGUF model if ``path`` is its first part, else the file alone."""
    part = _GGUF_PART.search(path.name)
    if part is None:
        return [path.name]
    stem = path.name[: part.start()]
    return sorted(
        entry.name
        for entry in path.parent.iterdir()
        if entry.name.startswith(stem) and _GGUF_PART.fullmatch(entry.name[len(stem) :])
    )


def _names(files: Sequence[str]) -> list[str]:
    """The names of several files, which decide what replaces what; "" for a single file."""
    return list(files) if len(files) > 1 else [""] * len(files)


def _config(path: Path) -> object:
    data = _bytes(path)
    try:
        return _without_volatile(json.loads(data))
    except ValueError:
        return hashlib.sha256(data).hexdigest()


def _without_volatile(value: object) -> object:
    if isinstance(value, dict):
        return {
            key: _without_volatile(inner) for key, inner in value.items() if key not in _VOLATILE
        }
    return [_without_volatile(inner) for inner in value] if isinstance(value, list) else value


def _rope_depends_on_length(value: object) -> bool:
    if isinstance(value, Mapping):
        kinds = {str(value.get("rope_type")), str(value.get("type"))}
        return bool(kinds & _ROPE_BY_LENGTH) or any(map(_rope_depends_on_length, value.values()))
    return isinstance(value, list) and any(map(_rope_depends_on_length, value))


def _tells_quantization(config: object) -> bool:
    return isinstance(config, dict) and bool(
        config.get("quantization_config") or _tells_quantization(config.get("text_config"))
    )


def _code(folder: Path, configs: Mapping[str, Any]) -> dict[str, str]:
    """The digests of the modules that config.json names and the checkpoint holds."""
    config = configs.get("config.json")
    named = str(config.get("auto_map", "")) if isinstance(config, dict) else ""
    modules = sorted({f"{module}.py" for module in re.findall(r"(\w+)\.\w+'", named)})
    return {name: file_digest(str(folder / name)) for name in _present(folder, modules)}


def _present(folder: Path, names: Sequence[str]) -> list[str]:
    return [name for name in names if (folder / name).is_file()]


def _bytes(path: Path) -> bytes:
    if path.stat().st_size > _MAX_JSON:
        raise ValueError(f"{path} is larger than {_MAX_JSON} bytes")
    return path.read_bytes()

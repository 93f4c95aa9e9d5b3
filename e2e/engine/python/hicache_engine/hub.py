"""Hub: small checkpoints in the layout of Hugging Face's cache, made from their names.

It stands in for the download of a model. The same name and revision have the same bytes in every
process, as they have on the hub; a path that exists is left alone, as SGLang does.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import json
import os
import shutil
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path

LAYERS, HIDDEN = 2, 64
_INDEX = "model.safetensors.index.json"


def provide(model: str, revision: str | None = None) -> None:
    """Makes the model loadable, as starting SGLang with it does."""
    if os.path.exists(model) or "://" in model:
        return
    repository = _cache() / f"models--{model.replace('/', '--')}"
    commit = hashlib.sha1(f"{model}@{revision or 'main'}".encode()).hexdigest()
    reference = repository / "refs" / (revision or "main")
    reference.parent.mkdir(parents=True, exist_ok=True)
    _place(reference, commit.encode())
    write(repository / "snapshots" / commit, seed=commit)


def write(folder: Path, seed: str, config: Mapping[str, object] | None = None) -> None:
    """A checkpoint of two safetensors files; ``seed`` decides the weights."""
    folder.mkdir(parents=True, exist_ok=True)
    described = {
        "architectures": ["LlamaForCausalLM"],
        "num_hidden_layers": LAYERS,
        "hidden_size": HIDDEN,
        "rope_theta": 10000.0,
        **(config or {}),
    }
    _place(folder / "config.json", json.dumps(described).encode())
    files = {f"model-{layer + 1:05}-of-{LAYERS:05}.safetensors": layer for layer in range(LAYERS)}
    weight_map = {}
    for file, layer in files.items():
        names = [f"model.layers.{layer}.{part}.weight" for part in ("q_proj", "k_proj", "mlp")]
        write_safetensors(folder / file, {name: _bytes(f"{seed} {name}") for name in names})
        weight_map.update(dict.fromkeys(names, file))
    _place(folder / _INDEX, json.dumps({"weight_map": weight_map}).encode())


def write_safetensors(path: Path, tensors: Mapping[str, bytes]) -> None:
    """Tensors of int8, one after the other."""
    header: dict[str, object] = {}
    at = 0
    for name, data in tensors.items():
        header[name] = {"dtype": "I8", "shape": [len(data)], "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    _place(path, len(text).to_bytes(8, "little") + text + b"".join(tensors.values()))


def _place(path: Path, contents: bytes) -> None:
    """Whole at once, as the hub's client does: other engines may be reading."""
    part = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    part.write_bytes(contents)
    part.replace(path)


def _bytes(seed: str) -> bytes:
    return hashlib.shake_256(seed.encode()).digest(HIDDEN * HIDDEN)


@functools.cache
def _cache() -> Path:
    named = os.environ.get("HF_HUB_CACHE")
    if not named:
        named = os.environ["HF_HUB_CACHE"] = tempfile.mkdtemp(prefix="hub-")
        atexit.register(shutil.rmtree, named, ignore_errors=True)
    return Path(named)

"""SGLang's command line, as far as it concerns HiCache; other flags are accepted and ignored."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_IDENTITY = ("revision", "load_format", "quantization", "json_model_override_args")


@dataclass(frozen=True)
class Flags:
    model: str  # the served name
    path: str
    page_size: int
    layout: str
    kv_cache_dtype: str
    port: int
    storage_backend: str | None  # None: HiCache is off or has no storage
    extra_config_text: str | None
    ignored: tuple[str, ...]
    # Of the namespaces "model" and "serving", by SGLang's names.
    identity: dict[str, Any] = field(default_factory=dict)
    weight_version: str = "default"

    @classmethod
    def of_backend(cls, name: str, page_size: int, extra_config_text: str) -> Flags:
        """Of an engine that no command line started, with the dynamic backend."""
        return cls(
            model=name,
            path=name,
            page_size=page_size,
            layout="page_first",
            kv_cache_dtype="auto",
            port=0,
            storage_backend="dynamic",
            extra_config_text=extra_config_text,
            ignored=(),
        )

    def extra_config(self) -> dict[str, Any]:
        """The extra-config, inline or from @FILE, without the keys that SGLang takes out itself."""
        text = self.extra_config_text or "{}"
        if text.startswith("@"):
            text = Path(text[1:]).read_text()
        config = json.loads(text)
        if not isinstance(config, dict):
            raise ValueError(  # noqa: TRY004 -- a wrong flag, not a wrong type in the code
                f"--hicache-storage-backend-extra-config is not an object: {text}"
            )
        for key in (
            "prefetch_threshold",
            "prefetch_timeout_base",
            "prefetch_timeout_per_ki_token",
            "hicache_storage_pass_prefix_keys",
        ):
            config.pop(key, None)
        return config


def parse(arguments: Sequence[str]) -> Flags:
    parser = argparse.ArgumentParser(prog="sglang.launch_server", allow_abbrev=False)
    parser.add_argument("--model-path", "--model", required=True)
    parser.add_argument("--served-model-name")
    parser.add_argument("--page-size", type=int, default=16)
    parser.add_argument("--kv-cache-dtype", default="auto")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=30000)
    parser.add_argument("--enable-hierarchical-cache", "--enable-hicache", action="store_true")
    parser.add_argument("--hicache-mem-layout", default="page_first")
    parser.add_argument("--hicache-storage-backend")
    parser.add_argument("--hicache-storage-backend-extra-config")
    parser.add_argument("--revision")
    parser.add_argument("--load-format", default="auto")
    parser.add_argument("--quantization")
    parser.add_argument("--json-model-override-args", default="{}")
    parser.add_argument("--weight-version", default="default")
    known, ignored = parser.parse_known_args(arguments)
    return Flags(
        model=known.served_model_name or known.model_path,
        path=known.model_path,
        page_size=known.page_size,
        layout=known.hicache_mem_layout,
        kv_cache_dtype=known.kv_cache_dtype,
        port=known.port,
        storage_backend=known.hicache_storage_backend if known.enable_hierarchical_cache else None,
        extra_config_text=known.hicache_storage_backend_extra_config,
        ignored=tuple(ignored),
        identity={name: getattr(known, name) for name in _IDENTITY},
        weight_version=known.weight_version,
    )

"""Stores over real host pools of SGLang, and a fake cluster behind them."""

from __future__ import annotations

import hashlib
import os
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import peercache
import pytest

from .. import wrong_bytes
from ..conftest import ROOT
from .fakes import FakeCluster

BUILD = Path(os.environ.get("PEERCACHE_BUILD", ROOT / "dataplane" / "build" / "release"))
# The maps of pools are the extension's; without a build, stores ask SGLang for every page.
peercache.__path__.append(str(BUILD / "python"))

PAGES = 6
PAGE_SIZE = 16
SOCKET = "/run/peercache/default.sock"


def keys(count: int = PAGES, seed: str = "") -> list[str]:
    return [hashlib.sha256(f"{seed}{i}".encode()).hexdigest() for i in range(count)]


def storage_config(**changes: Any) -> Any:
    from sglang.srt.mem_cache.hicache_storage import HiCacheStorageConfig

    extra = {"socket": SOCKET, "interface_v1": 1, **changes.pop("extra", {})}
    defaults: dict[str, Any] = {
        "tp_rank": 0,
        "tp_size": 1,
        "pp_rank": 0,
        "pp_size": 1,
        "attn_cp_rank": 0,
        "attn_cp_size": 1,
        "is_mla_model": False,
        "enable_storage_metrics": False,
        "is_page_first_layout": True,
        "model_name": "test/model",
        "extra_config": extra,
    }
    return HiCacheStorageConfig(**{**defaults, **changes})


def host_pool(kind: str, layout: str, **options: Any) -> Any:
    import torch
    from hicache_engine import hostpools

    pool = hostpools.build(kind, layout, PAGE_SIZE, PAGES * PAGE_SIZE, **options)
    pool.kv_buffer.view(torch.int16).random_(-(2**15), 2**15)
    return pool


def indices(pages: int = PAGES) -> Any:
    import torch

    return torch.arange(pages * PAGE_SIZE)


def page_bytes(pool: Any, pages: int = PAGES) -> list[bytes]:
    import torch

    return [
        pool.get_data_page(page * PAGE_SIZE).contiguous().view(torch.int16).numpy().tobytes()
        for page in range(pages)
    ]


def check_tensor(page: object, got: Any, want: Any) -> None:
    """Two tensors hold the same bytes (random bits are often NaN, which equals nothing)."""
    import torch

    both = [t.contiguous().view(torch.int16).numpy().tobytes() for t in (got, want)]
    wrong_bytes.check_page(page, *both)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    from peercache.core import attachment

    fake = FakeCluster()
    monkeypatch.setattr(attachment, "load", fake.extension)
    monkeypatch.delenv("PEERCACHE_SOCKET", raising=False)
    return fake


@pytest.fixture
def make_store(cluster: FakeCluster) -> Callable[..., Any]:
    """make_store(pool, **changes of the storage config) -> an attached store."""
    from peercache.store import PeerCacheStore

    def make(pool: Any, **changes: Any) -> Any:
        store = PeerCacheStore(storage_config(**changes), {})
        if pool is not None:
            store.register_mem_pool_host(pool)
            store.on_host_pools_registered()
        return store

    return make


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an engine publishes as its server's flags ends with the test."""
    import sglang.srt  # noqa: F401 -- fills in what is published by default
    from hicache_engine import shim
    from peercache.sglang import updates

    monkeypatch.setattr(updates, "_latest", None)
    copies = {name: types.SimpleNamespace(**vars(each)) for name, each in shim._published.items()}
    monkeypatch.setattr(shim, "_published", copies)

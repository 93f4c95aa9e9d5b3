"""The store over SGLang's real host pools: pages come back byte for byte, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hicache_engine.layouts import LAYOUTS

from .. import wrong_bytes
from .conftest import PAGES, check_tensor, host_pool, indices, keys, page_bytes, storage_config
from .fakes import FakeCluster

Make = Callable[..., Any]
ALL_LAYOUTS = [(kind, layout) for kind, layouts in LAYOUTS.items() for layout in layouts]
GENERIC = {"interface_v1": 0}


def write(store: Any, pool: Any, v1: bool) -> bool:
    if v1:
        return all(store.batch_set_v1(keys(), indices()))
    pages = [pool.get_data_page(page * pool.page_size) for page in range(PAGES)]
    return bool(store.batch_set(keys(), pages))


def read(store: Any, pool: Any, v1: bool) -> int:
    """Like HiCacheController: the leading run of pages that arrived."""
    if v1:
        done = store.batch_get_v1(keys(), indices())
        return done.index(False) if False in done else len(done)
    answers = store.batch_get(keys(), [pool.get_dummy_flat_data_page() for _ in range(PAGES)])
    count = 0
    for page, answer in enumerate(answers):
        if answer is None:
            break
        pool.set_from_flat_data_page(page * pool.page_size, answer)
        count += 1
    return count


@pytest.mark.parametrize("v1", [True, False], ids=["v1", "generic"])
@pytest.mark.parametrize(("kind", "layout"), ALL_LAYOUTS)
def test_pages_travel_between_engines(make_store: Make, kind: str, layout: str, v1: bool) -> None:
    mla = kind == "mla"
    source, target = host_pool(kind, layout), host_pool(kind, layout)
    extra = {"interface_v1": int(v1)}
    writer = make_store(source, is_mla_model=mla, extra=extra)
    reader = make_store(target, is_mla_model=mla, extra=extra)
    assert page_bytes(source) != page_bytes(target)
    assert reader.batch_exists(keys()) == 0
    assert write(writer, source, v1)
    assert reader.batch_exists([*keys(), *keys(seed="other")]) == PAGES
    assert reader.exists(keys()[0])
    assert read(reader, target, v1) == PAGES
    wrong_bytes.check_pages(page_bytes(target), page_bytes(source))
    assert reader.faults.counts() == {}


@pytest.mark.parametrize(
    "other",
    [
        {"model_name": "test/model2"},
        {"extra": {"tag": "blue"}},
        {"tp_rank": 1, "tp_size": 2},
        {"tp_rank": 0, "tp_size": 2},
        {"pp_rank": 1, "pp_size": 2},
        {"attn_cp_rank": 1, "attn_cp_size": 2},
        {"extra": GENERIC},
    ],
    ids=str,
)
def test_another_configuration_misses(make_store: Make, other: dict[str, Any]) -> None:
    pool = host_pool("mha", "page_first")
    assert write(make_store(pool), pool, v1=True)
    assert make_store(pool, **other).batch_exists(keys()) == 0


@pytest.mark.parametrize("layout", ["page_first_direct", "page_head", "layer_first"])
def test_another_layout_misses(make_store: Make, layout: str) -> None:
    pool = host_pool("mha", "page_first")
    assert write(make_store(pool), pool, v1=True)
    assert make_store(host_pool("mha", layout)).batch_exists(keys()) == 0


def test_another_number_of_heads_misses(make_store: Make) -> None:
    pool = host_pool("mha", "page_first")
    assert write(make_store(pool), pool, v1=True)
    assert make_store(host_pool("mha", "page_first", heads=4)).batch_exists(keys()) == 0


def test_the_fp8_formats_are_told_apart(make_store: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    from hicache_engine import shim

    pool = host_pool("mha", "page_first")
    pool.dtype = "torch.uint8"
    pool.get_page_buffer_meta = lambda indices: ([0] * PAGES, [4096] * PAGES)
    prefixes = set()
    for setting in ("fp8_e4m3", "fp8_e5m2"):
        monkeypatch.setattr(shim._published["model"], "kv_cache_dtype", setting)
        prefixes |= set(make_store(pool)._kv.prefixes)
    assert len(prefixes) == 2


def test_mla_has_one_writer_and_all_ranks_read(make_store: Make, cluster: FakeCluster) -> None:
    pool = host_pool("mla", "page_first")
    second = make_store(pool, is_mla_model=True, tp_rank=1, tp_size=2)
    assert second.batch_set_v1(keys(), indices()) == [True] * PAGES
    assert cluster.pages == {}
    first = make_store(pool, is_mla_model=True, tp_rank=0, tp_size=2)
    assert first.batch_set_v1(keys(), indices()) == [True] * PAGES
    assert second.batch_exists(keys()) == PAGES
    assert second.batch_get_v1(keys(), indices()) == [True] * PAGES


def test_pages_split_by_heads_are_read_by_another_tp_size(make_store: Make) -> None:
    wide = host_pool("mha", "page_head", heads=4)
    one = {"tp_lcm_size": 4, "should_split_heads": True, "tp_rank": 1, "tp_size": 2}
    writer = make_store(wide, **one)
    assert write(writer, wide, v1=True)
    assert writer.batch_exists(keys()) == PAGES
    for group, rank in enumerate((2, 3)):
        narrow = host_pool("mha", "page_head", heads=2)
        reader = make_store(narrow, tp_lcm_size=4, tp_rank=rank, tp_size=4)
        assert reader.batch_exists(keys()) == PAGES
        assert read(reader, narrow, v1=True) == PAGES
        heads = slice(2 * group, 2 * group + 2)
        check_tensor("all", narrow.kv_buffer, wide.kv_buffer[:, :, heads])
    stranger = make_store(host_pool("mha", "page_head", heads=2), tp_rank=0, tp_size=4)
    assert stranger.batch_exists(keys()) == 0


def test_a_part_of_a_split_page_is_no_page(make_store: Make, cluster: FakeCluster) -> None:
    pool = host_pool("mha", "page_head", heads=4)
    store = make_store(pool, tp_lcm_size=4, should_split_heads=True, tp_size=2)
    assert write(store, pool, v1=True)
    del cluster.pages[store._kv.prefixes[1], keys()[2]]
    assert store.batch_exists(keys()) == 2
    assert store.batch_get_v1(keys(), indices()) == [True, True, False, True, True, True]


def test_single_pages_and_odd_keys(make_store: Make) -> None:
    pool = host_pool("mha", "page_first")
    store = make_store(pool, extra=GENERIC)
    page = pool.get_data_page(0)
    assert store.set("any text", page)
    assert store.exists("any text")
    assert not store.exists("other text")
    check_tensor(0, store.get("any text"), page)  # allocates where no target is given
    assert store.get("other text") is None


def test_a_target_that_is_no_contiguous_tensor_is_filled(make_store: Make) -> None:
    import torch

    pool = host_pool("mha", "page_first")
    store = make_store(pool, extra=GENERIC)
    page = pool.get_data_page(0)
    assert store.set(keys()[0], page)
    target = torch.zeros(page.numel(), 2, dtype=page.dtype)[:, 0]
    assert store.get(keys()[0], target) is target
    check_tensor(0, target, page)


def test_clear_drops_the_model_and_tag_only(make_store: Make) -> None:
    pool = host_pool("mha", "page_first")
    store, other = make_store(pool), make_store(pool, extra={"tag": "blue"})
    assert write(store, pool, v1=True)
    assert write(other, pool, v1=True)
    assert store.clear()
    assert store.batch_exists(keys()) == 0
    assert other.batch_exists(keys()) == PAGES


def test_storage_metrics_are_sglangs_own(make_store: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys
    import types
    from dataclasses import dataclass, field

    @dataclass
    class StorageMetrics:
        prefetch_pgs: list[int] = field(default_factory=list)
        backup_pgs: list[int] = field(default_factory=list)
        prefetch_bandwidth: list[float] = field(default_factory=list)
        backup_bandwidth: list[float] = field(default_factory=list)

    collector = types.ModuleType("sglang.srt.observability.metrics_collector")
    collector.StorageMetrics = StorageMetrics  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, collector.__name__, collector)
    pool = host_pool("mha", "page_first")
    assert make_store(pool).get_stats() is None
    store = make_store(pool, enable_storage_metrics=True)
    assert write(store, pool, v1=True)
    assert read(store, pool, v1=True) == PAGES
    metrics = store.get_stats()
    assert (metrics.backup_pgs, metrics.prefetch_pgs) == ([PAGES], [PAGES])
    assert metrics.backup_bandwidth[0] > 0
    assert store.get_stats() == StorageMetrics()


def test_it_is_loaded_by_sglangs_factory(cluster: FakeCluster) -> None:
    from peercache.store import PeerCacheStore
    from sglang.srt.mem_cache.storage import StorageBackendFactory

    extra = {
        "backend_name": "peercache",
        "module_path": "peercache.store",
        "class_name": "PeerCacheStore",
    }
    store = StorageBackendFactory.create_backend("dynamic", storage_config(extra=extra), None)
    assert isinstance(store, PeerCacheStore)
    assert "tp0/1 test/model" in cluster.clients[0].engine

"""What the node counts for the hit ratio: each page of a prompt once, however many keys it has."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from sglang.srt.mem_cache.hicache_storage import PoolName

from .conftest import PAGE_SIZE, PAGES, host_pool, indices, keys
from .fakes import FakeCluster
from .test_hybrid import StatePool, mamba, transfer

Make = Callable[..., Any]


def test_a_page_is_looked_up_and_got_with_its_tokens(
    make_store: Make, cluster: FakeCluster
) -> None:
    for v1 in (1, 0):
        pool = host_pool("mha", "page_first")
        store = make_store(pool, extra={"interface_v1": v1})
        cluster.counted.clear()
        assert store.batch_exists(keys()) == 0
        if v1:
            store.batch_get_v1(keys(), indices())
        else:
            store.batch_get(keys(), [pool.get_dummy_flat_data_page() for _ in range(PAGES)])
        assert cluster.counted == [("exists", PAGES, PAGE_SIZE), ("get", PAGES, PAGE_SIZE)]


def test_of_a_page_that_is_split_by_heads_one_part_is_counted(
    make_store: Make, cluster: FakeCluster
) -> None:
    pool = host_pool("mha", "page_head", heads=4)
    store = make_store(pool, tp_lcm_size=4, should_split_heads=True, tp_size=2)
    half = keys()[: PAGES // 2]
    assert all(store.batch_set_v1(half, indices(len(half))))
    assert store.batch_exists(keys()) == len(half)
    assert all(store.batch_get_v1(half, indices(len(half))))
    assert cluster.counted == [("exists", PAGES, PAGE_SIZE), ("get", len(half), PAGE_SIZE)]


def test_side_pools_are_not_counted(make_store: Make, cluster: FakeCluster) -> None:
    kv = host_pool("mla", "page_first")
    store = make_store(kv, is_mla_model=True)
    for name, pool in (
        (PoolName.KV, kv),
        (PoolName.MAMBA, StatePool()),
        (PoolName.INDEXER, host_pool("mla", "page_first_direct")),
    ):
        store.register_mem_host_pool_v2(pool, name)
    some = keys()[:3]
    assert all(store.batch_set_v1(keys(), indices()))
    assert store.batch_set_v2(
        [mamba(some, rows=range(3)), transfer(PoolName.INDEXER, indices(3), some)]
    )
    found = store.batch_exists_v2(
        keys(), [transfer(PoolName.INDEXER, None, []), mamba(keys()[-1:], rows=[0])]
    )
    assert found.kv_hit_pages == 3
    assert all(store.batch_get_v1(some, indices(3)))
    assert store.batch_get_v2(
        [mamba(some[-1:], rows=[0]), transfer(PoolName.INDEXER, indices(3), some)]
    )
    assert cluster.counted == [("exists", PAGES, PAGE_SIZE), ("get", 3, PAGE_SIZE)]


def test_under_a_logical_anchor_the_first_pool_that_needs_all_pages_is_counted(
    make_store: Make, cluster: FakeCluster
) -> None:
    anchor = types.SimpleNamespace(kv_buffer=None, layout="layer_first", page_size=PAGE_SIZE)
    store = make_store(anchor)
    first, second = (host_pool("mla", "page_first") for _ in range(2))
    store.register_mem_host_pool_v2(anchor, PoolName.KV)
    store.register_mem_host_pool_v2(StatePool(), PoolName.MAMBA)
    for name, pool in ((PoolName.DEEPSEEK_V4_C4, first), (PoolName.DEEPSEEK_V4_C128, second)):
        store.register_mem_host_pool_v2(pool, name)
    everything = [
        transfer(PoolName.DEEPSEEK_V4_C4, indices(), keys()),
        transfer(PoolName.DEEPSEEK_V4_C128, indices(), keys()),
    ]
    store.batch_exists_v2(keys(), [mamba(keys(), rows=range(PAGES)), *everything])
    store.batch_set_v2([mamba(keys()), *everything])
    cluster.counted.clear()
    assert store.batch_exists_v2(keys(), everything).kv_hit_pages == PAGES
    store.batch_get_v2(everything)
    assert cluster.counted == [("exists", PAGES, PAGE_SIZE), ("get", PAGES, PAGE_SIZE)]

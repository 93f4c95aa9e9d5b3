"""After the attach nothing raises into SGLang: every fault is a miss, and is counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from .conftest import PAGES, host_pool, indices, keys
from .fakes import FakeCluster

Make = Callable[..., Any]

# Every method that SGLang calls after the attach, and its answer when nothing works.
CALLS: list[tuple[str, Callable[[Any], Any], Any]] = [
    ("batch_set_v1", lambda s: s.batch_set_v1(keys(), indices()), [False] * PAGES),
    ("batch_get_v1", lambda s: s.batch_get_v1(keys(), indices()), [False] * PAGES),
    ("batch_exists", lambda s: s.batch_exists(keys()), 0),
    ("exists", lambda s: s.exists(keys()[0]), False),
    ("clear", lambda s: s.clear(), False),
]


def v2_transfers() -> list[Any]:
    from sglang.srt.mem_cache.hicache_storage import PoolName, PoolTransfer

    return [PoolTransfer(name=PoolName.KV, host_indices=indices(), keys=keys())]


@pytest.mark.parametrize(("name", "call", "answer"), CALLS, ids=[c[0] for c in CALLS])
def test_a_broken_client_is_a_miss(
    make_store: Make, cluster: FakeCluster, name: str, call: Callable[[Any], Any], answer: Any
) -> None:
    store = make_store(host_pool("mha", "page_first"))
    cluster.clients[0].broken = True
    assert call(store) == answer
    assert sum(store.faults.counts().values()) == 1


def test_a_broken_client_is_a_miss_for_flat_pages(make_store: Make, cluster: FakeCluster) -> None:
    pool = host_pool("mha", "page_first")
    store = make_store(pool, extra={"interface_v1": 0})
    pages = [pool.get_dummy_flat_data_page() for _ in range(PAGES)]
    cluster.clients[0].broken = True
    assert store.batch_set(keys(), pages) is False
    assert store.batch_get(keys(), pages) == [None] * PAGES
    assert store.set(keys()[0], pages[0]) is False
    assert store.get(keys()[0], pages[0]) is None
    assert store.faults.counts() == {"batch_set": 2, "batch_get": 2}


def test_a_broken_client_is_a_miss_for_several_pools(
    make_store: Make, cluster: FakeCluster
) -> None:
    pool = host_pool("mha", "page_first")
    store = make_store(pool)
    store.register_mem_host_pool_v2(pool, "kv")
    cluster.clients[0].broken = True
    assert store.batch_set_v2(v2_transfers()) == {"kv": [False] * PAGES}
    assert store.batch_get_v2(v2_transfers()) == {"kv": [False] * PAGES}
    assert store.batch_exists_v2(keys(), v2_transfers()).kv_hit_pages == 0


@pytest.mark.parametrize(("name", "call", "answer"), CALLS, ids=[c[0] for c in CALLS])
def test_calls_before_the_pool_is_known_are_misses(
    make_store: Make, name: str, call: Callable[[Any], Any], answer: Any
) -> None:
    store = make_store(None)
    if name == "clear":
        assert call(store) is True  # needs no pool
        return
    assert call(store) == answer
    assert sum(store.faults.counts().values()) == 1


def test_calls_that_cannot_be_right_are_misses(make_store: Make) -> None:
    pool = host_pool("mha", "page_first")
    store = make_store(pool)
    assert store.batch_set_v1(keys(), indices(PAGES - 1)) == [False] * PAGES
    assert store.batch_get_v1(keys(), None) == [False] * PAGES
    assert store.batch_set_v1([], indices(0)) == []
    assert store.batch_get_v1([], indices(0)) == []
    assert store.batch_exists([]) == 0
    assert store.faults.counts() == {"batch_set_v1": 1, "batch_get_v1": 1}
    flat = make_store(pool, extra={"interface_v1": 0})
    assert flat.batch_set(keys(), None) is False
    assert flat.batch_set(keys(), [pool.get_data_page(0)]) is False
    assert flat.batch_get(keys(), [None] * PAGES) == [None] * PAGES


def test_unknown_pools_and_policies_are_misses(make_store: Make) -> None:
    from sglang.srt.mem_cache.hicache_storage import PoolName, PoolTransfer

    store = make_store(host_pool("mha", "page_first"))
    assert all(store.batch_set_v1(keys(), indices()))
    unknown = [PoolTransfer(name=PoolName.MAMBA, host_indices=indices(), keys=keys())]
    assert store.batch_set_v2(unknown) == {"mamba": [False] * PAGES}
    assert store.batch_exists_v2(keys(), unknown).restorable_prefix_pages == []
    odd = v2_transfers()
    odd[0].hit_policy = "odd_pages"  # type: ignore[assignment]
    assert store.batch_exists_v2(keys(), odd).kv_hit_pages == 0


def test_faults_of_the_client_are_logged_once(
    make_store: Make, cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    store = make_store(host_pool("mha", "page_first"))
    for _ in range(3):
        assert store.batch_get_v1(keys(), indices()) == [False] * PAGES
    assert store.faults.counts() == {"get": 3 * PAGES}
    assert caplog.text.count("PeerCache answered with misses") == 1
    assert "latest in get: page lost" in caplog.text
    assert store.stats()["store_faults"] == {"get": 3 * PAGES}


def test_a_clear_that_some_node_has_not_heard_of_says_which(
    make_store: Make, cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    store = make_store(host_pool("mha", "page_first"))
    assert store.batch_get_v1(keys(), indices()) == [False] * PAGES  # a fault of the same minute
    cluster.clients[0].unheard = "clear: 1 of 4 members do not know it: n3"
    assert store.clear() is False
    assert store.faults.counts()["clear"] == 1
    assert "the clear is not complete: clear: 1 of 4 members do not know it: n3" in caplog.text
    cluster.clients[0].unheard = ""
    assert store.clear() is True


def test_close_is_idempotent(make_store: Make, cluster: FakeCluster) -> None:
    store = make_store(host_pool("mha", "page_first"))
    store.close()
    store.close()
    assert cluster.clients[0].closed


def test_sglangs_own_fault_injector_wraps_it(
    make_store: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sglang.srt.mem_cache.hicache_storage import HiCacheStorageFailureInjector

    injector = HiCacheStorageFailureInjector(make_store(host_pool("mha", "page_first")), 0.0, 0.0)
    assert all(injector.batch_set_v1(keys(), indices()))
    assert injector.batch_exists(keys()) == PAGES
    injector.close()

"""Several pools at once (hybrid models): each under its own namespace and its own hit policy."""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from peercache.sglang import pools
from sglang.srt.mem_cache.hicache_storage import PoolHitPolicy, PoolName, PoolTransfer

from .. import wrong_bytes
from .conftest import PAGES, check_tensor, host_pool, indices, keys, page_bytes
from .fakes import FakeCluster

Make = Callable[..., Any]


class StatePool:
    """One state per page in two buffers of different size, like Mamba's."""

    page_size = 1
    layout = "page_first"
    dtype = torch.float32
    fd = None

    def __init__(self) -> None:
        self.temporal = torch.rand(PAGES, 64)
        self.conv = torch.rand(PAGES, 8)
        self.kv_buffer = [self.temporal, self.conv]

    def get_page_buffer_meta(self, rows: torch.Tensor) -> tuple[list[int], list[int]]:
        ptrs, sizes = [], []
        for row in rows.tolist():
            for buffer in self.kv_buffer:
                ptrs.append(buffer[row].data_ptr())
                sizes.append(buffer[row].numel() * 4)
        return ptrs, sizes


def transfer(name: PoolName, rows: Any, of: Sequence[str], **options: Any) -> PoolTransfer:
    return PoolTransfer(name=name, host_indices=rows, keys=list(of), **options)


def mamba(of: Sequence[str], rows: Sequence[int] = range(PAGES), **options: Any) -> PoolTransfer:
    return transfer(
        PoolName.MAMBA,
        torch.tensor(list(rows)),
        of,
        hit_policy=PoolHitPolicy.TRAILING_PAGES,
        **options,
    )


@pytest.fixture
def hybrid(make_store: Make) -> Callable[..., Any]:
    """hybrid() -> (store, kv pool, state pool, indexer pool)."""

    def make(**changes: Any) -> tuple[Any, Any, StatePool, Any]:
        kv, state = host_pool("mla", "page_first"), StatePool()
        indexer = host_pool("mla", "page_first_direct")
        store = make_store(kv, is_mla_model=True, **changes)
        for name, pool in (
            (PoolName.KV, kv),
            (PoolName.MAMBA, state),
            (PoolName.INDEXER, indexer),
        ):
            store.register_mem_host_pool_v2(pool, name)
        return store, kv, state, indexer

    return make


def test_pools_travel_together_and_apart(hybrid: Callable[..., Any]) -> None:
    writer, kv, state, indexer = hybrid()
    done = writer.batch_set_v2(
        [
            transfer(PoolName.KV, indices(), keys()),
            mamba(keys()),
            transfer(PoolName.INDEXER, indices(), keys()),
        ]
    )
    assert done == {name: [True] * PAGES for name in ("kv", "mamba", "indexer")}
    reader, kv2, state2, indexer2 = hybrid()
    assert reader.batch_exists(keys()) == PAGES  # v1 and v2 name the same KV pages
    assert reader.batch_get_v2([mamba(keys())]) == {"mamba": [True] * PAGES}
    check_tensor("temporal", state2.temporal, state.temporal)
    check_tensor("conv", state2.conv, state.conv)
    assert page_bytes(indexer2) != page_bytes(indexer)
    assert reader.batch_get_v2([transfer(PoolName.INDEXER, indices(), keys())])
    wrong_bytes.check_pages(page_bytes(indexer2), page_bytes(indexer))
    assert page_bytes(kv2) != page_bytes(kv)


def test_every_pool_limits_the_prefix_by_its_policy(hybrid: Callable[..., Any]) -> None:
    store, *_ = hybrid()
    assert all(store.batch_set_v1(keys(), indices()))
    checkpoints = [keys()[1], keys()[4]]  # states exist after pages 2 and 5 only
    assert store.batch_set_v2([mamba(checkpoints, rows=[1, 4])]) == {"mamba": [True, True]}
    one_state = mamba(keys()[-1:], rows=[0])
    found = store.batch_exists_v2(keys(), [one_state])
    assert found.restorable_prefix_pages == [2, 5]
    assert found.kv_hit_pages == 5
    assert found.extra_pool_hit_pages == {"kv": PAGES, "mamba": 5}
    some = keys()[:4]
    assert store.batch_set_v2([transfer(PoolName.INDEXER, indices(4), some)])
    every_page = transfer(PoolName.INDEXER, None, [])
    found = store.batch_exists_v2(keys(), [one_state, every_page])
    assert found.restorable_prefix_pages == [2]
    assert found.extra_pool_hit_pages == {"kv": PAGES, "mamba": 5, "indexer": 4}
    groups = transfer(
        PoolName.INDEXER,
        None,
        keys(),
        hit_policy=PoolHitPolicy.BLOCK_GROUPS,
        block_pages=3,
        group_pages=2,
    )
    found = store.batch_exists_v2(keys(), [groups])
    assert found.kv_hit_pages == PAGES  # groups never limit the prefix
    assert found.extra_pool_hit_pages["indexer"] == 6


def test_nothing_is_restorable_without_kv(hybrid: Callable[..., Any]) -> None:
    store, *_ = hybrid()
    assert store.batch_set_v2([mamba(keys())])
    found = store.batch_exists_v2(keys(), [mamba(keys())])
    assert (found.kv_hit_pages, found.extra_pool_hit_pages) == (0, {})
    assert found.restorable_prefix_pages == []


def test_states_are_sharded_though_kv_is_replicated(hybrid: Callable[..., Any]) -> None:
    first, *_ = hybrid(tp_rank=0, tp_size=2)
    second, *_ = hybrid(tp_rank=1, tp_size=2)
    assert all(first.batch_set_v1(keys(), indices()))
    assert first.batch_set_v2([mamba(keys())])
    assert second.batch_exists(keys()) == PAGES
    assert second.batch_exists_v2(keys(), [mamba(keys()[-1:], rows=[0])]).kv_hit_pages == 0
    assert second.batch_set_v2([mamba(keys())]) == {"mamba": [True] * PAGES}
    assert second.batch_exists_v2(keys(), [mamba(keys()[-1:], rows=[0])]).kv_hit_pages == PAGES


def test_a_logical_anchor_leaves_the_verdict_to_its_sidecars(
    make_store: Make, cluster: FakeCluster
) -> None:
    anchor = types.SimpleNamespace(kv_buffer=None, layout="layer_first", page_size=16)
    state = StatePool()
    store = make_store(anchor)
    store.register_mem_host_pool_v2(anchor, PoolName.KV)
    store.register_mem_host_pool_v2(state, PoolName.MAMBA)
    assert store.batch_set_v1(keys(), indices()) == [True] * PAGES
    assert store.batch_get_v1(keys(), indices()) == [True] * PAGES
    assert cluster.pages == {}
    assert store.batch_exists(keys()) == 0
    assert store.batch_exists_v2(keys(), None).kv_hit_pages == 0
    assert store.batch_exists_v2(keys(), [mamba(keys()[-1:], rows=[0])]).kv_hit_pages == 0
    assert store.batch_set_v2([mamba(keys())])
    assert store.batch_exists_v2(keys(), [mamba(keys()[-1:], rows=[0])]).kv_hit_pages == PAGES


def test_a_logical_anchor_has_empty_pages_in_the_generic_interface(
    make_store: Make, cluster: FakeCluster
) -> None:
    anchor = types.SimpleNamespace(
        kv_buffer=None,
        layout="layer_first",
        page_size=16,
        get_dummy_flat_data_page=lambda: torch.empty(0, dtype=torch.uint8),
    )
    store = make_store(anchor, extra={"interface_v1": 0})
    empty = [torch.empty(0, dtype=torch.uint8) for _ in keys()]
    assert store.batch_set(keys(), empty) is True
    assert [page.numel() for page in store.batch_get(keys(), empty)] == [0] * PAGES
    assert [page.numel() for page in store.batch_get(keys())] == [0] * PAGES
    assert cluster.pages == {}
    assert store.faults.counts() == {}


def test_a_transfer_that_cannot_be_done_fails_alone(
    hybrid: Callable[..., Any], cluster: FakeCluster
) -> None:
    store, *_ = hybrid()
    transfers = [
        transfer(PoolName.INDEXER, indices(3), keys()),  # rows for half of the keys
        mamba(keys()),
        transfer(PoolName.SWA, indices(), keys()),  # never registered
        transfer(PoolName.KV, indices(), keys()),
    ]
    expected = {
        "indexer": [False] * PAGES,
        "mamba": [True] * PAGES,
        "swa": [False] * PAGES,
        "kv": [True] * PAGES,
    }
    assert store.batch_set_v2(transfers) == expected
    assert store.batch_get_v2(transfers) == expected
    assert store.faults.counts() == {"batch_set_v2": 2, "batch_get_v2": 2}


class NoPages:
    """A host pool that tells no addresses and copies no pages."""

    page_size = 1
    layout = "layer_first"
    fd = None
    kv_buffer = torch.zeros(4)


def test_a_pool_that_cannot_be_stored_is_said_once_and_fails_nothing(
    make_store: Make, caplog: pytest.LogCaptureFixture
) -> None:
    kv = host_pool("mla", "page_first")
    store = make_store(kv, is_mla_model=True)
    store.register_mem_host_pool_v2(kv, PoolName.KV)
    store.register_mem_host_pool_v2(NoPages(), PoolName.MAMBA)
    store.on_host_pools_registered()
    assert all(store.batch_set_v1(keys(), indices()))
    for _ in range(3):
        assert store.batch_set_v2([mamba(keys())]) == {"mamba": [False] * PAGES}
        found = store.batch_exists_v2(keys(), [mamba(keys()[-1:], rows=[0])])
        assert (found.kv_hit_pages, found.restorable_prefix_pages) == (0, [])
        assert store.batch_get_v2([mamba(keys())]) == {"mamba": [False] * PAGES}
    assert store.batch_exists(keys()) == PAGES, "prompts that do not need it have their pages"
    assert store.faults.counts() == {}
    said = [record.message for record in caplog.records if "stores no page" in record.message]
    assert len(said) == 1
    assert "host pool mamba, so every prompt whose prefix needs it is a miss" in said[0]
    assert "NoPages with layout layer_first" in said[0]


def test_the_attach_says_once_which_pools_travel_and_drafts_come_later(
    make_store: Make, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "peercache")
    kv = host_pool("mla", "page_first")
    store = make_store(None, is_mla_model=True)
    store.register_mem_pool_host(kv)
    store.register_mem_host_pool_v2(kv, PoolName.KV)
    store.register_mem_host_pool_v2(StatePool(), PoolName.MAMBA)
    store.on_host_pools_registered()
    store.register_mem_host_pool_v2(host_pool("mha", "page_first"), PoolName.DRAFT)
    said = [
        record.message for record in caplog.records if "stores the host pools" in record.message
    ]
    assert said == [
        "PeerCache stores the host pools kv (zero copy, shared by all TP ranks), "
        "mamba (zero copy, of this TP rank)"
    ]
    assert store.batch_set_v2([transfer(PoolName.DRAFT, indices(), keys())]) == {
        "draft": [True] * PAGES
    }


@pytest.mark.parametrize("texts", [False, True], ids=["hashes", "other keys"])
def test_a_node_of_an_older_release_gives_the_same_answer(
    hybrid: Callable[..., Any], cluster: FakeCluster, texts: bool
) -> None:
    of = [f"page {i}" for i in range(PAGES)] if texts else keys()
    store, *_ = hybrid()
    assert store.batch_set_v2([transfer(PoolName.KV, indices(), of)]) == {"kv": [True] * PAGES}
    assert store.batch_set_v2([mamba([of[1], of[4]], rows=[1, 4])])
    one_state = mamba(["__placeholder__"], rows=[0])
    new = store.batch_exists_v2(of, [one_state])
    calls = cluster.clients[-1].calls
    assert calls.count("presence") == 1
    cluster.knows_presence = False
    old = store.batch_exists_v2(of, [one_state])
    assert (old.restorable_prefix_pages, old.extra_pool_hit_pages) == (
        new.restorable_prefix_pages,
        new.extra_pool_hit_pages,
    )
    assert new.restorable_prefix_pages == [2, 5]


@pytest.mark.parametrize(
    ("name", "attributes", "mla", "replicated"),
    [
        ("kv", {}, True, True),
        ("kv", {}, False, False),
        ("indexer", {}, True, True),
        ("deepseek_v4_c4", {}, True, True),
        ("swa", {}, True, True),
        ("swa", {}, False, False),
        ("swa", {"head_num": 8}, True, False),
        ("auxiliary_swa", {"head_num": 8}, True, False),
        ("draft_swa", {"head_num": 8}, True, False),
        ("draft_swa", {"kv_lora_rank": 512}, True, True),
        ("mamba", {"kv_lora_rank": 512}, True, False),
        ("draft", {}, True, False),
        ("draft", {"kv_lora_rank": 512}, True, True),
        ("a_pool_of_tomorrow", {}, True, False),
    ],
)
def test_who_holds_the_same_bytes(
    name: str, attributes: dict[str, int], mla: bool, replicated: bool
) -> None:
    assert pools.is_replicated(name, types.SimpleNamespace(**attributes), mla) is replicated

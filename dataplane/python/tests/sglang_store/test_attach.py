"""The attach: what is wrong fails it with a message, what can still work goes on."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import pytest
from peercache.core.config import ConfigError
from peercache.core.extension import ExtensionMissing

from .conftest import SOCKET, host_pool, indices, keys
from .fakes import FakeCluster

Make = Callable[..., Any]
# SGLang has it for MLA alone.
DCP = {
    "dcp_rank": 1,
    "dcp_size": 2,
    "tp_rank": 1,
    "tp_size": 2,
    "is_mla_model": True,
    "logical_page_size": 32,
}


@pytest.fixture
def shared_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Host pools as ``"allocator": "shm"`` makes them."""
    from hicache_engine import shim

    memory = shim._published["memory"]
    monkeypatch.setattr(memory, "hicache_storage_backend", "dynamic")
    monkeypatch.setattr(memory, "hicache_storage_backend_extra_config", '{"allocator": "shm"}')


def test_what_is_no_node_fails_the_attach(make_store: Make, cluster: FakeCluster) -> None:
    cluster.refuse_connect = "it does not speak PeerCache"
    with pytest.raises(
        ConfigError,
        match=rf'"socket" = "{SOCKET}" leads to no node of PeerCache \(it does not speak',
    ):
        make_store(None)


def test_an_extension_that_does_not_load_costs_the_cache_and_not_the_engine(
    make_store: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise ExtensionMissing("the extension does not load: failed to map segment")

    monkeypatch.setattr("peercache.core.attachment.load", fail)
    store = make_store(host_pool("mha", "page_first"))
    said = [r.getMessage() for r in caplog.records if "works without cache" in r.getMessage()]
    assert said == [
        "PeerCache: this engine works without cache: the extension does not load: failed to map "
        "segment"
    ]
    assert store.attached is False
    assert store.batch_exists(keys()) == 0
    assert store.batch_set_v1(keys(), indices()) == [False] * len(keys())
    assert store.batch_get_v1(keys(), indices()) == [False] * len(keys())
    assert "failed to map segment" in store.stats()["detached"]
    assert store.clear() is False
    store.close()


def test_an_engine_that_is_held_out_neither_attaches_nor_asks(
    make_store: Make, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PEERCACHE_HOLDOUT", "true")
    store = make_store(host_pool("mha", "page_first"))
    assert store.attached is False
    assert cluster.clients == []
    assert store.batch_set_v1(keys(), indices()) == [False] * len(keys())
    assert store.batch_exists(keys()) == 0
    assert "it is held out" in store.stats()["detached"]
    store.close()
    monkeypatch.setenv("PEERCACHE_HOLDOUT", "false")
    assert make_store(host_pool("mha", "page_first")).attached is True
    monkeypatch.setenv("PEERCACHE_HOLDOUT", "10%")
    with pytest.raises(ConfigError, match='"PEERCACHE_HOLDOUT" = "10%" is neither true nor false'):
        make_store(None)


def test_without_a_node_all_is_a_miss_that_reaches_no_client(
    make_store: Make, cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    pool = host_pool("mha", "page_first")
    store = make_store(pool)
    store.register_mem_host_pool_v2(pool, "kv")
    (client,) = cluster.clients
    client.attached = False
    transfers = [types.SimpleNamespace(name="kv", keys=keys(), host_indices=indices())]
    assert store.attached is False
    assert store.batch_exists(keys()) == 0
    assert store.exists(keys()[0]) is False
    assert store.batch_exists_v2(keys(), transfers).kv_hit_pages == 0
    assert store.batch_set_v1(keys(), indices()) == [False] * len(keys())
    assert store.batch_get_v1(keys(), indices()) == [False] * len(keys())
    assert store.batch_set_v2(transfers) == {"kv": [False] * len(keys())}
    assert store.batch_get_v2(transfers) == {"kv": [False] * len(keys())}
    assert store.batch_set(keys(), [None] * len(keys())) is False
    assert store.batch_get(keys()) == [None] * len(keys())
    assert client.calls == []
    assert store.stats()["store_faults"] == {}
    assert [r for r in caplog.records if r.name.startswith("peercache")] == []
    client.attached = True
    assert all(store.batch_set_v1(keys(), indices()))


def test_an_unknown_key_fails_the_attach(make_store: Make) -> None:
    with pytest.raises(ConfigError, match=r'"sockets" = "/x" is an unknown key: did you mean'):
        make_store(None, extra={"sockets": "/x"})


def test_a_nameless_model_needs_a_tag(make_store: Make) -> None:
    with pytest.raises(ConfigError, match="--served-model-name"):
        make_store(None, model_name=None)
    assert make_store(None, model_name=None, extra={"tag": "blue"})


@pytest.mark.parametrize(
    ("ranks", "name"),
    [
        ({}, "tp0/1 test/model"),
        ({"pp_rank": 1, "pp_size": 2}, "pp1/2 tp0/1 test/model"),
        ({"attn_cp_rank": 1, "attn_cp_size": 4}, "cp1/4 tp0/1 test/model"),
        (DCP, "dcp1/2 tp1/2 test/model"),
    ],
    ids=["alone", "pp", "cp", "dcp"],
)
def test_the_node_sees_the_ranks_of_an_engine(
    make_store: Make, cluster: FakeCluster, ranks: dict[str, int], name: str
) -> None:
    make_store(None, **ranks)
    assert cluster.clients[0].engine.split(" ", 1)[1] == name


@pytest.mark.parametrize(
    ("parallel", "name"),
    [
        ({"attn_dp_size": 4, "dp_size": 1}, "dp1/4 tp0/1 test/model"),
        ({"attn_dp_size": 1, "dp_size": 2, "dp_rank": 0}, "dp0/2 tp0/1 test/model"),
        ({}, "dp1/2 tp0/1 test/model"),
    ],
    ids=["attention", "replicas", "untold"],
)
def test_the_node_sees_the_rank_of_data_parallelism(
    make_store: Make,
    cluster: FakeCluster,
    monkeypatch: pytest.MonkeyPatch,
    parallel: dict[str, int],
    name: str,
) -> None:
    from sglang.srt.runtime_context import get_parallel

    for field, value in parallel.items():
        monkeypatch.setattr(get_parallel(), field, value, raising=False)
    make_store(None, dp_rank=1)
    assert cluster.clients[0].engine.split(" ", 1)[1] == name


# What SGLang tells each process of an engine of eight. With DP attention the TP rank is that within
# a DP and CP group; without, CP groups are parts of the TP group.
OF_EIGHT: dict[str, list[dict[str, int]]] = {
    "tp": [{"tp_rank": i, "tp_size": 8} for i in range(8)],
    "pp": [{"pp_rank": i // 4, "pp_size": 2, "tp_rank": i % 4, "tp_size": 4} for i in range(8)],
    "dp attention": [{"dp_rank": i // 2, "tp_rank": i % 2, "tp_size": 2} for i in range(8)],
    "dp attention, cp": [
        {
            "dp_rank": i // 4,
            "attn_cp_rank": i // 2 % 2,
            "attn_cp_size": 2,
            "tp_rank": i % 2,
            "tp_size": 2,
        }
        for i in range(8)
    ],
    "cp": [
        {"attn_cp_rank": i // 4, "attn_cp_size": 2, "tp_rank": i, "tp_size": 8} for i in range(8)
    ],
    "dp replicas": [{"tp_rank": i % 4, "tp_size": 4} for i in range(8)],
}


@pytest.mark.parametrize("kind", OF_EIGHT)
def test_no_two_processes_of_an_engine_share_a_folder_or_take_the_whole_pool(
    cluster: FakeCluster, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from peercache.core import embedded
    from peercache.store import PeerCacheStore
    from sglang.srt.runtime_context import get_parallel

    from .conftest import storage_config

    started: list[dict[str, str]] = []

    def acquire(options: dict[str, str]) -> str:
        started.append(options)
        return SOCKET

    monkeypatch.setattr(embedded, "acquire", acquire)
    monkeypatch.setattr(embedded, "release", lambda: None)
    extra = {"global_segment_size": "8gb", "disk_path": "/nvme0,/nvme1", "disk_size": "80gb"}
    for process, ranks in enumerate(OF_EIGHT[kind]):
        replica = kind == "dp replicas"
        parallel = {
            "attn_dp_size": 1 + max(each.get("dp_rank", 0) for each in OF_EIGHT[kind]),
            "dp_size": 2 if replica else 1,
            "dp_rank": process // 4 if replica else None,
        }
        for field, value in parallel.items():
            monkeypatch.setattr(get_parallel(), field, value, raising=False)
        config = storage_config(**ranks)
        config.extra_config = {"discovery_addr": "127.0.0.1:31998", **extra}
        PeerCacheStore(config, {}).close()
    folders = [folder for each in started for folder in each["disk-path"].split(",")]
    assert len(set(folders)) == 2 * 8
    assert {(each["pool-size"], each["disk-size"]) for each in started} == {
        (str(1 << 30), str(10 << 30))
    }


def test_embedded_mode_needs_the_node_in_the_extension(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    from peercache.core import embedded
    from peercache.store import PeerCacheStore

    from .conftest import storage_config

    config = storage_config()
    config.extra_config = {"discovery_addr": "127.0.0.1:31998"}
    monkeypatch.setattr(embedded, "load", cluster.extension)
    with pytest.raises(ConfigError, match=r"pip install \./dataplane"):
        PeerCacheStore(config, {})


def test_shared_pools_are_registered_whole_and_once(
    make_store: Make, cluster: FakeCluster, shared_memory: None
) -> None:
    pool = host_pool("mha", "page_first")
    store = make_store(pool, extra={"allocator": "shm"})
    store.register_mem_host_pool_v2(pool, "kv")
    (region,) = cluster.clients[0].regions
    size = pool.kv_buffer.numel() * pool.kv_buffer.element_size()
    assert region[0] == pool.kv_buffer.data_ptr()
    assert size <= region[1] < size + 4096


def test_a_pool_with_a_bare_descriptor_is_registered(
    make_store: Make, cluster: FakeCluster, shared_memory: None
) -> None:
    pool = host_pool("mha", "page_first")
    pool.allocator = types.SimpleNamespace(keep=pool.allocator)
    make_store(pool)
    assert [base for base, _ in cluster.clients[0].regions] == [pool.kv_buffer.data_ptr()]


def test_a_private_pool_works_and_is_mentioned(
    make_store: Make, cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    pool = host_pool("mha", "page_first")
    store = make_store(pool, extra={"allocator": "shm"})
    assert cluster.clients[0].regions == []
    assert "staging ring" in caplog.text
    assert "inline JSON" in caplog.text
    assert all(store.batch_set_v1(keys(), indices()))


def test_a_pool_that_the_node_cannot_map_works_and_is_mentioned(
    make_store: Make,
    cluster: FakeCluster,
    shared_memory: None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster.refuse_region = "out of memory"
    store = make_store(host_pool("mha", "page_first"))
    assert "staging ring" in caplog.text
    assert "out of memory" in caplog.text
    assert all(store.batch_set_v1(keys(), indices()))


def test_a_pool_without_zero_copy_fails_the_attach_with_the_remedy(make_store: Make) -> None:
    pool = host_pool("mha", "page_first")
    pool.layout = "page_sideways"
    with pytest.raises(ConfigError, match=r'layout page_sideways.*remove "interface_v1"'):
        make_store(pool)


def test_a_pool_without_flat_pages_fails_the_attach_with_the_remedy(
    make_store: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise NotImplementedError("no flat pages")

    pool = host_pool("mha", "page_first")
    monkeypatch.setattr(pool, "get_dummy_flat_data_page", refuse)
    with pytest.raises(ConfigError, match=r'\(no flat pages\): set "interface_v1": 1'):
        make_store(pool, extra={"interface_v1": 0})


def test_rdma_on_tcp_is_mentioned(
    make_store: Make, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from peercache.core import embedded
    from peercache.store import PeerCacheStore

    from .conftest import storage_config

    monkeypatch.setattr(embedded, "acquire", lambda options: SOCKET)
    monkeypatch.setattr(embedded, "release", lambda: None)
    config = storage_config()
    config.extra_config = {"discovery_addr": "127.0.0.1:31998", "protocol": "rdma"}
    PeerCacheStore(config, {}).close()
    assert '"protocol" asks for RDMA' in caplog.text

"""Updates of the weights, by SGLang's own updaters: no page is served that other weights made."""

from __future__ import annotations

import shutil
import threading
import timeit
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hicache_engine import hub, shim
from peercache.sglang import updates
from peercache.sglang.weights import LiveWeights

from ..patience import HANG_SECONDS
from . import updating
from .conftest import host_pool, indices, keys
from .engines import PAGES, engine, hits, write
from .fakes import FakeCluster
from .updating import Scheduler

RUN = {"tag": "run-7"}


@pytest.fixture(autouse=True)
def _alone(cluster: FakeCluster, published: None, monkeypatch: pytest.MonkeyPatch) -> None:
    updating.install(monkeypatch)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "base"
    hub.write(made, seed="base")
    return made


def rename(version: str) -> None:
    """What /update_weight_version does."""
    shim._published["serving"].weight_version = version


def test_pages_belong_to_the_version_of_the_moment(folder: Path) -> None:
    with engine(folder) as cache:
        assert write(cache) == PAGES
        rename("2")
        assert hits(cache) == 0
        assert write(cache) == PAGES
        assert hits(cache) == PAGES
        rename("default")
        assert hits(cache) == PAGES
    with engine(folder, "--weight-version=2") as other:
        assert hits(other) == PAGES


def test_a_training_run_needs_no_clear(folder: Path) -> None:
    with engine(folder, **RUN) as cache:
        scheduler = Scheduler(cache)
        assert write(cache) == PAGES
        for version in ("1", "2", "3"):
            with scheduler.session():
                assert scheduler.from_tensor(weight_version=version).success
            assert hits(cache) == 0
            assert write(cache) == PAGES
            assert hits(cache) == PAGES
        with scheduler.session():
            assert scheduler.from_tensor(weight_version="2").success
        assert hits(cache) == PAGES  # the weights of version 2 again
    with engine(folder, **RUN) as replica:
        scheduler = Scheduler(replica)
        with scheduler.session():
            assert scheduler.from_tensor(weight_version="3").success
        assert hits(replica) == PAGES


def test_the_checkpoint_is_not_what_an_update_named_like_it_is(folder: Path) -> None:
    with engine(folder, **RUN) as cache:
        assert write(cache) == PAGES
        scheduler = Scheduler(cache)
        for version in ("1", "default"):
            with scheduler.session():
                assert scheduler.from_tensor(weight_version=version).success
        assert hits(cache) == 0


@pytest.mark.parametrize("version", [None, "default"], ids=["none", "the same"])
def test_an_update_without_a_new_version_ends_caching(folder: Path, version: str | None) -> None:
    with engine(folder, **RUN) as cache:
        scheduler = Scheduler(cache)
        assert write(cache) == PAGES
        assert scheduler.from_ipc(weight_version=version).success
        assert hits(cache) == 0
        assert write(cache) == 0
        assert sum(cache.store.faults.counts().values()) > 0
        rename("4")
        assert hits(cache) == 0
        assert write(cache) == PAGES
        assert hits(cache) == PAGES


def test_an_update_from_memory_needs_the_name_of_its_run(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with engine(folder) as cache:
        scheduler = Scheduler(cache)
        with scheduler.session():
            assert scheduler.from_tensor(weight_version="1").success
        assert write(cache) == 0
        assert hits(cache) == 0
    assert 'name this one with "tag" in the extra-config' in caplog.text


def test_an_update_from_disk_is_known_by_its_files(folder: Path, tmp_path: Path) -> None:
    hub.write(tmp_path / "next", seed="next")
    shutil.copytree(tmp_path / "next", tmp_path / "copy")
    with engine(folder) as cache:
        assert write(cache) == PAGES
        assert Scheduler(cache).from_disk(tmp_path / "next").success
        assert hits(cache) == 0
        assert write(cache) == PAGES
        cleared = cache.store._weights.clear_tag
    with engine(tmp_path / "copy") as other:
        assert hits(other) == PAGES
        assert other.store._weights.clear_tag == cleared
        assert Scheduler(other).from_disk(folder).success
        assert hits(other) == PAGES


def test_an_update_from_disk_that_failed_ends_caching(folder: Path, tmp_path: Path) -> None:
    with engine(folder, **RUN) as cache:
        scheduler = Scheduler(cache)
        assert not scheduler.from_disk(tmp_path / "missing", weight_version="2").success
        assert write(cache) == 0
        assert scheduler.from_disk(folder).success
        assert write(cache) == PAGES


def test_files_that_tell_nothing_are_named_by_their_version(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "odd").mkdir()
    with engine(folder, **RUN) as cache:
        scheduler = Scheduler(cache)
        assert scheduler.from_disk(tmp_path / "odd").success
        assert write(cache) == 0
        assert scheduler.from_disk(tmp_path / "odd", weight_version="2").success
        assert write(cache) == PAGES
        assert hits(cache) == PAGES


def test_an_update_that_did_not_fit_ends_caching(folder: Path) -> None:
    with engine(folder, **RUN) as cache:
        scheduler = Scheduler(cache)
        scheduler.model.broken = True
        with scheduler.session(), pytest.raises(RuntimeError, match="do not fit"):
            scheduler.from_tensor(weight_version="1")
        assert write(cache) == 0
        assert hits(cache) == 0


def test_kv_of_the_old_weights_is_not_stored_under_the_new_version(folder: Path) -> None:
    """Backups that wait while weights change are of the weights before."""
    with engine(folder, **RUN) as cache:
        scheduler = Scheduler(cache)
        scheduler.busy = True
        with scheduler.session():
            answer = scheduler.from_tensor(weight_version="1")
        assert "the cache was not flushed" in answer.message
        assert write(cache) == 0
        assert hits(cache) == 0
        scheduler.busy = False
        assert scheduler.flush_cache()
        assert write(cache) == PAGES
        assert hits(cache) == PAGES


def test_backups_that_wait_during_an_update_are_dropped(
    folder: Path, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the new version and the flush, SGLang's backup thread still has old KV to store."""
    with engine(folder, **RUN) as cache:
        scheduler = Scheduler(cache)
        going_on, released = threading.Event(), threading.Event()
        store = cluster.clients[-1].set

        def slow(*call: Any) -> Any:
            going_on.set()
            assert released.wait(HANG_SECONDS)
            return store(*call)

        monkeypatch.setattr(cluster.clients[-1], "set", slow)
        monkeypatch.setattr(cluster.clients[-1], "set_rows", lambda *_: None)
        old = [queue_backup(cache, seed) for seed in (1, 2)]
        assert going_on.wait(HANG_SECONDS)

        def flush_late(**options: bool) -> bool:
            released.set()
            for _ in old:
                cache.controller.ack_backup_queue.get(timeout=HANG_SECONDS)
            return scheduler.flush_cache(**options)

        scheduler.weights.flush_cache = flush_late
        assert scheduler.from_ipc(weight_version="1").success
        assert len(cluster.pages) == PAGES // 2  # of the first backup, under the old name
        assert [hits(cache, seed) for seed in (1, 2)] == [0, 0]


def queue_backup(cache: Any, seed: int) -> None:
    tokens = cache.tokens(seed, PAGES)
    rows = cache.pool.alloc(len(tokens) // 2)
    keys = cache.hashes(seed, PAGES)[: PAGES // 2]
    cache.controller.write_storage(rows, tokens[: len(rows)], hash_value=keys, prefix_keys=[])


def test_pages_of_the_new_version_are_read_before_the_flush(folder: Path) -> None:
    with engine(folder, **RUN) as cache:
        with (scheduler := Scheduler(cache)).session():
            assert scheduler.from_tensor(weight_version="1").success
        assert write(cache) == PAGES
    with engine(folder, **RUN) as cache:
        with (scheduler := Scheduler(cache)).session():
            assert scheduler.from_tensor(weight_version="1", flush_cache=False).success
        assert hits(cache) == PAGES
        assert write(cache, seed=2) == 0


def test_a_flush_before_the_update_is_enough_when_nothing_came_between(folder: Path) -> None:
    with engine(folder, **RUN) as cache:
        scheduler = Scheduler(cache)
        assert scheduler.flush_cache()
        with scheduler.session():
            assert scheduler.from_tensor(weight_version="1", flush_cache=False).success
        assert write(cache) == PAGES
        rows = cache.pool.alloc(16)  # KV in the host pool
        with scheduler.session():
            assert scheduler.from_tensor(weight_version="2", flush_cache=False).success
        assert write(cache) == 0
        cache.pool.free(rows)
        scheduler.device_tokens = 16
        with scheduler.session():
            assert scheduler.from_tensor(weight_version="3", flush_cache=False).success
        assert write(cache) == 0


def test_nothing_is_cached_while_a_session_is_open(folder: Path) -> None:
    with engine(folder, **RUN) as cache:
        scheduler = Scheduler(cache)
        with scheduler.session():
            assert write(cache) == 0
            assert scheduler.from_tensor(weight_version="1").success
            assert write(cache) == 0
            assert scheduler.from_tensor(weight_version="1").success
            assert hits(cache) == 0
        assert write(cache) == PAGES


def test_weights_that_are_written_past_sglang_are_named_by_the_next_version(folder: Path) -> None:
    """Over RDMA: SGLang sees the session alone."""
    with engine(folder, **RUN) as cache:
        scheduler = Scheduler(cache)
        with scheduler.session():
            pass
        assert write(cache) == 0
        assert scheduler.flush_cache()
        assert write(cache) == 0
        rename("1")
        assert write(cache) == PAGES


def test_an_attach_after_another_follows_updates_once(folder: Path) -> None:
    updater: Any = updating.sys.modules[updating._UPDATER]
    for _ in range(3):
        with engine(folder, **RUN):
            method = updater.WeightUpdater.update_weights_from_ipc
    assert not hasattr(method.__wrapped__, "__wrapped__")


def reattach(cache: Any) -> None:
    cache.controller.attach_storage_backend(
        "dynamic",
        model_name=cache.flags.model,
        storage_backend_extra_config=cache.flags.extra_config(),
    )


def test_updates_between_two_attaches_are_known(folder: Path) -> None:
    with engine(folder, **RUN) as cache:
        assert write(cache) == PAGES
        cache.controller.detach_storage_backend()
        scheduler = Scheduler(cache)
        assert scheduler.from_ipc().success
        reattach(cache)
        assert write(cache) == 0
        assert hits(cache) == 0
        assert scheduler.from_ipc(weight_version="1").success
        assert hits(cache) == 0
        assert write(cache) == PAGES
        cache.controller.detach_storage_backend()
        reattach(cache)
        assert hits(cache) == PAGES


@pytest.mark.parametrize("tag", [{}, RUN], ids=["untagged", "tagged"])
def test_a_version_that_changed_before_the_attach_is_one_from_memory(
    folder: Path, tag: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    context: Any = updating.sys.modules["sglang.srt.runtime_context"]
    given = types.SimpleNamespace(model_path=str(folder), weight_version="default")
    with monkeypatch.context() as patch:
        patch.setattr(context, "get_server_args", lambda: given, raising=False)
        with engine(folder, "--weight-version=5", **tag) as cache:
            assert write(cache) == 0
            assert Scheduler(cache).flush_cache()
            assert write(cache) == (PAGES if tag else 0)
    with engine(folder, "--weight-version=5", **tag) as cache:
        assert hits(cache) == 0


def test_a_hook_that_fails_ends_caching_and_not_the_update(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with engine(folder, **RUN) as cache:
        scheduler = Scheduler(cache)
        with monkeypatch.context() as patch:
            patch.setattr(cache.store._weights, "version", lambda: 1 / 0)
            assert scheduler.from_ipc(weight_version="1").success
        assert write(cache) == 0


def test_an_sglang_whose_updates_are_not_seen_is_mentioned(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    updater: Any = updating.sys.modules[updating._UPDATER]
    monkeypatch.delattr(updater.WeightUpdater, "update_weights_from_ipc")
    with engine(folder):
        assert "does not see updates of the weights in this release of SGLang" in caplog.text


def ways_to_store(make_store: Any) -> dict[str, Callable[[], object]]:
    from sglang.srt.mem_cache.hicache_storage import PoolName, PoolTransfer

    pool = host_pool("mha", "page_first")
    store = make_store(pool, extra=RUN)
    store.register_mem_host_pool_v2(host_pool("mha", "page_first"), PoolName.DRAFT)
    side = [PoolTransfer(name=PoolName.DRAFT, keys=keys(), host_indices=indices())]
    generic = make_store(pool, extra={**RUN, "interface_v1": 0})
    page = pool.get_data_page(0)
    return {
        "v1": lambda: store.batch_set_v1(keys(), indices()),
        "v2": lambda: store.batch_set_v2(side),
        "generic": lambda: generic.batch_set(keys(), [page] * len(keys())),
        "single": lambda: generic.set(keys()[0], page),
    }


@pytest.mark.parametrize("way", ["v1", "v2", "generic", "single"])
def test_every_way_to_store_waits_for_the_flush(
    make_store: Any, cluster: FakeCluster, way: str
) -> None:
    store = ways_to_store(make_store)[way]
    updates._notify(lambda weights: weights.update_began(session=False, empty=False))
    rename("1")
    store()
    assert cluster.pages == {}
    updates._notify(LiveWeights.caches_flushed)
    store()
    assert cluster.pages != {}


def test_every_way_to_read_misses_while_the_weights_have_no_name(
    make_store: Any, cluster: FakeCluster
) -> None:
    from sglang.srt.mem_cache.hicache_storage import PoolName, PoolTransfer

    pool, pages = host_pool("mha", "page_first"), len(keys())
    store = make_store(pool)
    store.register_mem_host_pool_v2(host_pool("mha", "page_first"), PoolName.DRAFT)
    generic = make_store(pool, extra={"interface_v1": 0})
    side = [PoolTransfer(name=PoolName.DRAFT, keys=keys(), host_indices=indices())]

    def found() -> list[object]:
        return [
            store.batch_exists(keys()),
            store.exists(keys()[0]),
            store.batch_exists_v2(keys(), side).kv_hit_pages,
            store.batch_get_v1(keys(), indices()),
            store.batch_get_v2(side)[PoolName.DRAFT],
            [page is not None for page in generic.batch_get(keys())],
            generic.get(keys()[0]) is not None,
        ]

    store.batch_set_v1(keys(), indices())
    store.batch_set_v2(side)
    generic.batch_set(keys(), [pool.get_data_page(0)] * pages)
    hit = [True] * pages
    assert found() == [pages, True, pages, hit, hit, hit, True]
    updates._notify(lambda weights: weights.update_began(session=True, empty=True))
    missed = [False] * pages
    assert found() == [0, False, 0, missed, missed, missed, False]


def test_the_names_of_a_call_cost_little(make_store: Any) -> None:
    """About 0.6 us, fifteen times a call that does nothing. In turns; the quickest count."""
    pages = make_store(host_pool("mha", "page_first"))._kv
    calls = 10_000
    timers = [timeit.Timer(pages.key_prefixes.for_writes), timeit.Timer(lambda: None)]
    took = [[timer.timeit(calls) for timer in timers] for _ in range(20)]
    names, nothing = (min(column) / calls for column in zip(*took, strict=True))
    assert names < 200 * nothing, (names, nothing)

"""Models with several host pools: SGLang's real controller and pools over a real node."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import peercache
import pytest
import torch

from .. import wrong_bytes
from ..conftest import ENGINE
from .conftest import SHM, Cluster
from .processes import Node, extension_folder, installed_package

pytestmark = pytest.mark.node

PAGES, PAGE_SIZE = 64, 16
BACKEND = {
    "backend_name": "peercache",
    "module_path": "peercache.store",
    "class_name": "PeerCacheStore",
    "tag": "hybrid",
}
RANK_SECONDS = 120


@pytest.fixture(scope="module")
def node(cluster: Cluster) -> Iterator[Node]:
    """A node, and host pools in shared memory."""
    import sglang  # noqa: F401 -- installs the stand-ins
    from hicache_engine import shim
    from sglang.srt.runtime_context import get_memory

    folder = str(extension_folder())
    if folder not in peercache.__path__:
        peercache.__path__.append(folder)
    memory = get_memory()
    shared = types.SimpleNamespace(
        hicache_storage_backend="dynamic", hicache_storage_backend_extra_config=json.dumps(SHM)
    )
    shim.publish(memory=shared)
    yield cluster.node("hybrid")
    shim.publish(memory=memory)


@pytest.fixture
def states(node: Node) -> Callable[..., Any]:
    """MLA KV, index keys for each page, and states after some pages only."""

    def make(layout: str = "page_first", v1: int = 1, side_states: bool = False) -> Any:
        from hicache_engine import hostpools, sidepools
        from hicache_engine.hybrid import Hybrid, Side
        from sglang.srt.mem_cache.hicache_storage import PoolName

        kv = hostpools.build("mla", layout, PAGE_SIZE, PAGES * PAGE_SIZE)
        mamba = sidepools.mamba(16, side_states=side_states)
        sides = [
            Side(PoolName.INDEXER, sidepools.indexer(kv)),
            Side(PoolName.MAMBA, mamba, indices_from=None, window=1),
        ]
        return Hybrid(kv, sides, {**BACKEND, "socket": node.socket, "interface_v1": v1})

    return make


@pytest.fixture
def v4(node: Node) -> Callable[..., Any]:
    """DeepSeek-V4: an anchor without memory, compressed KV, a window, and states of the window."""

    def make(layout: str, v1: int) -> Any:
        from hicache_engine import sidepools
        from hicache_engine.hybrid import Hybrid, Side, V4Device
        from sglang.srt.mem_cache.hicache_storage import PoolName

        at = (PAGES, PAGE_SIZE, layout)
        sides = [
            Side(PoolName.DEEPSEEK_V4_C4, sidepools.v4_paged("c4", *at, item_bytes=640)),
            Side(PoolName.DEEPSEEK_V4_C128, sidepools.v4_paged("c128", *at, item_bytes=64)),
            Side(PoolName.SWA, sidepools.v4_paged("swa", *at, item_bytes=512), None, window=2),
            Side(
                PoolName.DEEPSEEK_V4_C4_STATE,
                sidepools.v4_state("c4 state", *at),
                indices_from=PoolName.SWA,
                window=2,
            ),
        ]
        extra = {**BACKEND, "socket": node.socket, "interface_v1": v1}
        return Hybrid(sidepools.v4_anchor(*at), sides, extra, device=V4Device(), model="test/v4")

    return make


def cross(make: Callable[..., Any], seed: int, asked: int, expected: int) -> None:
    """What one engine writes in nodes that end at 5, 12 and 20 pages, another one reads."""
    with make() as writer:
        writer.fill(seed)
        written = writer.backup(seed, [5, 12, 20])
        assert written.pages == 20
    with make() as reader:
        reader.fill(seed + 1)
        read = reader.prefetch(seed, asked)
        assert (read.hit, read.pages) == (expected, expected)
        for side in reader.sides:
            # Of a pool with a window the node that ends there wrote the last pages.
            last = [5, 12, 20].index(expected) if side.window else 0
            ends = [min(side.window, end) for end in (5, 7, 8)]
            begin = sum(ends[:last]) if side.window else 0
            count = ends[last] if side.window else expected
            name = side.name.value
            wrong_bytes.check_pages(read.data[name], written.data[name][begin : begin + count])
        wrong_bytes.check_pages(read.data["kv"], written.data["kv"][:expected])
        assert reader.store.stats()["faults"] == 0
        assert reader.store.faults.counts() == {}


@pytest.mark.parametrize("v1", [1, 0])
@pytest.mark.parametrize("layout", ["page_first", "page_first_direct", "layer_first"])
def test_kv_index_keys_and_sparse_states(states: Callable[..., Any], layout: str, v1: int) -> None:
    seed = 10 + 4 * v1
    cross(lambda: states(layout, v1), seed, asked=25, expected=20)
    cross(lambda: states(layout, v1), seed + 2, asked=19, expected=12)


def test_states_with_side_states_travel_whole(states: Callable[..., Any]) -> None:
    cross(lambda: states(side_states=True), seed=31, asked=20, expected=20)


@pytest.mark.parametrize("v1", [1, 0])
@pytest.mark.parametrize("layout", ["page_first", "layer_first"])
def test_deepseek_v4(v4: Callable[..., Any], layout: str, v1: int) -> None:
    cross(lambda: v4(layout, v1), seed=41 + v1, asked=25, expected=20)


def test_the_presence_of_sparse_states_is_one_question(
    states: Callable[..., Any], node: Node
) -> None:
    def asked() -> tuple[float, float]:
        text = node.metrics()
        return tuple(  # type: ignore[return-value]
            float(re.search(rf"^peercache_{what}_requests_total (\S+)$", text, re.M)[1])  # type: ignore[index]
            for what in ("exists", "presence")
        )

    with states() as engine:
        engine.fill(51)
        assert engine.backup(51, [40]).pages == 40  # 39 of the pages have no state
        before = asked()
        assert engine.prefetch(51, 40).hit == 40
        after = asked()
    assert [now - then for now, then in zip(after, before, strict=True)] == [1, 1]


LONG = 16 << 10  # pages of 16 tokens in a prompt of 262,144
# As long as Python takes to read the hexadecimal alone: a few times where nothing else runs, ten
# beside other work. A question for each page would take a hundred.
LONG_TIMES = 40


def test_a_long_prompt_is_one_short_question(node: Node) -> None:
    """Through the store, as SGLang asks: hashes in hexadecimal, and a pool beside the anchor.

    In turns with what is compared; the quickest of many count: what a machine does besides only
    adds.
    """
    from hicache_engine import sidepools
    from hicache_engine.hybrid import Hybrid, Side, V4Device
    from sglang.srt.mem_cache.hicache_storage import PoolName

    at = (PAGES, PAGE_SIZE, "page_first")
    side = Side(PoolName.DEEPSEEK_V4_C4, sidepools.v4_paged("c4", *at, item_bytes=64))
    extra = {**BACKEND, "tag": "long", "socket": node.socket}
    anchor = sidepools.v4_anchor(*at)
    with Hybrid(anchor, [side], extra, device=V4Device(), model="test/long") as engine:
        keys = engine.hashes(91, LONG)
        rows = torch.arange(PAGES * PAGE_SIZE)
        for begin in range(0, LONG, PAGES):
            part = [side.transfer(keys[begin : begin + PAGES], rows)]
            assert all(engine.store.batch_set_v2(part)[side.name.value])
        took, reading = [], []
        for _ in range(50):
            start = time.perf_counter()
            assert all(bytes.fromhex(key) for key in keys)
            reading.append(time.perf_counter() - start)
            start = time.perf_counter()
            found = engine.store.batch_exists_v2(keys, [side.transfer()])
            took.append(time.perf_counter() - start)
            assert found.kv_hit_pages == LONG
        quickest, alone = 1000 * min(took), 1000 * min(reading)
        print(f"{LONG} pages: {quickest:.2f} ms; to read the hexadecimal: {alone:.2f} ms")
        assert min(took) <= LONG_TIMES * min(reading), (took, reading)


def test_a_transfer_that_cannot_be_done_fails_alone(node: Node) -> None:
    """S5: SGLang backs all pools up in one call, of which one has no rows for its keys."""
    from hicache_engine import hostpools, sidepools
    from hicache_engine.hybrid import Hybrid, Side
    from sglang.srt.mem_cache.hicache_storage import PoolName

    class WithoutRows(Side):
        def transfer(self, keys: Any = None, rows: Any = None) -> Any:
            return super().transfer(keys, None if rows is None else rows[:0])

    def engine(sides: dict[Any, Any]) -> Any:
        kv = hostpools.build("mla", "page_first", PAGE_SIZE, PAGES * PAGE_SIZE)
        made = [Side(PoolName.INDEXER, sidepools.indexer(kv))]
        made += [of(name, sidepools.mamba(16), None, 1) for name, of in sides.items()]
        return Hybrid(kv, made, {**BACKEND, "tag": "alone", "socket": node.socket})

    with engine({PoolName.MAMBA: WithoutRows}) as writer:
        writer.fill(61)
        written = writer.backup(61, [5, 12, 20])
        assert writer.store.faults.counts() == {"batch_set_v2": 3}
    with engine({}) as reader:  # its prompts need no states
        reader.fill(62)
        read = reader.prefetch(61, 25)
    assert (read.hit, read.pages) == (20, 20)
    for name in ("kv", "indexer"):
        wrong_bytes.check_pages(read.data[name], written.data[name])


def test_sglang_says_when_all_pools_are_there(
    states: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    """S6: its controller calls on_host_pools_registered, and a draft's pool comes later."""
    from hicache_engine import hostpools
    from hicache_engine.hybrid import Side
    from sglang.srt.mem_cache.hicache_storage import PoolName

    caplog.set_level("INFO", "peercache")
    with states() as engine:
        said = [r.message for r in caplog.records if "stores the host pools" in r.message]
        assert len(said) == 1
        assert [name in said[0] for name in ("kv (", "indexer (", "mamba (", "draft")] == [
            True,
            True,
            True,
            False,
        ]
        draft = hostpools.build("mha", "page_first", PAGE_SIZE, PAGES * PAGE_SIZE)
        engine.add(Side(PoolName.DRAFT, draft))
        engine.fill(71)
        assert engine.backup(71, [10]).pages == 10
        assert engine.prefetch(71, 10).pages == 10


@pytest.mark.parametrize(
    ("parallel", "name"),
    [
        ({"pp_rank": 1, "pp_size": 2}, "pp1/2 tp0/1 test/hybrid"),
        ({"attn_dp_size": 1, "dp_size": 2, "dp_rank": 1}, "dp1/2 tp0/1 test/hybrid"),
    ],
    ids=["pp", "dp"],
)
def test_the_node_sees_the_ranks_that_sglang_tells(
    states: Callable[..., Any],
    node: Node,
    monkeypatch: pytest.MonkeyPatch,
    parallel: dict[str, int],
    name: str,
) -> None:
    """S8: what the real controller tells of its process."""
    from sglang.srt.runtime_context import get_parallel

    for field, value in parallel.items():
        monkeypatch.setattr(get_parallel(), field, value, raising=False)
    with states():
        (engine,) = node.status()["engines"]
        assert engine["name"].split(" ", 1)[1] == name


def test_faults_that_sglang_injects_cost_hits_and_no_bytes(
    states: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SGLANG_TEST_HICACHE_BACKEND_RANDOM_DELAY", "0.002")
    monkeypatch.setenv("SGLANG_TEST_HICACHE_BACKEND_RANDOM_FAILURE", "0.2")
    written: dict[int, Any] = {}
    restored = 0
    with states() as engine:
        assert type(engine.controller.storage_backend).__name__ == "HiCacheStorageFailureInjector"
        for seed in range(100, 130):
            engine.fill(seed)
            written[seed] = engine.backup(seed, [6, 10])
        for seed in written:
            engine.fill(0)
            read = engine.prefetch(seed, 10)
            for name in ("kv", "indexer"):
                want = written[seed].data[name][: read.pages]
                wrong_bytes.check_pages(read.data.get(name, []), want)
            if read.pool_hits.get("mamba"):
                state = {6: 0, 10: 1}[read.hit]
                want = [written[seed].data["mamba"][state]]
                wrong_bytes.check_pages(read.data["mamba"], want)
            restored += read.pages
        assert engine.store.faults.counts() == {}
    assert restored > 0


@pytest.fixture
def ranks(node: Node, tmp_path: Path) -> Callable[..., list[dict[str, Any]]]:
    """Two TP ranks of an MLA model with a draft of its own heads; what each has printed."""

    def run(*flags: str) -> list[dict[str, Any]]:
        extra = {**BACKEND, **SHM, "socket": node.socket, "tag": tmp_path.name}
        path = os.pathsep.join(map(str, (ENGINE / "python", installed_package(tmp_path))))
        command = [sys.executable, "-m", "hicache_engine.tp_rank"]
        meeting = [str(tmp_path / "ranks"), json.dumps(extra), *flags]
        running = [
            subprocess.Popen(
                [*command, str(rank), "2", *meeting],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env={**os.environ, "PYTHONPATH": path},
            )
            for rank in range(2)
        ]
        try:
            ended = [process.communicate(timeout=RANK_SECONDS) for process in running]
        finally:
            for process in running:
                process.kill()
        for process, (_, errors) in zip(running, ended, strict=True):
            assert process.returncode == 0, errors[-4000:]
        return [{**json.loads(out), "log": errors} for out, errors in ended]

    return run


def test_each_tp_rank_stores_the_heads_of_its_draft(
    ranks: Callable[..., list[dict[str, Any]]],
) -> None:
    for answer in ranks():
        assert (answer["written"], answer["hit"], answer["restored"]) == (40, 40, 40)
        assert sorted(answer["same"]) == ["draft", "draft_swa", "kv"]
        for pool, same in answer["same"].items():
            wrong_bytes.check_none(int(not same), f"of {pool}: {answer['log']}")
        assert answer["faults"] == {}


def test_without_sglangs_hooks_a_rank_says_once_what_is_lost(
    ranks: Callable[..., list[dict[str, Any]]],
) -> None:
    first, second = ranks("--no-hooks")
    assert (first["hit"], second["hit"]) == (0, 0), "the ranks agree on the shortest prefix"
    assert "finds nothing in L3" not in first["log"], "rank 0 stores its own"
    assert second["log"].count("finds nothing in L3") == 1, second["log"][-4000:]
    assert "use SGLang 0.5.23, TP size 1, or no draft model" in second["log"]

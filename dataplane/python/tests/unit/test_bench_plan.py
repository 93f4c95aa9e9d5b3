"""peercache-bench: which cases a subcommand measures."""

from __future__ import annotations

from dataclasses import replace

import pytest
from peercache_bench import plan
from peercache_bench.case import Case
from peercache_bench.commands import needed_bytes, node_options, pool_bytes
from peercache_bench.options import Settings

SMALL = Settings(working_set=64, page_bytes=4096, threads=(1, 3), operations=("set", "get"))


def test_throughput_is_every_operation_by_threads_and_processes() -> None:
    cases = plan.throughput(replace(SMALL, layouts=("mla", "mha"), processes=(1, 2)))
    assert len(cases) == len(set(cases)) == 2 * 2 * 2 * 2
    assert {(c.layout, c.segments) for c in cases} == {("mla", 1), ("mha", 2)}


def test_segments_replace_those_of_the_layout() -> None:
    assert {c.segments for c in plan.throughput(replace(SMALL, segments=16))} == {16}


def test_latency_has_single_pages_and_batches() -> None:
    assert {c.batch for c in plan.latency(SMALL)} == {1, 32}
    assert len(plan.latency(replace(SMALL, batch=1, threads=(1,)))) == 2


def test_lookups_are_the_same_calls_by_both_ways() -> None:
    rpc, one_sided = (plan.lookups(SMALL)[how] for how in ("rpc", "one-sided"))
    assert [replace(case, lookups="") for case in rpc] == plan.latency(SMALL)
    assert [replace(case, lookups="rpc") for case in one_sided] == rpc
    assert rpc[0].title != one_sided[0].title


def test_sweep_fits_into_memory() -> None:
    cases = plan.sweep(Settings(operations=("get",), threads=(2,)))["tcp"]
    assert [c.page_bytes for c in cases] == [4096 << i for i in range(13)]
    for case in cases:
        assert case.batch * case.page_bytes <= plan.BATCH_BYTES
        assert case.batch * case.threads <= case.pages
        assert case.pages * case.page_bytes <= 1 << 29


def test_sweep_is_the_same_sizes_by_each_protocol() -> None:
    by = plan.sweep(replace(SMALL, protocols=("tcp", "rdma")))
    assert [replace(case, transport="tcp") for case in by["rdma"]] == by["tcp"]
    assert {case.transport for case in by["rdma"]} == {"rdma"}
    assert by["rdma"][0].title == "SET 4 KiB x 32 over rdma"
    limit = by["rdma"][0].limit()
    assert limit is not None
    assert limit.title == "memcpy 4 KiB x 32"


def test_limits_move_the_same_pages() -> None:
    remote = Case("get", threads=2, processes=3, segments=2, layout="mha")
    limit = remote.limit()
    assert limit is not None
    assert (limit.op, limit.threads, limit.processes) == ("tcp", 6, 1)
    assert (limit.segments, limit.batch, limit.pages) == (2, remote.batch, remote.pages)
    for case in (Case("set"), Case("get", source="local")):
        bound = case.limit()
        assert bound is not None
        assert bound.op == "memcpy"
    assert Case("exists").limit() is None


def test_shares_are_disjoint() -> None:
    assert plan.shares(Case("get", pages=10, processes=3)) == [(0, 3), (3, 3), (6, 3)]


def test_requests_one_by_one_together_and_by_window() -> None:
    cases = plan.requests(replace(SMALL, sizes=(4096,), requests=(1, 100), windows=(2, 4)))
    assert len(cases) == len(set(cases)) == 2 * (2 * 3 + 2)
    assert all(c.pages >= 100 and c.batch == 1 for c in cases), "one page a request"
    windowed = [c for c in cases if c.mode == "windowed"]
    assert {(c.requests, c.window) for c in windowed} == {(100, 2), (100, 4)}
    assert windowed[0].title == "SET windowed 4 KiB x 100, window 2"
    limit = windowed[0].limit()
    assert limit is not None
    assert (limit.op, limit.batch) == ("memcpy", 100)


def test_saturation_goes_on_beyond_the_threads_that_were_named() -> None:
    many = replace(SMALL, working_set=1 << 20, operations=("get",), processes=(1, 8))
    starts = list(plan.saturation_starts(many))
    assert [case.processes for case, _ in starts] == [1, 8]
    assert starts[0][1] == [1, 3, 6, 12, 24, 48, 96, 192]
    assert starts[1][1] == [1, 3, 6, 12, 24]
    ((_, threads),) = plan.saturation_starts(replace(many, working_set=256, processes=(1,)))
    assert threads == [1, 3, 6], "a batch of 32 for every thread"


@pytest.mark.parametrize(
    ("rates", "over"),
    [
        ([1.0], False),
        ([1.0, 1.0], False),
        ([1.0, 1.0, 1.0], True),
        ([1.0, 0.9, 1.2], False),
        ([1.0, 2.0, 2.02, 2.05], True),
        ([1.0, 2.0, 1.0, 2.5], False),
    ],
)
def test_saturated_needs_two_steps_without_gain(rates: list[float], over: bool) -> None:
    assert plan.saturated(rates) is over


def test_the_peak_is_the_first_of_equals() -> None:
    assert plan.peak([1.0, 2.0, 2.01, 1.5]) == 1


def test_nodes_have_room_for_what_rests_in_quarantine() -> None:
    cases = [Case("get", pages=1024, page_bytes=1 << 20), Case("get", pages=1)]
    assert pool_bytes(cases) >= 2 << 30
    assert needed_bytes(cases) >= 4 << 30
    assert pool_bytes([]) > 0


def test_node_options() -> None:
    assert node_options(SMALL, {}) == {"promotion-percent": "0"}
    assert node_options(replace(SMALL, dir_cache_ttl=0.25), {})["dir-cache-ttl-ms"] == "250"
    assert node_options(SMALL, {"promotion-percent": "5"}) == {"promotion-percent": "5"}


def test_titles_name_what_differs() -> None:
    assert Case("get", threads=4).title == "GET remote 128 KiB x 32, 4 threads"
    assert Case("set", segments=2, layout="mha").title == "SET 128 KiB x 32 mha"
    assert Case("exists", source="local").title == "EXISTS local x 32"
    assert Case("pingpong").title == "bare TCP ping-pong"
    assert Case.from_json({**Case("set").to_json(), "later": 1}) == Case("set")

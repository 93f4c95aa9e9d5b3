"""peercache-bench disk: what is asked of fio, what is made of its figures, what is published."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from peercache_bench import disk_pairs, disk_report, fio
from peercache_bench.disk_hits import disk_bytes
from peercache_bench.disk_recovery import a_million
from peercache_bench.disk_trace import Request, parse, simulate
from peercache_bench.errors import BenchError
from peercache_bench.rows import Row
from peercache_bench.speed import Speed

JOB = fio.Job(Path("/mnt/fio"), "libaio", "read", 131072, 16, 1 << 20, 1 << 30)


def printed(**job: object) -> str:
    side = {"io_bytes": 2_000_000_000, "runtime": 1000}
    made = {"read": side, "usr_cpu": 5.0, "sys_cpu": 15.0, "job_runtime": 1000, **job}
    return "fio: a warning\n" + json.dumps({"jobs": [made]})


def test_fio_passes_over_each_block_once_around_the_page_cache() -> None:
    words = fio.command(JOB)
    for word in ("--rw=randread", "--bs=131072", "--iodepth=16", "--ioengine=libaio", "--direct=1"):
        assert word in words
    assert "--offset=1048576" in words
    assert "--size=1073741824" in words


def test_figures_of_fio_are_by_its_own_clock() -> None:
    assert fio.parse(printed(), "read") == Speed(2.0, 0.1)


@pytest.mark.parametrize("output", ["", "fio: no such engine", '{"jobs": []}', "{"])
def test_an_fio_without_figures_is_an_error(output: str) -> None:
    with pytest.raises(BenchError, match="fio printed no figures"):
        fio.parse(output, "read")


def test_no_bytes_are_no_figure() -> None:
    with pytest.raises(BenchError, match="measure more bytes"):
        fio.parse(printed(read={"io_bytes": 0, "runtime": 0}), "read")


def test_fio_takes_the_engine_of_the_tier() -> None:
    assert fio.engine_of("io_uring") == "io_uring"
    assert fio.engine_of("aio, because io_uring is forbidden") == "libaio"
    with pytest.raises(BenchError, match="io_uring or aio"):
        fio.engine_of("threads, because nothing else works")


def test_a_missing_fio_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(BenchError, match="install the package fio"):
        fio.need_fio()


def test_the_laps_of_each_operation_have_rows_of_their_own() -> None:
    rows = disk_pairs.rows_of(128 << 10)
    assert rows["read", "first lap"].name == "disk reads of 128 KiB, first lap"
    assert rows["write", "later laps"].target == 0.90
    assert "copy" in rows["write", "cpu"].limit_name
    assert "copy" not in rows["read", "cpu"].limit_name
    assert [row.name for row in rows.values() if not row.held] == [
        "disk writes of 128 KiB, beside 256 KiB x 2"
    ]


def test_what_is_published_says_whether_goals_are_met() -> None:
    met, missed = (Row(name, "GB/s", "fio", 0.9) for name in ("met", "missed"))
    met.add(1.0, 0.95)
    missed.add(1.0, 0.5)
    host = {"cores": 2, "cpu": "a processor", "kernel": "6", "load_before": 0.1, "date": "today"}
    run = disk_report.Run(host, 5, 1 << 30, 60.0)
    lines = disk_report.document([met, missed], run).splitlines()
    assert [line.split("|")[-2].strip() for line in lines if "fio" in line] == ["ok", "MISS"]
    assert [row["passed"] for row in disk_report.values([met, missed], run)["rows"]] == [
        True,
        False,
    ]
    chart = disk_report.chart([met, missed])
    assert chart.bars == (("met (≥ 0.90)", 0.95), ("missed (≥ 0.90)", 0.5))
    assert chart.targets == (0.9, 0.9)


def test_traces_of_both_kinds() -> None:
    assert parse(["# a comment", "c 1:2 7:1 +9:2"]) == [Request((1, 2, 7), (9, 10))]
    assert parse(['{"timestamp": 0, "hash_ids": [3, 1]}']) == [Request((3, 1))]
    for line in ("c 1:x", "c 1", '{"ids": []}', "{"):
        with pytest.raises(BenchError, match="line 2 of the trace"):
            parse(["c 1:1", line])


def test_a_disk_keeps_what_memory_has_lost() -> None:
    once = [Request((n,)) for n in range(4)]
    assert simulate([*once, Request((0,))], memory=2, disk=0) == 0
    assert simulate([*once, Request((0,))], memory=2, disk=4) == 1 / 5
    assert simulate([*once, Request((3,))], memory=2, disk=0) == 1 / 5


def test_a_page_that_is_absent_cuts_a_prefix() -> None:
    assert simulate([Request((1,)), Request((2, 1))], memory=9, disk=0) == 0
    assert simulate([Request((1,), (2,)), Request((1, 2))], memory=9, disk=0) == 2 / 3


def test_what_was_read_from_disk_is_kept_when_its_turn_to_go_comes() -> None:
    fill = [Request((n,)) for n in (1, 2, 3)]
    # 1 is read from disk, then written anew when 4 needs room: 2 goes instead.
    trace = [*fill, Request((1,)), Request((4,)), Request((5,)), Request((1,))]
    assert simulate(trace, memory=1, disk=3) == 2 / 7
    assert simulate([*fill, Request((4,)), Request((5,)), Request((1,))], memory=1, disk=3) == 0


def test_a_disk_for_so_many_pages_has_regions_to_spare() -> None:
    region = 64 << 20
    assert disk_bytes(1020) == (1 << 20) + 4 * region
    assert disk_bytes(1021) == (1 << 20) + 5 * region


def test_recovery_is_told_for_a_million_pages() -> None:
    assert a_million(0.5, 250_000) == 2

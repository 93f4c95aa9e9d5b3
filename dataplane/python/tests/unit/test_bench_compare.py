"""peercache-bench: runs side by side, and what two hosts tell each other."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from peercache_bench import compare, output, two_hosts
from peercache_bench.__main__ import main
from peercache_bench.case import Case
from peercache_bench.errors import BenchError
from peercache_bench.options import Settings

from .test_bench_output import get, run

OLD = run("throughput", get(1), get(2), tag="old")
NEW = run("throughput", get(2, gb_per_s=3.0), get(4), tag="new")


def test_cases_of_several_runs_come_first() -> None:
    assert [c.threads for c in compare.cases_of([OLD, NEW])] == [2, 1, 4]


def test_rates_stand_beside_the_limits_of_their_own_run() -> None:
    first, second, third = compare.table(["old", "new"], [OLD, NEW]).splitlines()[2:]
    assert [cell.strip() for cell in first.strip("|").split("|")][1:] == [
        "GB/s", "2", "0.50", "3", "0.75", "1.50",
    ]  # fmt: skip
    assert second.count(" - ") == 3, "the new run has no such case"
    assert third.count(" - ") == 3


def test_another_working_set_is_another_case() -> None:
    other = replace(get(1), case=replace(Case("get"), pages=1))
    assert len(compare.cases_of([OLD, run("throughput", other)])) == 3


def test_the_charts_of_a_comparison() -> None:
    limits, against = compare.charts(["old", "new"], [OLD, NEW])
    assert len(limits.bars) == 4
    assert [value for _, value in against.bars] == [1.5]


def test_names_differ() -> None:
    paths = [Path("/a/x.json"), Path("/b/x.json"), Path("/b/y.json")]
    found = compare.names(paths, [OLD, OLD, OLD])
    assert found == ["a/throughput-old", "b/throughput-old", "b/throughput-old 3"]


def test_compare_reads_folders_and_leaves_its_own_results_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output.write(OLD, tmp_path / "a")
    output.write(NEW, tmp_path / "a")
    (tmp_path / "a" / "else.json").write_text("[]")
    for _ in range(2):
        assert main(["compare", str(tmp_path / "a"), f"--out-dir={tmp_path / 'a'}"]) == 0
    values = json.loads((tmp_path / "a" / "compare.json").read_text())
    assert [r["name"] for r in values["runs"]] == ["throughput-new", "throughput-old"]
    assert "GET remote" in capsys.readouterr().out


def test_what_cannot_be_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BenchError, match="holds no result"):
        compare.files_of([tmp_path])
    output.write(OLD, tmp_path)
    assert main(["compare", str(tmp_path)]) == 1
    assert "is one result" in capsys.readouterr().err
    assert main(["compare", str(tmp_path / "missing.json")]) == 1
    assert "missing.json cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("0.0.0.0:31998", "10.0.0.7:31998"),
        (":31998", "10.0.0.7:31998"),
        ("10.1.1.1:4000", "10.1.1.1:4000"),
        ("kv.example:4000", "kv.example:4000"),
    ],
)
def test_a_wildcard_is_this_host(text: str, address: str) -> None:
    assert two_hosts.discovery(text, "10.0.0.7") == address


@pytest.mark.parametrize("text", ["", "host", "host:", "host:x", "host:0", "host:70000"])
def test_a_wrong_address_names_its_flag(text: str) -> None:
    with pytest.raises(ValueError, match="--discovery-addr"):
        two_hosts.discovery(text, "10.0.0.7")


def test_serve_says_what_to_run_with_the_same_pages() -> None:
    settings = Settings(page_bytes=1 << 20, working_set=77, layouts=("mha",), batch=128)
    words = shlex.split(two_hosts.drive_command("h:1", settings, "other", 7, {"io-threads": "4"}))
    assert words[:4] == ["peercache-bench", "drive", "--discovery-addr", "h:1"]
    said = dict(zip(words[2::2], words[3::2], strict=True))
    assert said["--page-size"] == str(1 << 20)
    assert said["--working-set"] == "77"
    assert said["--cluster"] == "other"
    assert said["--bare-port"] == "7"
    assert said["--node-option"] == "io-threads=4"


def test_only_drives_come_and_go() -> None:
    seen = {"serve-a-1", "drive-b-2", "drive-b-3", "n1"}
    assert two_hosts.come_and_gone(seen, {"serve-a-1", "drive-b-3"}) == {"drive-b-2"}


@pytest.mark.parametrize(
    ("words", "said"), [(["--op=set"], "--op set"), (["--source=local"], "--source local")]
)
def test_drive_reads_what_others_hold(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["drive", "--discovery-addr=h:1", *words])
    assert said in capsys.readouterr().err


def test_pages_that_rdma_did_not_bring_are_said() -> None:
    before = {"rdma": 100, "tcp": 50, "local": 7}
    assert two_hosts.fallback(before, {"rdma": 1100, "tcp": 55, "local": 7}) == ""
    said = two_hosts.fallback(before, {"rdma": 200, "tcp": 150, "local": 7, "disk": 0})
    assert said.startswith("50.0% of the pages came over TCP")
    assert two_hosts.fallback(before, before) == ""

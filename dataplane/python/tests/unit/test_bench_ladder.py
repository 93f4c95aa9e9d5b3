"""peercache-bench ladder: its steps, what it hands to peercache-perf, and what it shows."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest
from peercache_bench import ladder
from peercache_bench.__main__ import main
from peercache_bench.errors import BenchError

RESULT = {"pages": 160, "rails": 1, "gb_per_s": 24.5, "latency_us": {"p50": 10.0, "p99": 20.25}}


@pytest.fixture
def perf(tmp_path: Path) -> Path:
    """A peercache-perf that keeps what it was called with, and says a result."""
    path = tmp_path / "peercache-perf"
    result = str(RESULT).replace("'", '"')
    path.write_text(f"#!/bin/sh\necho \"$@\" >>{tmp_path}/called\necho '{result}'\n")
    path.chmod(0o755)
    return path


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    ladder.add_command(parser.add_subparsers())
    return parser.parse_args(["ladder", *words])


def test_each_step_adds_one_thing() -> None:
    one = ladder.steps(1, 1 << 30)
    assert {step.ports for step in one} == {1}
    assert [step.options.get("queues") for step in one][:4] == [1, 2, 4, None]
    assert [step.name for step in one if step.options.get("window")] == [
        "without pauses between batches"
    ]
    assert len({step.name for step in one}) == len(one)
    many = ladder.steps(6, 1 << 30)
    assert many[: len(one)] == one, "one port comes first"
    assert [step.ports for step in many[len(one) :]] == [2, 4, 6, 6, 6, 6]


def test_both_sides_go_through_the_same_steps(
    perf: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--pool=1m", "--bytes=1m", "--batch-size=4", f"--build={perf.parent}"]
    called = perf.parent / "called"
    assert main(["ladder", "--devices=a0,a1", *flags]) == 0
    serving = called.read_text().splitlines()
    assert "16 of 16" in capsys.readouterr().out
    called.unlink()
    assert main(["ladder", "--devices=b0,b1", *flags, "hostA"]) == 0
    climbing = called.read_text().splitlines()
    assert sum("--batch 4 " in line and "--window" in line for line in climbing) == 1
    assert sum("--ece true" in line for line in climbing) == 1
    there = [line.replace("b0", "a0").replace("b1", "a1") for line in climbing]
    assert there == [f"{line} --host hostA" for line in serving]
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split()[:2] == ["step", "GB/s"]
    rows, bounds = rows[:16], rows[16:]
    assert bounds[:2] == ["", "what bounds each step, as far as this host shows:"]
    assert [line.partition("  ")[0] for line in bounds[2:]] == [
        line.partition("  ")[0] for line in rows
    ]
    assert rows[0].split() == ["one", "queue", "pair", "24.50", "-", "-", "10.0", "20.2"]


def test_the_rate_of_a_port_is_the_limit(tmp_path: Path) -> None:
    port = tmp_path / "class/infiniband/mlx5_0/ports/2"
    port.mkdir(parents=True)
    (port / "rate").write_text("400 Gb/sec (4X NDR)\n")
    assert ladder.port_rate("mlx5_0:2", tmp_path) == 50
    assert ladder.port_rate("mlx5_0", tmp_path) == 0
    step = ladder.Step("whole")
    assert ladder.row(step, RESULT, 50, 25.0)[:4] == ("whole", "24.50", "0.49", "25.00")


def test_ib_read_bw_is_read() -> None:
    table = (
        " #bytes #iterations BW peak[Gb/sec] BW average[Gb/sec] MsgRate[Mpps]\n"
        " 131072 1000 0.00 392.00 0.37\n"
    )
    assert ladder.bare_rate(table) == 49
    with pytest.raises(BenchError, match="no rate: refused"):
        ladder.bare_rate("refused")


def test_ib_read_bw_goes_in_the_same_class_and_the_steps_are_kept(
    perf: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bare = tmp_path / "ib_read_bw"
    bare.write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/bare\necho 131072 1 0 392.0 0.4\n')
    bare.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    out = tmp_path / "steps.json"
    flags = ["--devices=b0", "--traffic-class=104", "--gid=10.1.0.0/16", "--bare=-x 3"]
    line = ["ladder", *flags, f"--out={out}", f"--build={perf.parent}", "hostA"]
    assert main(line) == 0
    assert all("--tclass=104 -x 3 hostA" in said for said in (tmp_path / "bare").open())
    assert all(
        "--gid 10.1.0.0/16 --traffic-class 104" in said for said in (tmp_path / "called").open()
    )
    kept = json.loads(out.read_text())
    assert kept[0]["step"] == "one queue pair"
    assert (kept[0]["rate"], kept[0]["bare"]) == (24.5, 49)
    assert all(step["bound"] for step in kept)
    assert main(line) != 0, "nothing that was measured is written over"


@pytest.mark.parametrize("given", ["256", "-1", "cs3"])
def test_a_class_that_no_packet_has_is_refused(
    perf: Path, capsys: pytest.CaptureFixture[str], given: str
) -> None:
    with pytest.raises(SystemExit):
        main(["ladder", "--devices=a0", f"--traffic-class={given}", f"--build={perf.parent}"])
    assert f'"{given}" is not a traffic class from 0 to 255' in capsys.readouterr().err


def test_bad_flags_are_errors(perf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ladder", "--devices=a0", "--ports=2", f"--build={perf.parent}"]) != 0
    assert "--ports 2: --devices names 1" in capsys.readouterr().err
    perf.write_text("#!/bin/sh\necho no such device >&2\nexit 1\n")
    assert main(["ladder", "--devices=a0", f"--build={perf.parent}"]) != 0
    assert "no such device" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("says", "again"), [("connecting: Connection refused", True), ("READs failed", False)]
)
def test_only_who_does_not_listen_yet_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, again: bool
) -> None:
    monkeypatch.setattr(ladder, "PATIENCE_SECONDS", 0.5)
    called = tmp_path / "called"
    line = ["sh", "-c", f"echo >>{called}; echo '{says}' >&2; exit 1"]
    with pytest.raises(BenchError, match=says):
        ladder.attempt(line, climbs=True)
    assert (len(called.read_text()) > 1) == again

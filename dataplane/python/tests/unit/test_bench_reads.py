"""peercache-bench read: what it hands to peercache-perf, and what it shows."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest
from peercache_bench import bare_reads
from peercache_bench.__main__ import main

RESULT = {"pages": 160, "rails": 2, "gb_per_s": 1.5, "latency_us": {"p50": 10.0, "p99": 20.25}}


@pytest.fixture
def perf(tmp_path: Path) -> Path:
    """A peercache-perf that logs, and says what it was called with as a result does."""
    path = tmp_path / "peercache-perf"
    result = str(RESULT).replace("'", '"')
    path.write_text(f"#!/bin/sh\necho \"$@\" >{tmp_path}/called\necho log\necho '{result}'\n")
    path.chmod(0o755)
    return path


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    bare_reads.add_command(parser.add_subparsers())
    return parser.parse_args(["read", *words])


def test_the_reader_shows_a_row_as_ib_read_bw_does(
    perf: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--devices=rxe0", "--page-size=64k", "--batch-size=16", "--reads=160"]
    words.append("--traffic-class=104")
    assert main(["read", *words, f"--build={perf.parent}", "hostA"]) == 0
    called = (perf.parent / "called").read_text().split()
    assert called[0] == "rdma-read"
    given = dict(zip(called[1::2], called[2::2], strict=True))
    assert given == {
        "--bytes": "65536",
        "--batch": "16",
        "--reads": "160",
        "--port": "18515",
        "--gid": "auto",
        "--traffic-class": "104",
        "--devices": "rxe0",
        "--host": "hostA",
    }
    header, row = capsys.readouterr().out.splitlines()
    assert header.split() == ["#bytes", "#READs", "depth", "rails", "GB/s", "p50[us]", "p99[us]"]
    assert row.split() == ["65536", "160", "16", "2", "1.500", "10.0", "20.2"]


def test_without_a_host_it_waits_to_be_read_from(
    perf: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["read", "--port=7", f"--build={perf.parent}"]) == 0
    assert "--host" not in (perf.parent / "called").read_text()
    assert capsys.readouterr().out == "waiting for a reader at port 7\n"


def test_what_goes_wrong_is_an_error(perf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    perf.write_text("#!/bin/sh\nexit 1\n")
    assert main(["read", f"--build={perf.parent}"]) == 1
    assert "rdma-read" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        parsed("--page-size=none")

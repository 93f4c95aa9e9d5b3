"""peercache-bench on real nodes: every subcommand with a small load, every byte checked."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, TextIO

import pytest
from peercache_bench.__main__ import main
from peercache_bench.binaries import find
from peercache_bench.errors import BenchError
from peercache_bench.nodes import loopback_nodes
from peercache_bench.perf import Perf

from ..conftest import PYTHON
from ..patience import HANG_SECONDS
from .processes import binary, free_port

pytestmark = pytest.mark.node

PAGES = ("--page-size=16k", "--working-set=64", "--batch-size=8")
TINY = (*PAGES, "--duration=0.1", "--warmup=0", "--check", "--node-option=lease-ms=100")


def bench(folder: Path, command: str, *words: str) -> dict[str, Any]:
    """Runs a subcommand, and returns what it has written as JSON."""
    build = binary().parent
    assert main([command, f"--build={build}", f"--out-dir={folder}", *words]) == 0
    report = (folder / f"{command}.html").read_text()
    assert report.rstrip().endswith("</html>")
    values: dict[str, Any] = json.loads((folder / f"{command}.json").read_text())
    return values


def cases(values: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [(r["case"]["op"], r["case"]["batch"], r["case"]["threads"]) for r in values["results"]]


def assert_right(values: dict[str, Any], *checked: str, hits: float = 1) -> None:
    """All pages are there with the right bytes, and every result has all its figures."""
    assert values["host"]["cores"] >= 1
    assert values["configuration"]["seconds"] == 0.1
    for result in values["results"]:
        figures, op = result["figures"], result["case"]["op"]
        assert set(figures["latency_us"]) == {"p50", "p95", "p99", "p999", "max"}, result["title"]
        assert figures["calls_per_s"] > 0
        if op in ("set", "get", "exists"):
            assert figures["hit_ratio"] >= hits, result["title"]
            assert figures["tokens_per_s"] > 0
        if op in checked:
            assert figures["checked"], result["title"]
            assert figures["wrong"] == 0, result["title"]


def test_check_notices_wrong_bytes() -> None:
    """Keys from 8 on are given the content of the first eight pages, which the window holds."""
    perf = Perf(binary().parent)
    pages = {"page_bytes": 4096, "pages": 16, "batch": 8, "seconds": 0}
    with loopback_nodes(binary().parent, {"own": "64Mi"}) as nodes:
        at = {**pages, "socket": nodes["own"].socket}
        perf("set", **at, window=8)
        assert perf("get", **at, check=True)["wrong"] == 8
        for mode in ("sync", "async", "batch"):
            assert perf("async", **at, mode=mode, check=True)["wrong"] == 8, mode


def test_turns_take_as_many_calls_as_they_are_told(tmp_path: Path) -> None:
    pages = ("--page-bytes=4096", "--pages=16", "--batch=8")
    with loopback_nodes(binary().parent, {"own": "64Mi"}) as nodes:
        perf, at = find("peercache-perf", binary().parent), f"--socket={nodes['own'].socket}"

        def turns(*words: str, fds: tuple[int, ...] = ()) -> subprocess.CompletedProcess[str]:
            command = [perf, "turns", at, *pages, *words]
            return subprocess.run(
                command,
                input="3\n1\n",
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
                pass_fds=fds,
            )

        missing = turns()
        assert missing.returncode == 1
        assert "24 of 24 pages are missing" in missing.stderr
        Perf(binary().parent)(
            "set", socket=nodes["own"].socket, page_bytes=4096, pages=16, seconds=0
        )
        before = nodes["own"].counters()["read_requests"]
        seconds = [float(line) for line in turns().stdout.split()]
        assert len(seconds) == 2
        assert all(0 < s < 60 for s in seconds)
        assert nodes["own"].counters()["read_requests"] - before == 4 * 8

        keys = tmp_path / "keys"
        keys.write_bytes(bytes(16 * 32))
        assert "24 of 24 pages are missing" in turns(f"--keys={keys}").stderr  # nobody set zeros
        keys.write_bytes(bytes(15 * 32))
        short = turns(f"--keys={keys}").stderr
        assert f"{keys} (--keys) does not have 16 keys of 32 bytes" in short

        memory = os.memfd_create("engine")
        try:
            at_memory = f"--host-pool=/dev/fd/{memory}"
            small = turns("--window=16", at_memory, fds=(memory,))
            assert small.returncode == 1
            assert "not inside the file of 0 bytes" in small.stderr
            os.truncate(memory, 16 * 4096)
            assert turns("--window=16", at_memory, fds=(memory,)).returncode == 0
            assert all(any(os.pread(memory, 4096, at * 4096)) for at in range(16))
        finally:
            os.close(memory)


def test_a_repeated_measurement_is_the_whole_measurement_each_time() -> None:
    perf = Perf(binary().parent)
    pages = {"page_bytes": 4096, "pages": 16, "batch": 8, "seconds": 0}
    with loopback_nodes(binary().parent, {"own": "64Mi"}) as nodes:
        at = {**pages, "socket": nodes["own"].socket}
        perf("set", **at)
        with (
            perf.repeated("get", **at, window=16, check=True) as read,
            perf.repeated("memcpy", **{**pages, "seconds": 0.1}) as copied,
            perf.repeated("tcp", **{**pages, "seconds": 0.1}) as sent,
        ):
            for _ in range(3):
                got = read()
                assert (got["pages"], got["hits"], got["wrong"]) == (16, 16, 0)
                assert copied()["gb_per_s"] > 0
                assert sent()["gb_per_s"] > 0
        assert nodes["own"].counters()["read_requests"] == 3 * 16
    with (
        perf.repeated("get", **at) as read,
        pytest.raises(BenchError, match="is peercached running"),
    ):
        read()


def test_throughput(tmp_path: Path) -> None:
    words = ("--op=all", "--concurrencies=1,2", "--layout=mha")
    values = bench(tmp_path, "throughput", *TINY, *words)
    ops = ("set", "exists", "get")
    assert cases(values) == [(op, 8, threads) for op in ops for threads in (1, 2)]
    assert_right(values, "set", "get")
    limits = {r["case"]["op"]: r["limit"] and r["limit"]["name"] for r in values["results"]}
    assert limits == {"set": "memcpy", "exists": None, "get": "bare TCP"}
    assert all(r["figures"]["cpu_s"] > 0 for r in values["results"])


def test_latency(tmp_path: Path) -> None:
    words = ("--op=get", "--no-limits", "--source=local", "--repeat=2")
    values = bench(tmp_path, "latency", *TINY, *words)
    assert cases(values) == [("get", 1, 1), ("get", 8, 1)]
    assert_right(values, "get")
    assert all(r["notes"] for r in values["results"]), "the repetitions"


def test_saturation(tmp_path: Path) -> None:
    words = ("--no-limits", "--processes=2", "--working-set=512", "--batch-size=1")
    values = bench(tmp_path, "saturation", *TINY, *words)
    # Where a hundred threads want two cores, calls that wait for too long are misses.
    assert_right(values, "get", hits=0)
    assert values["results"][0]["figures"]["hit_ratio"] > 0
    threads = [r["case"]["threads"] for r in values["results"]]
    assert threads == [1 << i for i in range(len(threads))]
    assert [r["notes"] for r in values["results"]].count(["the peak"]) == 1


def test_suite(tmp_path: Path) -> None:
    words = ("--no-limits", "--concurrencies=1,2", "--layout=both", "--source=local")
    values = bench(tmp_path, "suite", *TINY, *words)
    assert_right(values, "set", "get")
    seen = {(r["case"]["op"], r["case"]["layout"], r["case"]["batch"]) for r in values["results"]}
    assert seen == {
        (o, y, b) for o in ("set", "exists", "get") for y in ("mla", "mha") for b in (1, 8)
    }


def test_micro(tmp_path: Path) -> None:
    values = bench(tmp_path, "micro", *TINY, "--concurrencies=1", "--in-flight=16")
    ops = [r["case"]["op"] for r in values["results"]]
    assert ops == ["memcpy", "tcp", "pingpong", "rpc-latency", "rpc-rate"]
    assert all(r["figures"]["calls_per_s"] > 0 for r in values["results"])


def test_sweep(tmp_path: Path) -> None:
    # Where there are no RDMA devices, auto is TCP.
    values = bench(tmp_path, "sweep", *TINY, "--sizes=4k,1m", "--protocol=tcp,auto")
    seen = [
        (r["case"]["transport"], r["case"]["op"], r["case"]["page_bytes"])
        for r in values["results"]
    ]
    assert seen == [
        (how, op, size)
        for how in ("tcp", "auto")
        for op in ("set", "get")
        for size in (4096, 1 << 20)
    ]
    assert_right(values, "set", "get")


def test_async(tmp_path: Path) -> None:
    words = ("--sizes=16k", "--requests=1,20", "--windows=3", "--op=set,get", "--no-limits")
    values = bench(tmp_path, "async", *TINY, *words)
    assert_right(values, "set", "get")
    for op in ("set", "get"):
        seen = [
            (r["case"]["mode"], r["case"]["requests"], r["case"]["window"])
            for r in values["results"]
            if r["case"]["op"] == op
        ]
        each = [[("sync", n, 0), ("async", n, 32), ("batch", n, 0)] for n in (1, 20)]
        assert seen == [*each[0], *each[1], ("windowed", 20, 3)]
    for result in values["results"]:
        figures = result["figures"]
        if result["case"]["op"] == "set":
            assert figures["pages"] == 3 * 64, "three passes over the working set"
        assert -(-figures["pages"] // result["case"]["requests"]) <= figures["calls"]


class Started:
    """A subcommand as a process of its own, which signals can reach."""

    def __init__(self, folder: Path, command: str, *words: str) -> None:
        # As from a terminal, also when these tests run in the background, where SIGINT is ignored.
        start = ["env", "--default-signal=INT", sys.executable, "-m", "peercache_bench", command]
        self.popen = subprocess.Popen(
            [*start, f"--build={binary().parent}", *words],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": str(PYTHON), "TMPDIR": str(folder)},
        )  # fmt: skip

    def line(self, stream: TextIO | None, text: str) -> str:
        """The first line that holds the text."""
        assert stream is not None
        for line in stream:
            if text in line:
                return line
        raise AssertionError(f'ended without saying "{text}"')

    def stop(self, number: int) -> int:
        self.popen.send_signal(number)
        self.popen.communicate(timeout=HANG_SECONDS)
        return self.popen.returncode


def nodes_in(folder: Path) -> list[str]:
    """Command lines of nodes whose socket is below the folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().decode(errors="replace").split("\0")
            if words[0].endswith("peercached") and any(str(folder) in word for word in words):
                found.append(" ".join(words))
    return found


def test_serve_and_drive(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    serve = Started(tmp_path, "serve", *PAGES, f"--discovery-addr={address}", "--layout=mha")
    try:
        command = shlex.split(serve.line(serve.popen.stdout, "peercache-bench drive"))
        assert len(nodes_in(tmp_path)) == 1
        words = ("--duration=0.1", "--warmup=0", "--check", "--op=get,exists", "--concurrency=2")
        values = bench(tmp_path, "drive", *command[2:], *words)
        serve.line(serve.popen.stderr, "has left")
        assert [r["case"]["segments"] for r in values["results"]] == [2, 2]
        assert_right(values, "get")
        # Beside the gets, what a bare connection between the two hosts does.
        limits = {r["case"]["op"]: r["limit"] for r in values["results"]}
        assert limits["get"]["gb_per_s"] > 0
        assert limits["exists"] is None
    finally:
        status = serve.stop(signal.SIGINT)
    assert status == 0
    assert nodes_in(tmp_path) == []


def test_drive_of_other_pages_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    address = f"127.0.0.1:{free_port()}"
    serve = Started(tmp_path, "serve", *PAGES, f"--discovery-addr={address}", "--readers=1")
    try:
        serve.line(serve.popen.stdout, "peercache-bench drive")
        words = (f"--discovery-addr={address}", "--page-size=32k", "--working-set=64")
        arguments = (f"--build={binary().parent}", "--duration=0.1", "--warmup=0", *words)
        assert main(["drive", *arguments]) == 1
        assert "are --page-size (32768) and --working-set (64) those of serve" in (
            capsys.readouterr().err
        )
        serve.popen.communicate(timeout=HANG_SECONDS)
        assert serve.popen.returncode == 0, "its one reader has come and gone"
    finally:
        serve.popen.kill()


def test_a_signal_keeps_what_was_measured(tmp_path: Path) -> None:
    # More than would be measured until anybody's signal comes: a minute's work at least.
    threads = range(1, 33)
    cases = 2 * len(threads)
    words = (
        "--op=get,exists", "--no-limits", f"--out-dir={tmp_path}",
        f"--concurrencies={','.join(map(str, threads))}",
    )  # fmt: skip
    started = Started(tmp_path, "throughput", *TINY, "--duration=1", *words)
    try:
        started.line(started.popen.stderr, f"1/{cases}")
    finally:
        status = started.stop(signal.SIGTERM)
    assert status == 130
    values = json.loads((tmp_path / "throughput.json").read_text())
    assert 1 <= len(values["results"]) < cases
    assert nodes_in(tmp_path) == []

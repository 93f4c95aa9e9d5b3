"""peercache-bench published: its tables, what they show, that both sides have the same steps."""

from __future__ import annotations

import threading
import time
from argparse import Namespace
from pathlib import Path

import pytest
from peercache_bench import published, published_figures, published_run, published_steps
from peercache_bench.__main__ import main
from peercache_bench.binding import another_node, node_of_port, on_node
from peercache_bench.errors import BenchError
from peercache_bench.handshake import digest, driving, serving
from peercache_bench.ports import free_port
from peercache_bench.published_figures import Cell, Step, Table

from ..patience import HANG_SECONDS

RUN = {"host": {}, "path": "Path to b: MTU 9000 over eth0"}
GET = Step("get", 2, threads=(1, 2))


def small(**changes: object) -> Table:
    cells = (
        Cell("one", "GET", 40.0, GET, 1, x=1),
        Cell("two", "GET", None, GET, 2, x=2),
        Cell("gpu", "GET", 49.5, why="there is none"),
    )
    table = Table("small", "Small", "somebody", "GB/s", 1e9, cells)
    return Table(**{**table.__dict__, **changes})  # type: ignore[arg-type]


def test_ours_stand_before_theirs() -> None:
    text = published.document(small(), {GET: {1: 36.5e9, 2: 50e9}}, RUN)
    assert "| one | 36.5 (40) |" in text
    assert "| two | 50 |" in text
    assert "| gpu | - (49.5) |" in text
    assert "- gpu: there is none" in text
    assert "MTU 9000 over eth0" in text


def test_what_was_not_measured_says_why() -> None:
    refused = published.document(small(), {GET: "b: no such device"}, RUN)
    assert "| one | - (40) |" in refused
    assert "- one, two: b: no such device" in refused
    stopped = published.values(small(), {}, RUN)["cells"]
    assert stopped[0] == {
        "row": "one", "column": "GET", "theirs": 40.0, "ours": None, "why": "it was not measured",
    }  # fmt: skip


def test_a_chart_has_bars_or_lines() -> None:
    measured = {GET: {1: 1e9, 2: 2e9}}
    bars = published.chart(small(), measured)
    assert ("one", 1.0) in bars.bars
    assert ("gpu (published)", 49.5) in bars.bars
    lines = published.chart(small(x_label="threads"), measured)
    assert {line.label: line.limit for line in lines.lines}["gpu (published)"]


def test_the_tables_are_those_of_their_documents() -> None:
    ladder = published_figures.original(8)
    assert [cell.theirs for cell in ladder.cells] == [49.0, 46.0, 40.4, 147.6, 413.1, 49.5]
    assert [step.ports for step in ladder.steps] == [1, 1, 8, 8, 8, 8]
    assert [step.gpu for step in ladder.steps] == [False] * 5 + [True]
    blocks = published_figures.blocks(2, 64)
    assert len({cell.row for cell in blocks.cells}) == 13
    assert all(step.batch * step.page_bytes <= 64 << 20 for step in blocks.steps)
    assert {cell.why for cell in published_figures.blocks(0, 1).cells if cell.step is None} == {
        published_figures.STAY, "name the ports by --devices",
    }  # fmt: skip
    scaling = published_figures.servers(2, 3, 64)
    assert [c.theirs for c in scaling.cells if c.column == "RDMA read"] == [48.4, 96.7, None]
    assert [(s.servers, s.ports, s.threads) for s in scaling.steps] == [
        (1, 2, (64,)), (1, 0, (64,)), (2, 2, (32,)), (2, 0, (32,)), (3, 2, (21,)), (3, 0, (21,)),
    ]  # fmt: skip
    single = published_figures.requests(0)
    assert len(single.cells) == 4 * (2 * 4 + 1 + 4)
    assert {c.theirs for c in single.cells if c.row == "1 MiB x 100"} == {
        2434, 5796, 2489, 4637, 5200, 5594, 5727,
    }  # fmt: skip
    gets = published_figures.gets(2, (1, 32))
    assert len(gets.cells) == 10
    assert {(s.checksums, s.bound, s.far) for s in gets.steps} == {
        ("", False, False), ("off", False, False), ("all", False, False),
        ("", True, False), ("", True, True),
    }  # fmt: skip
    assert "published" not in published.document(gets, {}, RUN)
    threads = published_figures.threads((1, 24))
    assert [c.theirs for c in threads.cells if c.row == "published, bare metal"] == [18.9, 395]
    assert len(threads.steps) == 4, "iperf3 and GET, with and without binding"


def test_the_other_side_must_have_the_same_steps() -> None:
    port = free_port()
    said: list[str] = []

    def serve() -> None:
        try:
            with serving(port, "ours") as peer:
                peer.say("ready")
                said.append(peer.hear())
        except BenchError as error:
            said.append(str(error))

    for plan in ("others", "ours"):
        thread = threading.Thread(target=serve)
        thread.start()
        if plan == "ours":
            with driving("127.0.0.1", port, plan) as peer:
                assert peer.hear() == "ready"
                peer.say("done")
        else:
            with (
                pytest.raises(BenchError, match="give both sides the same flags"),
                driving("127.0.0.1", port, plan),
            ):
                pass
        thread.join()
    assert "127.0.0.1 has other steps" in said[0]
    assert said[1] == "done"
    assert digest("ours") != digest("others")


def test_a_port_is_near_a_numa_node(tmp_path: Path) -> None:
    device = tmp_path / "class/infiniband/mlx5_1/device"
    device.mkdir(parents=True)
    (device / "numa_node").write_text("1\n")
    node = tmp_path / "devices/system/node/node1"
    node.mkdir(parents=True)
    (node / "cpulist").write_text("32-63\n")
    assert node_of_port("mlx5_1:2", tmp_path) == 1
    assert node_of_port("mlx5_7", tmp_path) is None
    assert on_node(1, tmp_path) == ["taskset", "--cpu-list", "32-63"]
    assert another_node(1, tmp_path) is None
    memory = tmp_path / "devices/system/node/node2"  # without processors
    memory.mkdir()
    (memory / "cpulist").write_text("\n")
    assert another_node(1, tmp_path) is None
    far = tmp_path / "devices/system/node/node10"
    far.mkdir()
    (far / "cpulist").write_text("64-95\n")
    assert another_node(1, tmp_path) == 10
    assert another_node(10, tmp_path) == 1
    (device / "numa_node").write_text("-1\n")
    assert node_of_port("mlx5_1", tmp_path) is None


@pytest.mark.parametrize("ready", ["Server listening", ""])
def test_a_server_that_says_much_is_not_held_up(
    ready: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """iperf3 prints a line a second for each stream, more than a pipe holds."""
    done = tmp_path / "done"
    talks = f"echo Server listening on 5201; seq 100000; touch {done}; exec sleep 60"
    line = ["sh", "-c", talks]
    monkeypatch.setattr(published_steps, "_serving", lambda *_: iter([(line, ready)]))
    with published_steps.served(GET, None) as trouble:  # type: ignore[arg-type]
        assert trouble == ""
        end = time.monotonic() + HANG_SECONDS
        while not done.exists():
            assert time.monotonic() < end, "the server waits for somebody to read"
            time.sleep(0.01)


def test_a_server_that_ends_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    served = [(["sh", "-c", "echo no such device"], "ready")]
    monkeypatch.setattr(published_steps, "_serving", lambda *_: iter(served))
    with published_steps.served(GET, None) as trouble:  # type: ignore[arg-type]
        assert "has ended, see above" in trouble


def test_hosts_may_have_ports_and_be_addresses() -> None:
    def found(text: str) -> list[tuple[str, int]]:
        given = Namespace(host=text, table="servers", servers=2, port=9)
        return published_run.addresses_of(given)

    assert found("a,b:7") == [("a", 9), ("b", 7)]
    assert found("fd00::1,[fd00::2]:7") == [("fd00::1", 9), ("fd00::2", 7)]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("original",), "--devices: name the RDMA ports of this host"),
        (("threads", "--duration=0"), "--duration 0: a measurement needs time"),
        (("blocks", "--sizes=4k,5k"), "--sizes 5 KiB: not published; name some of 4 KiB, 8 KiB"),
        (("servers", "--host=a"), "--host a: 1 hosts, and the table servers takes 2"),
        (("blocks", "--host=a,b"), "--host a,b: 2 hosts, and the table blocks takes 1: name each"),
        (("servers", "--host=a:9,b:x"), '--host "b:x": write HOST or HOST:PORT'),
        (("blobs",), "invalid choice: 'blobs'"),
    ],
)
def test_a_wrong_flag_says_what_to_write(
    words: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        status = main(["published", *words])
    except SystemExit as error:
        status = int(str(error.code))
    assert status != 0
    assert says in capsys.readouterr().err

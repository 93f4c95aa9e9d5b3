"""peercache-bench replay: its requests, its model of a forward pass, its report, its errors."""

from __future__ import annotations

import argparse
import json
import random
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from peercache_bench import draw, replay_servers
from peercache_bench.__main__ import main
from peercache_bench.binaries import install_package
from peercache_bench.capacity_trace import Prompt, Trace, chats
from peercache_bench.errors import BenchError
from peercache_bench.nodes import misses
from peercache_bench.replay import _arms
from peercache_bench.replay_arm import Result, Setup
from peercache_bench.replay_client import Answer, digest
from peercache_bench.replay_report import document, picture, quantile, same_outputs, values
from peercache_bench.replay_requests import Request, Span, oracle, requests, tokens_of
from peercache_bench.replay_waits import by_fault, overlap, parts

from ..conftest import ROOT

sys.path.insert(0, str(ROOT / "hack" / "lab" / "engines" / "sglang_cpu"))

from peercache_sglang_cpu import modelled

BLOCK, PAGE = 512, 64
SETUP = Setup(2, 32_000, "128Mi", BLOCK, 20_000.0, Path("build"))
MODEL = {
    "constant": 0.03, "linear": 5e-5, "quadratic": 0.0, "decode": 0.02, "bytes_per_token": 71680,
    "link": 10e9,
}  # fmt: skip
ANSWER = Answer(
    span=Span(10.0, 11.0), ttft=1.0, late=0.0, before_queue=0.1, queued=0.5, waited=0.3,
    computed=0.2, cached=512, host=0, stored=512, output=(5, 6),
)  # fmt: skip


def test_equal_blocks_have_equal_tokens() -> None:
    one = tokens_of(Prompt(0.0, 1100, (7, 8, 9)), BLOCK)
    other = tokens_of(Prompt(5.0, 1024, (7, 3)), BLOCK)
    assert (len(one), len(other)) == (1100, 1024)
    assert one[:BLOCK] == other[:BLOCK]
    assert one[BLOCK:1024] != other[BLOCK:]
    assert min(one) >= 3
    assert max(one) < 1024


def test_all_arms_have_the_same_requests() -> None:
    trace = chats(200, 4.0, 1)
    made = requests(trace, 4, 2.0, 10.0, 1)
    assert made == requests(trace, 4, 2.0, 10.0, 1) != requests(trace, 4, 2.0, 10.0, 2)
    assert [r.at for r in made] == [p.at / 2 for p in trace.prompts if p.at <= 20]
    assert {r.server for r in made} == {0, 1, 2, 3}


def test_the_oracle_knows_what_was_computed_before() -> None:
    prompts = [
        Prompt(0.0, 1100, (1, 2, 3)),
        Prompt(1.0, 1024, (1, 2)),
        Prompt(2.0, 1600, (1, 2, 4, 5)),
    ]
    made = [Request(p.at, 0, p) for p in prompts]
    # The last token is computed always, and pages are whole: 15 of 16 pages, then 2 blocks.
    spans = [Span(0.0, 0.5), Span(1.0, 1.2), Span(2.0, 2.5)]
    assert oracle(made, spans, BLOCK, PAGE) == 15 * PAGE + 2 * BLOCK
    # The second was sent before the first was computed.
    assert oracle(made, [Span(0.0, 1.1), *spans[1:]], BLOCK, PAGE) == 2 * BLOCK
    assert oracle(made, [Span(0.0, 9.0), Span(1.0, 9.0), Span(2.0, 9.0)], BLOCK, PAGE) == 0


def test_a_link_carries_no_more_than_its_rate() -> None:
    link = modelled.Link(1e9)
    assert link.take(1e8, now=5.0) == pytest.approx(0.1)
    assert link.take(1e8, now=5.05) == pytest.approx(0.15)  # after the former bytes
    assert link.take(0, now=9.0) == 0
    # In the long run, whatever the sizes.
    sizes = [20e6 * random.Random(i).random() for i in range(100)]
    busy = modelled.Link(1e9)
    assert max(busy.take(one, 0.0) for one in sizes) == pytest.approx(sum(sizes) / 1e9)


def test_rows_follow_from_the_whole_prefix() -> None:
    tokens = tokens_of(Prompt(0.0, 1000, (1, 2)), BLOCK)
    numbers = modelled.pattern(tokens)
    assert numbers.equal(modelled.pattern([*tokens, 9])[:-1])
    for place in (0, 500, 998):
        other = list(tokens)
        other[place] += 1
        changed = modelled.pattern(other) != numbers
        assert not changed[:place].any()
        assert changed[place:].all()
    # Two tokens that change places are noticed, too.
    swapped = [*tokens[:10], tokens[11], tokens[10], *tokens[12:]]
    assert tokens[10] != tokens[11]
    assert (modelled.pattern(swapped) != numbers)[10]


def test_the_model_is_the_planners() -> None:
    model = modelled.Model(**MODEL)
    assert model.prefill.seconds(1000, 5000) == pytest.approx(0.08)


def test_wrong_rows_end_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(modelled.REPORT, str(tmp_path / "report"))
    numbers = modelled.pattern([5, 6, 7])
    rows = numbers[:, None].expand(-1, 4).clone()
    modelled.check(rows, numbers, "r1")
    rows[1, 3] += 1
    with pytest.raises(RuntimeError, match="1 of 3 cached rows of request r1"):
        modelled.check(rows, numbers, "r1")
    server = replay_servers.Server("s", 1, 1, tmp_path / "log", tmp_path / "report")
    with pytest.raises(BenchError, match=f"{modelled.WRONG}: 1 of 3 .* do not retry"):
        server.reported()


def test_the_parts_of_a_time_are_the_whole() -> None:
    # Sent at 10.0, taken at 10.1, waited for pages until 10.4, computed from 10.6 to 10.8.
    forwards = [(9.0, 10.05), (10.2, 10.3), (10.45, 10.5), (10.6, 10.8)]
    found = parts(ANSWER, forwards)
    assert found.others == pytest.approx(0.05 + 0.1 + 0.05)
    assert found.pages == pytest.approx(0.3 - 0.1)
    assert found.own == 0.2
    assert sum((found.others, found.pages, found.own, found.rest)) == pytest.approx(1.0)
    assert overlap((0.0, 1.0), [(2.0, 3.0)]) == 0


def result(arm: str, *ttft: float, **changes: Any) -> Result:
    answers = [replace(ANSWER, ttft=seconds, **changes) for seconds in ttft]
    reports = [[{"at": 10.6, "took": 0.2, "seconds": 0.2, "checked": 512, "prefill": True},
                {"loaded": 512, "real": 0.01, "slept": 0.004}]]  # fmt: skip
    return Result(arm, answers, reports, busy=0.5)


def test_the_chart_is_the_share_of_requests() -> None:
    chart = picture([result("l1", 0.3, 0.1, 0.2), result("peercache", 0.1)])
    assert "modelled forward, measured cache" in chart.title
    ms, shares = zip(*chart.lines[0].points, strict=True)
    assert ms == pytest.approx((100, 200, 300))
    assert shares == pytest.approx((100 / 3, 200 / 3, 100))
    assert quantile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert quantile([3.0, 1.0, 2.0], 0.99) == 3.0


def test_the_report_says_what_was_modelled_and_checked() -> None:
    made = [Request(0.1 * i, 0, Prompt(0.0, 1024, (1, 2))) for i in range(3)]
    results = [result("l1", 0.3, 0.1, 0.2), result("peercache", 0.1, 0.1, 0.1)]
    said = document(made, results, SETUP, MODEL)
    assert "modelled forward, measured cache" in said
    assert "512 cached rows compared, 0 wrong" in said
    assert "70 KiB a token at 10 GB/s" in said
    assert "Warning" not in said
    assert json.loads(json.dumps(values(made, results, SETUP, MODEL)))["arms"][1]["requests"]
    slow = [replace(results[0], busy=0.9)]
    assert "Warning: l1: the CPU binds" in document(made, slow, SETUP, MODEL)


def test_requests_during_a_fault_by_their_servers_member() -> None:
    one = result("fault", 0.1, 0.2, 0.3, 0.4)
    one.reports *= 4
    assert by_fault(one, [0, 1, 2, 3]) == {}
    one.frozen = (9.0, 24.0)
    found = by_fault(one, [0, 1, 2, 3])
    assert {name: [a.ttft for a in answers] for name, answers in found.items()} == {
        "neither": [0.1, 0.2], "frozen": [0.3], "killed": [0.4],
    }  # fmt: skip
    made = [Request(0.0, i, Prompt(0.0, 1024, (1, 2))) for i in range(4)]
    assert "While a member is frozen" in document(made, [one], SETUP, MODEL)


def test_misses_of_a_member_by_reason() -> None:
    metrics = """# TYPE peercache_slower_pages_total counter
peercache_slower_pages_total 3
peercache_read_misses_total{reason="slower"} 2
peercache_read_misses_total{reason="unreachable"} 7
peercache_read_requests_total 9
"""
    assert misses(metrics) == {"slower": 5, "unreachable": 7}


def test_other_outputs_of_an_arm_are_wrong_bytes() -> None:
    same = [result("l1", 0.1), result("l2", 0.2)]
    assert same_outputs(same) == digest(same[0].answers)
    with pytest.raises(BenchError, match="WRONG BYTES: outputs of arms differ"):
        same_outputs([*same, result("peercache", 0.1, output=(5, 7))])


def test_a_chart_as_svg_is_the_same_file_each_time() -> None:
    chart = picture([result("l1", 0.3, 0.1, 0.2)])
    if not draw.can_draw():
        pytest.skip(draw.HINT)
    one = draw.image(chart, "svg")
    assert one.startswith(b"<?xml")
    assert one == draw.image(chart, "svg")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--arms=fault", "--servers=2"], "--servers 2 is too few for --arms fault"),
        (["--own-tokens=1k"], "--own-tokens 1000 has no room for the longest prompt"),
        (["--speed=0"], "--speed 0 must be above 0"),
        (["--minutes=-1"], "--minutes -1 must be above 0"),
        (["--link=0"], "--link 0 must be above 0"),
        (["--trace=/nowhere"], "--trace /nowhere cannot be read"),
        (["--prefill=4k=200000"], "--overhead is longer than a prefill"),
    ],
)
def test_what_cannot_be_replayed_is_said(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", "--requests=10", *words]) == 1
    assert said in capsys.readouterr().err


def test_an_unknown_arm_is_explained() -> None:
    assert _arms("l1,peercache,l1") == ("l1", "peercache")
    with pytest.raises(
        argparse.ArgumentTypeError, match='"l3" is not an arm; write l1,l2,peercache'
    ):
        _arms("l1,l3")


def test_a_build_without_the_extension_is_named(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match=r"has no python/_peercache.*run `make build`"):
        install_package(tmp_path, tmp_path)


def test_a_package_without_its_tree_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay_servers, "LAB", tmp_path)
    with pytest.raises(BenchError, match="replay needs a source tree"):
        replay_servers.engines()


def test_blocks_of_a_trace_that_are_cut_short() -> None:
    """Mooncake's prompts end within a block."""
    trace = Trace((Prompt(0.0, 700, (1, 2)), Prompt(1.0, 700, (1, 2))), BLOCK)
    made = requests(trace, 1, 1.0, 60.0, 1)
    assert oracle(made, [Span(0.0, 0.5), Span(1.0, 1.5)], BLOCK, PAGE) == 10 * PAGE


def test_an_interrupt_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt() -> Path:
        raise KeyboardInterrupt

    monkeypatch.setattr(replay_servers, "engines", interrupt)
    assert main(["replay", "--requests=10"]) == 130
    assert "interrupted" in capsys.readouterr().err

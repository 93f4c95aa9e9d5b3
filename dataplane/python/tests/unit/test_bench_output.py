"""peercache-bench: tables, charts, the report, and results that are read again."""

from __future__ import annotations

import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from peercache_bench import draw, finish, html, output, tables
from peercache_bench.case import Case
from peercache_bench.charts import charts
from peercache_bench.errors import BenchError
from peercache_bench.figures import combine
from peercache_bench.outcome import Outcome, Run, load

from .test_bench_figures import raw

FIGURES = combine([raw()], tokens_per_page=64)
LIMIT = combine([raw(gb_per_s=4.0)])


def run(command: str = "throughput", *outcomes: Outcome, tag: str = "") -> Run:
    return Run(command, tag, {"cpu": "<any>"}, {"threads": [1, 2]}, list(outcomes))


def get(threads: int = 1, **changes: object) -> Outcome:
    return Outcome(Case("get", threads=threads), replace(FIGURES, **changes), LIMIT)  # type: ignore[arg-type]


def test_the_ratio_is_of_the_limit() -> None:
    assert get().ratio == 0.5
    assert replace(get(), limit=None).ratio is None
    assert "bare TCP 4 |  0.50" in tables.rates([get()])


def test_a_table_is_rectangular_whatever_is_in_it() -> None:
    lines = tables.markdown(["a|b", "c"], [["x | y", "1"], ["", ""]]).splitlines()
    assert {line.count("|") for line in lines} == {3}
    assert len({len(line) for line in lines}) == 1


def test_only_checked_figures_say_that_nothing_is_wrong() -> None:
    assert "not checked" in tables.rates([get()])
    assert "not checked" not in tables.rates([get(checked=True)])


def test_the_charts_of_threads_and_limits() -> None:
    throughput, cpu = charts(run("throughput", get(2), get(1)))
    line, limit = throughput.lines
    assert line.points == [(1, 2.0), (2, 2.0)]
    assert limit.limit
    assert limit.points == [(1, 4.0), (2, 4.0)]
    assert cpu.lines[0].points == [(1, 0.25), (2, 0.25)]


def test_the_latency_chart_ends_at_all_calls() -> None:
    (chart,) = charts(run("latency", get()))
    assert chart.lines[0].points == [(10.2, 80.0), (20.4, 100.0)]


def test_sweep_and_micro_charts() -> None:
    sizes = [replace(get(), case=Case("get", page_bytes=n)) for n in (8192, 4096)]
    (sweep,) = charts(run("sweep", *sizes))
    assert [x for x, _ in sweep.lines[0].points] == [4096, 8192]
    ping = Outcome(Case("pingpong"), FIGURES)
    moved, requests, _ = charts(run("micro", Outcome(Case("memcpy"), FIGURES), ping))
    assert moved.bars == (("memcpy 128 KiB x 32", 2.0),)
    assert requests.bars == (("bare TCP ping-pong", 5.0),)


def test_lines_do_not_mix_processes_or_operations() -> None:
    several = [replace(get(), case=Case("get", processes=n)) for n in (1, 2)]
    assert [len(line.points) for line in charts(run("throughput", *several))[0].lines] == [1] * 4
    asked = [
        replace(get(), case=Case(op, mode="sync", requests=n))
        for n in (10, 1)
        for op in ("set", "get")
    ]
    both = charts(run("async", *asked))
    assert [chart.name for chart in both] == ["async-get-mla-131072", "async-set-mla-131072"]
    assert [x for x, _ in both[0].lines[0].points] == [1, 10]


class Tags(HTMLParser):
    """Fails on what is left open, and keeps the sources of images."""

    VOID = frozenset({"meta", "img"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.sources: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.sources += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_report_needs_nothing_else(tmp_path: Path) -> None:
    files = output.write(run("throughput", get(hits=300), tag="a b/c"), tmp_path / "new")
    assert files[0].name == "throughput-a_b_c.html"
    text = files[0].read_text()
    tags = Tags()
    tags.feed(text)
    assert tags.open == []
    assert all(source.startswith("data:image/png;base64,") for source in tags.sources)
    assert len(tags.sources) == (2 if draw.can_draw() else 0)
    assert "&lt;any&gt;" in text
    assert "20 of 320 pages were not there" in text
    assert {file.suffix for file in files} >= {".html", ".md", ".json"}


def test_without_matplotlib_the_report_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    files = output.write(run("throughput", get()), tmp_path)
    assert draw.HINT in files[0].read_text()
    assert [file.suffix for file in files] == [".html", ".md", ".json"]


def test_wrong_bytes_cannot_be_overlooked(tmp_path: Path) -> None:
    bad = run("throughput", get(wrong=2, checked=True))
    assert bad.wrong == 2
    assert "WRONG BYTES" in output.warnings(bad)[0]
    assert "WRONG" in html.page("t", "# t", {}, output.warnings(bad))
    assert finish.show(bad, tmp_path) == 1
    assert finish.show(run("throughput", get(checked=True)), tmp_path) == 0


def test_a_result_is_read_again(tmp_path: Path) -> None:
    first = run("throughput", get(), tag="x")
    output.write(first, tmp_path)
    assert load(tmp_path / "throughput-x.json") == first


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", json.dumps({"schema": "peercache-bench/1"}), '{"schema": 5}']
)
def test_what_is_no_result_is_refused_by_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(BenchError, match=r"other\.json"):
        load(path)

"""peercache-bench: figures of several processes and passes put together."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from peercache_bench.figures import (
    Figures,
    add_histograms,
    combine,
    in_sequence,
    middle,
    percentiles,
)


def raw(**changes: Any) -> dict[str, Any]:
    return {
        "seconds": 2.0, "calls": 10, "pages": 320, "hits": 320, "wrong": 0, "bytes": 4_000_000_000,
        "gb_per_s": 2.0, "pages_per_s": 160.0, "calls_per_s": 5.0, "cpu_s": 1.0,
        "latency_us": {"p50": 10.0, "p95": 20.0, "p99": 20.0, "p999": 20.0, "max": 20.0},
        "latency_histogram": [[10.2, 8], [20.4, 2]],
        **changes,
    }  # fmt: skip


def test_one_process_keeps_its_exact_percentiles() -> None:
    figures = combine([raw()], tokens_per_page=64)
    assert figures.latency_us["p50"] == 10.0
    assert figures.tokens_per_s == 160 * 64
    assert figures.cpu_s_per_gb == pytest.approx(0.25)
    assert figures.hit_ratio == 1


def test_processes_add_up() -> None:
    slow = raw(latency_histogram=[[10.2, 1], [999.0, 9]], latency_us={"max": 990.0}, hits=160)
    figures = combine([raw(), slow])
    assert (figures.gb_per_s, figures.pages, figures.calls) == (4.0, 640, 20)
    assert figures.hit_ratio == 0.75
    assert figures.latency_us["p50"] == 20.4, "the tenth of 20 calls"
    assert figures.latency_us["p999"] == 990.0, "not above the maximum"
    assert figures.latency_us["max"] == 990.0, "exact, not the end of a bucket"


def test_passes_are_weighted_by_their_time() -> None:
    fast, slow = combine([raw()]), combine([raw(seconds=6.0, gb_per_s=1.0)])
    both = in_sequence([fast, slow])
    assert both.gb_per_s == pytest.approx((2 * 2 + 6 * 1) / 8)
    assert both.seconds == 8
    assert both.calls == 20


def test_the_middle_is_a_repetition_that_was() -> None:
    runs = [combine([raw(gb_per_s=rate)]) for rate in (3.0, 1.0, 2.0, 9.0)]
    assert middle(runs).gb_per_s == 2.0
    assert middle(runs[:1]) is runs[0]


def test_rate_is_what_there_is() -> None:
    assert combine([raw(bytes=0, gb_per_s=0)]).rate == 160
    assert combine([raw(bytes=0, gb_per_s=0, pages_per_s=0)]).rate == 5


def test_json_and_back() -> None:
    figures = combine([raw()])
    assert Figures.from_json(figures.to_json()) == figures


HISTOGRAMS = st.dictionaries(st.floats(0.1, 1e6), st.integers(1, 50), min_size=1).map(
    lambda d: sorted(d.items())
)


@given(HISTOGRAMS, HISTOGRAMS)
def test_percentiles_of_a_sum_are_those_of_all_samples(
    a: list[tuple[float, int]], b: list[tuple[float, int]]
) -> None:
    samples = sorted([us for h in (a, b) for us, n in h for _ in range(n)])
    found = percentiles(add_histograms([a, b]))
    for name, tenths_of_percent in (("p50", 500), ("p95", 950), ("p99", 990), ("p999", 999)):
        rank = max(-(-tenths_of_percent * len(samples) // 1000), 1)
        assert found[name] == samples[rank - 1]
    assert found["max"] == samples[-1]


def test_no_calls_no_percentiles() -> None:
    assert percentiles([]) == {}

"""peercache-bench ratios: which rows fail, and how they are shown."""

from __future__ import annotations

from peercache.bench.ratios import Row, turns
from peercache.bench.report import table


def row(*, held: bool = True, at_least: bool = True, value: float) -> Row:
    made = Row("what", "GB/s", "memcpy", 0.9, at_least=at_least, held=held)
    for noise in (0.98, 0.99, 1.0, 1.01, 1.02):
        made.add(1.0, value * noise)
    return made


def test_a_row_fails_when_its_upper_quartile_misses_the_target() -> None:
    assert row(value=0.9).passed
    assert row(value=0.892).passed, "within the noise"
    assert not row(value=0.85).passed
    assert not row(value=1.0, at_least=False).passed


def test_a_row_that_is_only_shown_fails_nothing_and_hides_nothing() -> None:
    shown = row(value=0.5, held=False)
    assert shown.passed
    line = table([shown]).splitlines()[-1]
    assert "0.50" in line
    assert "0.90" in line
    assert line.rstrip(" |").endswith("shown")


def test_rows_that_miss_are_repeated_once_more() -> None:
    for values, repetitions in (((0.95,), 5), ((0.5,), 10), ((0.5,) * 5 + (0.95,) * 5, 10)):
        made = Row("what", "GB/s", "memcpy", 0.9)
        for i, _ in enumerate(turns([row(value=1.0), made], 5)):
            made.add(1.0, values[i % len(values)])
        assert len(made.values) == repetitions
        assert made.passed == (0.95 in values)

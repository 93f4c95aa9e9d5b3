"""peercache-bench ratios: which rows fail, and how they are shown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from peercache_bench import __main__ as command
from peercache_bench import ratios
from peercache_bench.report import table
from peercache_bench.rows import CallRows, Row, turns


def row(*, held: bool = True, at_least: bool = True, value: float) -> Row:
    made = Row("what", "GB/s", "memcpy", 0.9, at_least=at_least, held=held)
    for noise in (0.98, 0.99, 1.0, 1.01, 1.02):
        made.add(1.0, value * noise)
    return made


@pytest.mark.parametrize("at_least", [True, False])
@pytest.mark.parametrize(
    ("reached", "passes"), [(5, True), (4, True), (3, True), (2, True), (1, False), (0, False)]
)
def test_a_row_fails_when_fewer_than_two_of_five_repetitions_reach_the_target(
    at_least: bool, reached: int, passes: bool
) -> None:
    made = Row("what", "GB/s", "memcpy", 0.9, at_least=at_least)
    good, bad = (0.9, 0.899) if at_least else (0.9, 0.901)
    for i in range(5):
        made.add(1.0, good if i < reached else bad)
    assert made.passed == passes


@pytest.mark.parametrize(("value", "status"), [(0.9, 0), (0.85, 1)])
def test_the_command_fails_with_a_row_and_names_it(
    value: float,
    status: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def measured(*_: object) -> Sequence[Row]:
        return [row(value=value), row(value=0.1, held=False)]

    monkeypatch.setattr(ratios, "measure", measured)
    monkeypatch.setattr(command, "Engine", lambda *_: None)
    folders = ["--build", str(tmp_path), "--engine", str(tmp_path), "--out", str(tmp_path)]
    assert command.main(["ratios", *folders]) == status
    missed = "missed by more than the noise: what\n" if status else ""
    assert capsys.readouterr().err == missed


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


@pytest.mark.parametrize(("memcpy", "held"), [(11.0, True), (22.0, False)])
def test_a_call_is_held_to_memcpy_where_its_copy_takes_a_millisecond(
    memcpy: float, held: bool
) -> None:
    call = CallRows("SET", 16 << 20, 0.9, 250)
    for _ in range(5):
        call.add(memcpy, 0.8 * memcpy)
    share, longer = call.rows()
    assert share.held == held
    assert share.passed == (not held)
    # 0.25 of 1.53 ms, or of 0.76 ms.
    assert longer.passed == (memcpy == 22.0)
    assert longer.values[0] == pytest.approx(0.25 * (16 << 20) / memcpy / 1e3)


def test_a_call_of_which_nothing_is_promised_has_one_row() -> None:
    call = CallRows("SET", 4 << 20, 0.9, None)
    call.add(11.0, 5.0)
    (share,) = call.rows()
    assert not share.held

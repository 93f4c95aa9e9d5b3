"""The log of every call of an engine, and what it says about a fault."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

MOST_HOLDERS = 12
GET, EXISTS, SET = 0, 1, 2
CALL = np.dtype(
    [
        ("start", "f8"),  # CLOCK_MONOTONIC, the same for all processes of the machine
        ("took", "f4"),
        ("op", "u1"),
        ("asked", "u1", (MOST_HOLDERS,)),  # pages, by holder
        ("hits", "u1", (MOST_HOLDERS,)),
        ("wrong", "u1"),  # hits whose bytes were not those of their key
    ]
)
Calls = NDArray[Any]

BIN_SECONDS = 0.1
# A bin below this hit rate counts as a disturbance.
FULL_RATE = 0.99


class Log:
    """Calls in the order they ended, in little memory."""

    CHUNK = 4096

    def __init__(self) -> None:
        self._full: list[Calls] = []
        self._last = np.zeros(self.CHUNK, CALL)
        self._used = 0

    def append(self, row: tuple[Any, ...]) -> None:
        if self._used == self.CHUNK:
            self._full.append(self._last)
            self._last = np.zeros(self.CHUNK, CALL)
            self._used = 0
        self._last[self._used] = row
        self._used += 1

    def calls(self) -> Calls:
        return np.concatenate([*self._full, self._last[: self._used]])


def load(files: Iterable[Path]) -> Calls:
    return np.sort(np.concatenate([np.load(file) for file in files]), order="start")


def between(calls: Calls, start: float, end: float) -> Calls:
    """The calls that were begun in the interval."""
    return calls[(calls["start"] >= start) & (calls["start"] < end)]


def hit_rate(calls: Calls, holders: Sequence[int]) -> float:
    gets = calls[calls["op"] == GET]
    asked = int(gets["asked"][:, list(holders)].sum())
    return float(gets["hits"][:, list(holders)].sum()) / asked if asked else 1.0


def hit_rate_over_time(calls: Calls, holders: Sequence[int]) -> float:
    """As hit_rate, with each call weighed by its time: calls that miss at once are many."""
    gets = calls[calls["op"] == GET]
    asked = gets["asked"][:, list(holders)].sum(axis=1) * gets["took"]
    hits = gets["hits"][:, list(holders)].sum(axis=1) * gets["took"]
    return float(hits.sum() / asked.sum()) if asked.sum() > 0 else 1.0


def seconds_until_full(
    calls: Calls,
    start: float,
    end: float,
    holders: Sequence[int],
    full_rate: float = FULL_RATE,
) -> float:
    """From ``start`` until gets of the holders' pages hit again, for good until ``end``."""
    disturbed = 0.0
    for index in range(int((end - start) / BIN_SECONDS)):
        at = start + index * BIN_SECONDS
        if hit_rate(between(calls, at, at + BIN_SECONDS), holders) < full_rate:
            disturbed = (index + 1) * BIN_SECONDS
    return disturbed


@dataclass(frozen=True)
class Summary:
    """A row of the report."""

    scenario: str
    calls: int
    hits: int
    wrong: int
    p50: float
    p99: float
    p999: float
    longest: float
    # Of what survives, once the fault has been noticed.
    hit_rate: float | None = None
    # Seconds until hits were back, after the fault and after its repair.
    back_after_fault: float | None = None
    back_after_repair: float | None = None

    HEADER: ClassVar[str] = (
        f"{'scenario':<26} {'calls':>7} {'hits':>9} {'wrong':>5} {'p50 ms':>7} {'p99 ms':>7} "
        f"{'p99.9 ms':>8} {'max ms':>7} {'hits %':>6} {'back s':>7} {'back s after repair':>19}"
    )

    def row(self) -> str:
        def number(value: float | None) -> str:
            return "-" if value is None else f"{value:.1f}"

        percent = None if self.hit_rate is None else 100 * self.hit_rate

        return (
            f"{self.scenario:<26} {self.calls:>7} {self.hits:>9} {self.wrong:>5} "
            f"{self.p50 * 1e3:>7.2f} {self.p99 * 1e3:>7.1f} {self.p999 * 1e3:>8.1f} "
            f"{self.longest * 1e3:>7.1f} "
            f"{number(percent):>6} {number(self.back_after_fault):>7} "
            f"{number(self.back_after_repair):>19}"
        )


def summarize(
    scenario: str,
    calls: Calls,
    hit_rate: float | None = None,
    back_after_fault: float | None = None,
    back_after_repair: float | None = None,
) -> Summary:
    took = calls["took"]
    p50, p99, p999 = np.quantile(took, [0.5, 0.99, 0.999])
    return Summary(
        scenario,
        len(calls),
        int(calls["hits"][calls["op"] == GET].sum()),
        int(calls["wrong"].sum()),
        float(p50),
        float(p99),
        float(p999),
        float(took.max()),
        hit_rate,
        back_after_fault,
        back_after_repair,
    )

"""Rows of measurements beside their limits, and when a row misses its target.

Limit and measurement are taken in turns. A row's ratio is the median of the repetitions, and its
noise the distance from there to their quartile on the better side. It fails when the target is
missed by more than that: of five repetitions, when fewer than two reach it.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass
class Row:
    """One line of the table."""

    name: str
    unit: str
    limit_name: str
    target: float
    # Ratios below the target fail (at_least), or above it.
    at_least: bool = True
    # False: shown beside the row that the target is for, and never failing.
    held: bool = True
    limits: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def add(self, limit: float, value: float) -> None:
        self.limits.append(limit)
        self.values.append(value)

    @property
    def ratios(self) -> list[float]:
        return sorted(v / x for v, x in zip(self.values, self.limits, strict=True))

    @property
    def ratio(self) -> float:
        return statistics.median(self.ratios)

    @property
    def passed(self) -> bool:
        if not self.held:
            return True
        ratios = self.ratios
        quarter = len(ratios) // 4
        if self.at_least:
            return ratios[-1 - quarter] >= self.target
        return ratios[quarter] <= self.target

    def entry(self) -> dict[str, Any]:
        """As JSON has it."""
        return {**asdict(self), "ratio": self.ratio, "passed": self.passed}


# What a call costs by itself is a share that can be seen where its copy takes less. Then the share
# is only shown. What the call takes longer is held to a promise, however fast the memory is.
LEAST_COPY_SECONDS = 1e-3


class CallRows:
    """A call beside memcpy of as many bytes, and how much longer it takes."""

    def __init__(self, name: str, bytes_: int, target: float, promised_us: float | None) -> None:
        self.share = Row(name, "GB/s", "memcpy", target)
        self._bytes = bytes_
        self._promised_us = promised_us
        self._longer = Row(f"{name}, beside the copy", "us", "promised", 1.0, at_least=False)

    def add(self, limit: float, value: float) -> None:
        """GB/s of memcpy, and of the call."""
        self.share.add(limit, value)
        copy_seconds = self._bytes / 1e9 / statistics.median(self.share.limits)
        self.share.held = copy_seconds >= LEAST_COPY_SECONDS
        if self._promised_us is not None:
            self._longer.add(self._promised_us, (1 / value - 1 / limit) * self._bytes / 1e3)

    def rows(self) -> list[Row]:
        return [self.share] if self._promised_us is None else [self.share, self._longer]


def turns(rows: Sequence[Row], repetitions: int) -> Iterator[int]:
    """Repetitions of these rows: as many again when one of them is missed by then.

    A guest whose host is busy for the seconds that one row takes is so told from a slow row.
    """
    yield from range(repetitions)
    if not all(row.passed for row in rows):
        yield from range(repetitions)

"""Figures: the results of one measurement, combined from all its processes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

PERCENTILES = ("p50", "p95", "p99", "p999", "max")
_SHARES = {"p50": 0.50, "p95": 0.95, "p99": 0.99, "p999": 0.999}

# [upper end in microseconds, calls], ascending.
Histogram = list[tuple[float, int]]


@dataclass(frozen=True)
class Figures:
    seconds: float
    calls: int
    pages: int
    hits: int
    wrong: int
    bytes: int
    gb_per_s: float
    pages_per_s: float
    tokens_per_s: float
    calls_per_s: float
    cpu_s: float
    latency_us: dict[str, float]
    checked: bool = False
    histogram: Histogram = field(default_factory=list)

    @property
    def hit_ratio(self) -> float:
        return self.hits / self.pages if self.pages else 0.0

    @property
    def cpu_s_per_gb(self) -> float:
        return self.cpu_s / (self.bytes / 1e9) if self.bytes else 0.0

    @property
    def rate(self) -> float:
        """The rate to compare by: of bytes if bytes move, else of pages, else of calls."""
        return self.gb_per_s or self.pages_per_s or self.calls_per_s

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "hit_ratio": self.hit_ratio, "cpu_s_per_gb": self.cpu_s_per_gb}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Figures:
        known = {k: v for k, v in values.items() if k in cls.__dataclass_fields__}
        known["histogram"] = [(float(us), int(n)) for us, n in known.get("histogram", [])]
        return cls(**known)


def combine(
    results: Sequence[dict[str, Any]], tokens_per_page: int = 0, checked: bool = False
) -> Figures:
    """The figures of peercache-perf processes that ran at the same time on different pages."""
    histogram = add_histograms([_pairs(r.get("latency_histogram", [])) for r in results])
    if len(results) == 1:
        latency = {k: float(v) for k, v in results[0]["latency_us"].items()}
    else:
        latency = _at_most(
            max(r["latency_us"].get("max", 0.0) for r in results), percentiles(histogram)
        )

    def total(name: str) -> float:
        return float(sum(r[name] for r in results))

    pages_per_s = total("pages_per_s")
    return Figures(
        seconds=max(float(r["seconds"]) for r in results),
        calls=int(total("calls")),
        pages=int(total("pages")),
        hits=int(total("hits")),
        wrong=int(total("wrong")),
        bytes=int(total("bytes")),
        gb_per_s=total("gb_per_s"),
        pages_per_s=pages_per_s,
        tokens_per_s=pages_per_s * tokens_per_page,
        calls_per_s=total("calls_per_s"),
        cpu_s=total("cpu_s"),
        latency_us=latency,
        checked=checked,
        histogram=histogram,
    )


def in_sequence(parts: Sequence[Figures]) -> Figures:
    """The figures of passes that ran one after the other."""
    seconds = sum(p.seconds for p in parts)
    histogram = add_histograms([p.histogram for p in parts])
    if len(parts) == 1:
        latency = dict(parts[0].latency_us)
    else:
        latency = _at_most(max(p.latency_us.get("max", 0.0) for p in parts), percentiles(histogram))

    def mean(rates: Sequence[float]) -> float:
        moved = sum(rate * p.seconds for rate, p in zip(rates, parts, strict=True))
        return moved / seconds if seconds else 0.0

    return Figures(
        seconds=seconds,
        calls=sum(p.calls for p in parts),
        pages=sum(p.pages for p in parts),
        hits=sum(p.hits for p in parts),
        wrong=sum(p.wrong for p in parts),
        bytes=sum(p.bytes for p in parts),
        gb_per_s=mean([p.gb_per_s for p in parts]),
        pages_per_s=mean([p.pages_per_s for p in parts]),
        tokens_per_s=mean([p.tokens_per_s for p in parts]),
        calls_per_s=mean([p.calls_per_s for p in parts]),
        cpu_s=sum(p.cpu_s for p in parts),
        latency_us=latency,
        checked=all(p.checked for p in parts),
        histogram=histogram,
    )


def middle(repetitions: Sequence[Figures]) -> Figures:
    """The repetition with the median rate (the lower of two). Figures of repetitions do not mix."""
    ordered = sorted(repetitions, key=lambda f: f.rate)
    return ordered[(len(ordered) - 1) // 2]


def add_histograms(histograms: Sequence[Histogram]) -> Histogram:
    """Sums equal buckets; all come from the same fixed steps."""
    total: dict[float, int] = {}
    for histogram in histograms:
        for us, n in histogram:
            total[us] = total.get(us, 0) + n
    return sorted(total.items())


def percentiles(histogram: Histogram) -> dict[str, float]:
    """Nearest rank, as the upper end of its bucket, so never better than measured."""
    calls = sum(n for _, n in histogram)
    if not calls:
        return {}
    found: dict[str, float] = {}
    for name, share in _SHARES.items():
        left = max(math.ceil(share * calls), 1)
        for us, n in histogram:
            left -= n
            if left <= 0:
                found[name] = us
                break
    found["max"] = histogram[-1][0]
    return found


def _at_most(exact: float, found: dict[str, float]) -> dict[str, float]:
    """The maximum is known exactly; no percentile is above it because its bucket ends there."""
    return {name: exact if name == "max" else min(us, exact) for name, us in found.items()}


def _pairs(values: Sequence[Sequence[float]]) -> Histogram:
    return [(float(us), int(n)) for us, n in values]

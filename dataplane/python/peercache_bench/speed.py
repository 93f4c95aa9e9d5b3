"""Speed: how fast bytes moved, and what that took of the processors."""

from __future__ import annotations

from dataclasses import dataclass

from peercache_bench.errors import BenchError


@dataclass(frozen=True)
class Speed:
    gb_per_s: float
    cpu_s_per_gb: float


def speed(bytes_moved: float, seconds: float, cpu_seconds: float) -> Speed:
    """Raises BenchError where nothing was moved, or in no time: no ratio can be made of that."""
    if bytes_moved <= 0 or seconds <= 0:
        raise BenchError(
            f"{bytes_moved:.0f} bytes in {seconds:.3f} s are too few: measure more bytes"
        )
    gigabytes = bytes_moved / 1e9
    return Speed(gigabytes / seconds, cpu_seconds / gigabytes)

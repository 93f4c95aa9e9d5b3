"""Live progress on stderr: a line for each measurement, with the time since the start."""

from __future__ import annotations

import sys
import time
from typing import TextIO

from peercache_bench.case import Case
from peercache_bench.figures import Figures
from peercache_bench.units import number


def summary(figures: Figures) -> str:
    """The figures in a few words."""
    if figures.bytes:
        rate = f"{number(figures.gb_per_s)} GB/s"
    elif figures.pages:
        rate = f"{number(figures.pages_per_s)} pages/s"
    else:
        rate = f"{number(figures.calls_per_s)} calls/s"
    tail = figures.latency_us.get("p99")
    words = [rate, *([f"p99 {number(tail)} us"] if tail else [])]
    if figures.hits < figures.pages and figures.hits:
        words.append(f"{100 * figures.hit_ratio:.1f} % hits")
    if figures.checked:
        words.append(f"{figures.wrong} wrong")
    return ", ".join(words)


class Progress:
    """On a terminal, the line says what is being measured until its figures are there."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._total: int | None = None
        self._done = 0
        self._start = time.monotonic()

    def expect(self, total: int | None) -> None:
        self._total = total

    def say(self, text: str) -> None:
        self._line(text, "\n")

    def begin(self, case: Case) -> None:
        if self._stream.isatty():
            self._line(f"{self._place(self._done + 1)} {case.title} ...", "\r")

    def end(self, case: Case, figures: Figures) -> None:
        self._done += 1
        self._line(f"{self._place(self._done)} {case.title}: {summary(figures)}", "\n")

    def _place(self, at: int) -> str:
        return f"{at}/{self._total}" if self._total else f"{at}"

    def _line(self, text: str, end: str) -> None:
        clear = "\r\033[K" if self._stream.isatty() else ""
        passed = time.monotonic() - self._start
        print(f"{clear}[{passed:4.0f} s] {text}", end=end, file=self._stream, flush=True)

"""What engines ask for, as a trace has it, and what memory with a disk would have of that. Pure."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from peercache_bench.errors import BenchError


@dataclass(frozen=True)
class Request:
    """Numbers of pages: the prompt's, which are asked for, and the answer's, which are stored."""

    prompt: tuple[int, ...]
    answer: tuple[int, ...] = ()


def parse(lines: Iterable[str]) -> list[Request]:
    """A trace of dataplane/bench/eviction/sessions.py, or of Mooncake (JSON with hash_ids)."""
    found = []
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            found.append(_mooncake(line) if line.startswith("{") else _session(line))
        except (ValueError, KeyError, TypeError) as error:
            raise BenchError(
                f"line {number} of the trace is not of sessions.py, nor JSON with hash_ids: {error}"
            ) from None
    return found


def _mooncake(line: str) -> Request:
    return Request(tuple(int(n) for n in json.loads(line)["hash_ids"]))


def _session(line: str) -> Request:
    prompt: list[int] = []
    answer: list[int] = []
    for word in line.split()[1:]:
        first, count = map(int, word.removeprefix("+").split(":"))
        (answer if word.startswith("+") else prompt).extend(range(first, first + count))
    return Request(tuple(prompt), tuple(answer))


class _Disk:
    """First in, first out; what was read since it was written is written once more."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._read: OrderedDict[int, bool] = OrderedDict()

    def __contains__(self, page: int) -> bool:
        return page in self._read

    def read(self, page: int) -> None:
        self._read[page] = True

    def write(self, page: int) -> None:
        self._read.setdefault(page, False)
        while len(self._read) > self._capacity:
            oldest, was_read = self._read.popitem(last=False)
            if was_read:
                self._read[oldest] = False


def simulate(requests: Sequence[Request], memory: int, disk: int) -> float:
    """Share of the prompts' pages in leading runs that are there, with so many pages in memory,
    the last used of them, and on disk, where each page is written when it is set.
    """
    pool: OrderedDict[int, None] = OrderedDict()
    drive = _Disk(disk)
    hits = asked = 0

    def use(page: int) -> None:
        pool[page] = None
        pool.move_to_end(page)
        if len(pool) > memory:
            pool.popitem(last=False)

    for request in requests:
        asked += len(request.prompt)
        run = True
        for page in request.prompt:
            run = run and (page in pool or page in drive)
            hits += run
            if run and page not in pool:
                drive.read(page)
            if not run and disk:
                drive.write(page)
            use(page)
        for page in request.answer:
            if disk:
                drive.write(page)
            use(page)
    return hits / asked if asked else 0.0

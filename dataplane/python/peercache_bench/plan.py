"""The cases of each subcommand, in their order. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from peercache_bench.case import Case
from peercache_bench.options import Settings
from peercache_bench.units import MIB

# Batches of larger pages are cut to this, so that a sweep fits into memory.
BATCH_BYTES = 64 * MIB
# Threads are no longer added when neither of two steps gains this much.
GAIN = 1.03
MOST_ENGINES = 256
# Values of peercached's option directory-lookups.
LOOKUPS = ("rpc", "one-sided")
# Requests that an AsyncClient has at work at once, at most.
WIDEST = 32


def base(s: Settings, op: str, layout: str) -> Case:
    return Case(
        op=op,
        page_bytes=s.page_bytes,
        batch=s.batch,
        pages=s.pages_of(s.page_bytes, least=max(s.threads) * max(s.processes)),
        layout=layout,
        segments=s.segments_of(layout),
        tokens_per_page=s.tokens_per_page,
        source=s.source,
        transport=s.protocols[0],
        gpu=s.gpu,
    )


def latency(s: Settings) -> list[Case]:
    """One page a call, and a batch, without others at work (unless threads are asked for)."""
    batches = dict.fromkeys((1, s.batch))
    return [
        replace(case, batch=batch, threads=threads)
        for case in _bases(s)
        for batch in batches
        for threads in s.threads
    ]


def lookups(s: Settings) -> dict[str, list[Case]]:
    """The same calls by each way of looking keys up, which nodes are told when they start."""
    return {how: [replace(case, lookups=how) for case in latency(s)] for how in LOOKUPS}


def throughput(s: Settings) -> list[Case]:
    return [
        replace(case, threads=threads, processes=processes)
        for case in _bases(s)
        for processes in s.processes
        for threads in s.threads
    ]


def sweep(s: Settings) -> dict[str, list[Case]]:
    """Page sizes by each protocol, which nodes are told when they start."""
    return {protocol: _sizes(replace(s, protocols=(protocol,))) for protocol in s.protocols}


def _sizes(s: Settings) -> list[Case]:
    """Each size with the same bytes in the working set."""
    cases = []
    for case in _bases(s):
        for page_bytes in s.sizes:
            batch = max(min(s.batch, BATCH_BYTES // page_bytes), 1)
            for threads in s.threads:
                least = batch * threads
                pages = s.pages_of(page_bytes, least)
                cases.append(
                    replace(case, page_bytes=page_bytes, batch=batch, threads=threads, pages=pages)
                )
    return cases


def micro(s: Settings) -> list[Case]:
    """The machine without PeerCache, and a node without pages."""
    moves = [
        replace(base(s, op, layout), threads=threads)
        for layout in s.layouts
        for op in ("memcpy", "tcp")
        for threads in s.threads
    ]
    return [*moves, *(Case(op=op) for op in ("pingpong", "rpc-latency", "rpc-rate"))]


def requests(s: Settings) -> list[Case]:
    """Single-page requests: one by one, submitted together, and as one batch; then by window."""
    cases = []
    for case in _bases(s):
        for page_bytes in s.sizes:
            pages = s.pages_of(page_bytes, least=max(s.requests))
            sized = replace(case, page_bytes=page_bytes, pages=pages, batch=1)
            for n in s.requests:
                cases += [
                    replace(sized, requests=n, mode="sync"),
                    replace(sized, requests=n, mode="async", window=WIDEST),
                    replace(sized, requests=n, mode="batch"),
                ]
            many = max(s.requests)
            cases += [
                replace(sized, requests=many, mode="windowed", window=window)
                for window in s.windows
            ]
    return cases


def saturation_starts(s: Settings) -> Iterator[tuple[Case, list[int]]]:
    """For each number of processes, the case with one thread and the threads to try in turn."""
    for case in _bases(s):
        for processes in s.processes:
            # Every thread has a batch of pages to itself.
            most = min(MOST_ENGINES, case.pages // case.batch) // processes
            yield replace(case, processes=processes), _doubling(s.threads, most)


def _doubling(threads: Sequence[int], most: int) -> list[int]:
    """The threads that were named and, after them, twice as many each, up to a bound."""
    steps = list(threads)
    while steps[-1] * 2 <= most:
        steps.append(steps[-1] * 2)
    return steps


def saturated(rates: Sequence[float]) -> bool:
    """Whether the last two steps have gained nothing over what was best before them."""
    return len(rates) >= 3 and max(rates[-2:]) < GAIN * max(rates[:-2])


def peak(rates: Sequence[float]) -> int:
    """The first step that is within a per cent of the best: fewest threads for all there is."""
    best = max(rates)
    return next(i for i, rate in enumerate(rates) if rate >= 0.99 * best)


def shares(case: Case) -> list[tuple[int, int]]:
    """For each process its first key and how many: disjoint, and all of the working set."""
    each = case.pages // case.processes
    return [(i * each, each) for i in range(case.processes)]


def _bases(s: Settings) -> list[Case]:
    return [base(s, op, layout) for layout in s.layouts for op in s.operations]

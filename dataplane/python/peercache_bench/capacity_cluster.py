"""Prefill workers with caches of their own and one that they share, played a trace. Pure.

What is modelled: each worker computes one prompt after the other; its own cache (GPU and L2) and
the shared one evict what was used longest ago; pages come while a prompt waits. What is not:
decode, batches, a router that learns late, pages on drives.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from peercache_bench.capacity_model import Prefill
from peercache_bench.capacity_trace import Prompt, Trace

WINDOW_SECONDS = 10.0  # of the peak rate of the network


@dataclass(frozen=True)
class Cluster:
    workers: int
    own_tokens: int  # that a worker caches by itself
    shared_tokens: int  # 0: there is no shared cache
    bytes_per_token: float
    link: float  # bytes/s that a worker reads
    prefill: Prefill
    cache_aware: bool = False  # the router knows what workers have

    @property
    def load_seconds(self) -> float:
        """Of one token."""
        return self.bytes_per_token / self.link


@dataclass
class Outcome:
    tokens: int = 0
    own: int = 0  # of the tokens, found in the worker's cache
    shared: int = 0  # found in the shared one
    busy: float = 0.0  # seconds that workers computed
    ttft: list[float] = field(default_factory=list)  # of each prompt, without the first decode step
    windows: dict[int, int] = field(default_factory=dict)  # shared tokens by window

    @property
    def hits(self) -> float:
        return (self.own + self.shared) / max(1, self.tokens)

    def quantile(self, share: float) -> float:
        ordered = sorted(self.ttft)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


class Lru:
    """Blocks, of which those that were used longest ago go. Of one prompt its end goes first, as a
    block without those before it is of no use."""

    def __init__(self, blocks: int) -> None:
        self._most = blocks
        self._held: OrderedDict[int, None] = OrderedDict()

    def run(self, blocks: Sequence[int], start: int = 0) -> int:
        """Where the leading run ends that is here from ``start`` on."""
        end = start
        while end < len(blocks) and blocks[end] in self._held:
            end += 1
        return end

    def use(self, blocks: Sequence[int]) -> None:
        for block in reversed(blocks):
            self._held[block] = None
            self._held.move_to_end(block)
        while len(self._held) > self._most:
            self._held.popitem(last=False)


def play(trace: Trace, cluster: Cluster) -> Outcome:
    size = trace.block_tokens
    own = [Lru(cluster.own_tokens // size) for _ in range(cluster.workers)]
    shared = Lru(cluster.shared_tokens // size)
    free = [0.0] * cluster.workers  # when each has computed what it was given
    stored: list[tuple[float, int, Sequence[int]]] = []  # blocks that are computed later
    outcome = Outcome()
    for number, prompt in enumerate(trace.prompts):
        while stored and stored[0][0] <= prompt.at:
            shared.use(heapq.heappop(stored)[2])
        worker = _choose(prompt, own, free, cluster, size)
        local = own[worker].run(prompt.blocks)
        end = shared.run(prompt.blocks, local)
        have = min(prompt.tokens - 1, local * size)  # the last token is computed always
        loaded = min(prompt.tokens - 1, end * size) - have
        ready = max(free[worker], prompt.at + loaded * cluster.load_seconds)
        computing = cluster.prefill.seconds(prompt.tokens - have - loaded, have + loaded)
        free[worker] = ready + computing
        own[worker].use(prompt.blocks)
        shared.use(prompt.blocks[:end])
        heapq.heappush(stored, (free[worker], number, prompt.blocks))
        outcome.tokens += prompt.tokens
        outcome.own += have
        outcome.shared += loaded
        outcome.busy += computing
        outcome.ttft.append(free[worker] - prompt.at)
        window = int(prompt.at / WINDOW_SECONDS)
        outcome.windows[window] = outcome.windows.get(window, 0) + loaded
    return outcome


def _choose(
    prompt: Prompt, own: Sequence[Lru], free: Sequence[float], cluster: Cluster, size: int
) -> int:
    """The worker that answers first, as far as the router knows."""
    waits = [max(0.0, at - prompt.at) for at in free]
    costs = list(waits)
    if cluster.cache_aware:
        for worker, cache in enumerate(own):
            have = min(prompt.tokens - 1, cache.run(prompt.blocks) * size)
            costs[worker] += cluster.prefill.seconds(prompt.tokens - have, have)
    # The router breaks ties by the longest idle time.
    return min(range(len(free)), key=lambda worker: (costs[worker], free[worker]))

"""The requests of a replay: a trace as tokens, when and to which server; what a cache without
bounds would find. Pure."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from peercache_bench.capacity_trace import Prompt, Trace
from peercache_bench.errors import BenchError

# Ids of the small model that are no special ones: the vocabulary has 1,024.
_FIRST_ID, _END_ID = 3, 1024


@dataclass(frozen=True)
class Request:
    at: float  # seconds since the start of the replay
    server: int
    prompt: Prompt


def requests(trace: Trace, servers: int, speed: float, seconds: float, seed: int) -> list[Request]:
    """Those of the first ``seconds``, each to a server by chance. The same arguments give the same
    requests on every machine, so that all arms have the same."""
    chance = random.Random(seed)
    made = [Request(p.at / speed, chance.randrange(servers), p) for p in trace.prompts]
    return [request for request in made if request.at <= seconds]


@lru_cache(maxsize=4096)
def _block(block: int, tokens: int) -> tuple[int, ...]:
    return tuple(random.Random(block).choices(range(_FIRST_ID, _END_ID), k=tokens))


def tokens_of(prompt: Prompt, block_tokens: int) -> list[int]:
    """Equal blocks have equal tokens."""
    ids = [token for block in prompt.blocks for token in _block(block, block_tokens)]
    return ids[: prompt.tokens]


def check_lengths(made: Sequence[Request], room: int) -> None:
    """``room``: tokens that a server's GPU pool holds. Raises BenchError."""
    if not made:
        raise BenchError("--minutes is over before the first request: give more minutes")
    longest = max(request.prompt.tokens for request in made)
    if longest > room:
        raise BenchError(
            f"--own-tokens {room} has no room for the longest prompt of {longest} tokens: give at "
            f"least --own-tokens {longest}, or a trace of shorter prompts"
        )


@dataclass(frozen=True)
class Span:
    """When a request was sent, and when its first token came, in seconds of one clock."""

    sent: float
    first: float


def oracle(
    made: Sequence[Request], spans: Sequence[Span], block_tokens: int, page_tokens: int
) -> int:
    """Tokens that a cache without bounds finds, if a prompt is there from its first token on."""
    ends = sorted(range(len(made)), key=lambda i: spans[i].first)
    known: set[int] = set()
    found = done = 0
    for i in sorted(range(len(made)), key=lambda i: spans[i].sent):
        while done < len(ends) and spans[ends[done]].first <= spans[i].sent:
            known.update(made[ends[done]].prompt.blocks)
            done += 1
        prompt = made[i].prompt
        run = 0
        while run < len(prompt.blocks) and prompt.blocks[run] in known:
            run += 1
        # SGLang computes the last token always, and finds whole pages.
        found += min(prompt.tokens - 1, run * block_tokens) // page_tokens * page_tokens
    return found

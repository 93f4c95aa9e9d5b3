"""Prompts as they arrive: of a trace, or generated. Pure."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from peercache_bench.errors import BenchError

# Each generated chat begins with its tenant's system prompt; a turn adds a question and its answer.
_TENANTS, _SYSTEM_TOKENS, _TURN_TOKENS, _THINKING_SECONDS = 20, 2048, 1024, 40.0
_TURNS = 5.0


@dataclass(frozen=True)
class Prompt:
    """One request. Blocks are hashes of the whole prefix up to their end."""

    at: float  # seconds since the first
    tokens: int  # of the prompt, at least 1
    blocks: tuple[int, ...]


@dataclass(frozen=True)
class Trace:
    prompts: tuple[Prompt, ...]  # in order of time
    block_tokens: int  # of each block but a prompt's last

    @property
    def seconds(self) -> float:
        """From the first prompt to the last; at least 1."""
        return max(1.0, self.prompts[-1].at)

    @cached_property
    def distinct_tokens(self) -> int:
        return len({b for p in self.prompts for b in p.blocks}) * self.block_tokens


def parse(lines: Iterable[str], block_tokens: int, second: float) -> Trace:
    """JSON lines with ``hash_ids``, ``timestamp`` (``second`` is one second of it) and
    ``input_length``, as Mooncake and Qwen-Bailian publish them. Raises BenchError."""
    found = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found.append(_prompt(json.loads(line), block_tokens, second))
        except (ValueError, KeyError, TypeError) as error:
            raise BenchError(
                f"line {number} of the trace is not a JSON object with timestamp, input_length and "
                f"hash_ids: {error!r}"
            ) from None
    if not found:
        raise BenchError("the trace has no request: write one JSON object on each line")
    found.sort(key=lambda prompt: prompt.at)
    first = found[0].at
    return Trace(tuple(Prompt(p.at - first, p.tokens, p.blocks) for p in found), block_tokens)


def _prompt(row: dict[str, Any], block_tokens: int, second: float) -> Prompt:
    blocks = tuple(int(block) for block in row["hash_ids"])
    tokens = int(row["input_length"])
    if tokens < 1:
        raise ValueError(f"input_length is {tokens}")
    if -(-tokens // block_tokens) != len(blocks):
        raise ValueError(
            f"{tokens} tokens are not in {len(blocks)} blocks of {block_tokens}: "
            "give --block-tokens"
        )
    return Prompt(float(row["timestamp"]) / second, tokens, blocks)


def chats(requests: int, a_second: float, seed: int, block_tokens: int = 512) -> Trace:
    """Conversations of several turns. The same arguments give the same trace on every machine."""
    chance = random.Random(seed)
    made: list[tuple[float, int, tuple[int, ...]]] = []
    fresh = iter(range(1, 1 << 62))
    system = [_take(fresh, _SYSTEM_TOKENS // block_tokens or 1) for _ in range(_TENANTS)]
    start = 0.0
    while len(made) < requests:
        start += chance.expovariate(a_second / _TURNS)
        blocks = system[int(_TENANTS * chance.random() ** 2)]
        at = start
        while True:
            blocks = blocks + _take(
                fresh, max(1, round(chance.expovariate(block_tokens / _TURN_TOKENS)))
            )
            made.append((at, len(blocks) * block_tokens, blocks))
            if chance.random() < 1 / _TURNS:
                break
            at += chance.expovariate(1 / _THINKING_SECONDS)
    made.sort()
    kept = made[:requests]
    return Trace(tuple(Prompt(at - kept[0][0], n, b) for at, n, b in kept), block_tokens)


def _take(fresh: Iterator[int], count: int) -> tuple[int, ...]:
    return tuple(next(fresh) for _ in range(count))

"""Sidecars: which prefixes of a hybrid model can be restored.

Hybrid models keep more than KV per page (Mamba states, sliding windows, indexers), each in a host
pool of its own with its own rule for which of its pages must exist. Pure.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

# Keys in the query after a gap; doubled with every full run. Small, because after an absent page
# the next is often absent too, and an answer never reaches beyond the first absent page.
_KEYS_AFTER_GAP = 16


def presence(keys: Sequence[str], exists: Callable[[Sequence[str]], int]) -> bytes:
    """A flag for each key: whether it exists, by queries that only count the leading run.

    Costs one query when nothing is absent, and one more per absent page.
    """
    present = bytearray()
    chunk = len(keys)
    while len(present) < len(keys):
        asked = keys[len(present) : len(present) + chunk]
        run = min(exists(asked), len(asked))
        present += b"\1" * run
        if run < len(asked):
            present.append(0)
            chunk = _KEYS_AFTER_GAP
        else:
            chunk *= 2
    return bytes(present)


def in_all(answers: Sequence[bytes], count: int) -> bytes:
    """``count`` flags: 1 where all answers have 1; all 0 without an answer."""
    if not answers:
        return bytes(count)
    both = int.from_bytes(answers[0], "little")
    for answer in answers[1:]:
        both &= int.from_bytes(answer, "little")
    return both.to_bytes(count, "little")


def leading_run(present: bytes) -> int:
    """Length of the leading run of 1."""
    run = present.find(0)
    return len(present) if run < 0 else run


def lengths(restorable: bytes) -> list[int]:
    """The restorable prefix lengths: flag i stands for length i + 1."""
    return list(itertools.compress(itertools.count(1), restorable))


def only_leading(run: int, count: int) -> bytes:
    """``count`` flags: 1 for the first ``run``."""
    return b"\1" * run + bytes(count - run)


def restorable_with_all(present: bytes) -> bytes:
    """The restorable prefix lengths, for a pool that needs all pages of the prefix."""
    return only_leading(leading_run(present), len(present))


def restorable_with_trailing(present: bytes, window: int) -> bytes:
    """The same for a pool that needs only the last ``window`` pages of the prefix."""
    if not present:
        return b""
    window = min(max(1, window), len(present))
    # Page i is byte i + window - 1 of a number; pages before the first count as present.
    pages = int.from_bytes(b"\1" * (window - 1) + present, "little")
    covered = 1  # a byte is 1 if this many pages up to its own are present
    while covered < window:
        step = min(covered, window - covered)
        pages &= pages << 8 * step
        covered += step
    return pages.to_bytes(window - 1 + len(present), "little")[window - 1 :]


def covered_by_groups(present: bytes, block_pages: int, group_pages: int) -> int:
    """Pages of KV under the leading complete groups: ``group_pages`` keys for ``block_pages``."""
    if block_pages <= 0 or group_pages <= 0:
        return 0
    return leading_run(present) // group_pages * block_pages

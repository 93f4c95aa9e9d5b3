"""Sidecars: which prefixes of a hybrid model can be restored.

Hybrid models keep more than KV per page (Mamba states, sliding windows, indexers), each in a host
pool of its own with its own rule for which of its pages must exist. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

# Keys asked for in the query after a gap; doubled with every full run. Small, because where one
# page is absent the next often is too, and an answer never reaches beyond the first absent page.
_KEYS_AFTER_GAP = 16


def presence(keys: Sequence[str], leading_run: Callable[[Sequence[str]], int]) -> list[bool]:
    """Which keys exist, found out with a query that only counts the leading run.

    Costs one query when nothing is absent, and one more per absent page.
    """
    present: list[bool] = []
    chunk = len(keys)
    while len(present) < len(keys):
        asked = keys[len(present) : len(present) + chunk]
        run = min(leading_run(asked), len(asked))
        present += [True] * run
        if run < len(asked):
            present.append(False)
            chunk = _KEYS_AFTER_GAP
        else:
            chunk *= 2
    return present


def leading_true(flags: Sequence[bool]) -> int:
    """Length of the leading run of True."""
    for index, flag in enumerate(flags):
        if not flag:
            return index
    return len(flags)


def restorable_with_trailing(present: Sequence[bool], window: int) -> set[int]:
    """Prefix lengths for a pool that needs only the last ``window`` pages of the prefix."""
    window = max(1, window)
    lengths: set[int] = set()
    run = 0
    for length, flag in enumerate(present, start=1):
        run = run + 1 if flag else 0
        if run >= min(window, length):
            lengths.add(length)
    return lengths


def covered_by_groups(present: Sequence[bool], block_pages: int, group_pages: int) -> int:
    """Pages of KV under the leading complete groups: ``group_pages`` keys for ``block_pages``."""
    if block_pages <= 0 or group_pages <= 0:
        return 0
    return leading_true(present) // group_pages * block_pages

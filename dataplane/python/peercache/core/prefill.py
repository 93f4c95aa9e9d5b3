"""PrefillRate: how many tokens' KV an engine computes in a second.

The node compares it with what it has learned of each place where pages are. What takes longer to
bring than to compute is a miss, so that a slow link or drive never makes an engine slower.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable

logger = logging.getLogger(__name__)

# A rate over fewer tokens is that of a few small batches.
_LEAST_TOKENS = 2048
# The weight of a new rate: one odd batch changes little.
_WEIGHT = 0.25
# The node is told of changes beyond this.
_CHANGE = 0.1
_MOST = 2**32 - 1


class PrefillRate:
    """Learned from an engine's own counters, unless the configuration says it.

    ``told``: tokens a second; 0: the node is never told. One thread at a time may call it.
    """

    def __init__(self, told: int | None, tell: Callable[[int], None]) -> None:
        self._learns = told is None
        self._tell = tell
        self._rate = 0.0
        self._told = 0.0
        self._since: tuple[int, float] | None = None
        if told:
            tell(told)

    def counted(self, tokens: int, seconds: float) -> None:
        """How many tokens the engine has computed since its start, and in what time."""
        if not self._learns:
            return
        if self._since is None or tokens < self._since[0] or seconds < self._since[1]:
            self._since = (tokens, seconds)  # the first look, or counters that restarted
            return
        new, took = tokens - self._since[0], seconds - self._since[1]
        if new < _LEAST_TOKENS or took <= 0:
            return
        self._since = (tokens, seconds)
        sample = new / took
        self._rate += (sample - self._rate) * (_WEIGHT if self._rate else 1)
        if abs(self._rate - self._told) > _CHANGE * self._told:
            self._told = self._rate
            self._tell(min(max(1, round(self._rate)), _MOST))


_watched: weakref.WeakSet[PrefillRate] = weakref.WeakSet()


def watch(rate: PrefillRate) -> None:
    """``rate`` gets what the engine of this process counts, while it lives."""
    _watched.add(rate)


def counted(tokens: int, seconds: float) -> None:
    """Passes an engine's counters on. For its scheduler's thread: it never raises."""
    for rate in list(_watched):
        try:
            rate.counted(tokens, seconds)
        except Exception:  # a batch never fails for it
            logger.exception("PeerCache cannot learn how fast this engine computes")

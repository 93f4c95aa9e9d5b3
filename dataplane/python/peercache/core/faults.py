"""Faults: errors that became misses, counted, and logged at most once a minute.

A cache must never fail its engine, so every fault becomes a miss. The counts and the log show it.
"""

from __future__ import annotations

import functools
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

LOG_INTERVAL_SECONDS = 60.0

_Function = TypeVar("_Function", bound=Callable[..., Any])


class Faults:
    """Counts faults by operation. Thread-safe."""

    def __init__(
        self,
        logger: logging.Logger,
        interval: float = LOG_INTERVAL_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._logger = logger
        self._interval = interval
        self._clock = clock
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._unlogged = 0
        self._log_after: float | None = None

    def record(self, operation: str, reason: str, count: int = 1) -> None:
        """Counts ``count`` faults of ``operation``; logs unless the last message is too recent."""
        with self._lock:
            self._counts[operation] += count
            self._unlogged += count
            now = self._clock()
            if self._log_after is not None and now < self._log_after:
                return
            self._log_after = now + self._interval
            unlogged, self._unlogged = self._unlogged, 0
        self._logger.warning(
            "PeerCache answered with misses: %d fault(s) since the last message, latest in %s: %s",
            unlogged,
            operation,
            reason,
        )

    def counts(self) -> dict[str, int]:
        """Faults by operation since the start."""
        with self._lock:
            return dict(self._counts)


def never_raises(
    answer: Callable[..., Any], needs_node: bool = False
) -> Callable[[_Function], _Function]:
    """Makes a method of an object with ``faults`` return ``answer(...)`` instead of raising.

    ``answer`` is called with the method's own arguments, without self. With ``needs_node`` the
    method does nothing and returns the same answer while the object is not ``attached``; that is
    no fault.
    """

    def decorate(method: _Function) -> _Function:
        @functools.wraps(method)
        def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
            if needs_node and not self.attached:
                return answer(*args, **kwargs)
            try:
                return method(self, *args, **kwargs)
            except Exception as error:  # any fault is a miss
                self.faults.record(method.__name__, f"{type(error).__name__}: {error}")
                return answer(*args, **kwargs)

        return wrapper  # type: ignore[return-value]

    return decorate

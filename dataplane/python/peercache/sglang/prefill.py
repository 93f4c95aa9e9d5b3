"""Tells the node how fast this SGLang computes, from the counters of its scheduler.

SGLang counts the tokens that it has computed and the time that its prefill batches took, pauses and
overlaps left out. The scheduler holds them and tells nobody, so its method that takes the result of
a batch is wrapped on its class. The wrapper runs in the scheduler's thread, costs it two reads, and
never fails a batch.
"""

from __future__ import annotations

import functools
import logging
import sys
import weakref
from typing import Any

from peercache.core.prefill import PrefillRate

logger = logging.getLogger(__name__)

_SCHEDULER = "sglang.srt.managers.scheduler"
_METHOD = "process_batch_result"
_TOKENS, _MICROSECONDS = "total_prefill_uncached_tokens", "total_prefill_busy_us"

_rates: weakref.WeakSet[PrefillRate] = weakref.WeakSet()


def watch(rate: PrefillRate) -> None:
    """``rate`` hears of every batch while it lives. Without SGLang's counters it hears nothing."""
    _rates.add(rate)
    scheduler = getattr(sys.modules.get(_SCHEDULER), "Scheduler", None)
    method = getattr(scheduler, _METHOD, None)
    if method is None or getattr(method, "_peercache", False):
        return

    @functools.wraps(method)
    def process(self: Any, *args: Any, **kwargs: Any) -> Any:
        answer = method(self, *args, **kwargs)
        _count(self)
        return answer

    process._peercache = True  # type: ignore[attr-defined]
    setattr(scheduler, _METHOD, process)


def _count(scheduler: Any) -> None:
    tokens = getattr(scheduler, _TOKENS, None)
    microseconds = getattr(scheduler, _MICROSECONDS, None)
    if tokens is None or microseconds is None:
        return
    for rate in list(_rates):
        try:
            rate.counted(tokens, microseconds / 1e6)
        except Exception:  # a batch never fails for it
            logger.exception("PeerCache cannot learn how fast this engine computes")

"""Tells the node how fast this SGLang computes, from the counters of its scheduler.

SGLang counts the tokens that it has computed and the time that its prefill batches took, pauses and
overlaps left out. Only the scheduler has these counters, so its method that takes the result of a
batch is wrapped. The wrapper runs in the scheduler's thread and costs it two reads.
"""

from __future__ import annotations

import sys
from typing import Any

from peercache.core import prefill
from peercache.core.wrapping import wrap

SCHEDULER = "sglang.srt.managers.scheduler"


def watch(rate: prefill.PrefillRate) -> None:
    """``rate`` gets the counters after every batch. Without SGLang's counters it gets nothing."""
    prefill.watch(rate)
    wrap(getattr(sys.modules.get(SCHEDULER), "Scheduler", None), "process_batch_result", _around)


def _around(method: Any) -> Any:
    def process(self: Any, *args: Any, **kwargs: Any) -> Any:
        answer = method(self, *args, **kwargs)
        tokens = getattr(self, "total_prefill_uncached_tokens", None)
        microseconds = getattr(self, "total_prefill_busy_us", None)
        if tokens is not None and microseconds is not None:
            prefill.counted(tokens, microseconds / 1e6)
        return answer

    return process

"""Learns how fast this vLLM computes, from the steps of its scheduler.

vLLM counts no time of its steps, so two methods of its Scheduler are wrapped on the class: the one
that plans a step and the one that takes its result. Steps may overlap; a step counts from its plan
or from the end of the step before, whichever is later. The wrappers run in the scheduler's thread
and never fail a step.
"""

from __future__ import annotations

import functools
import logging
import time
import weakref
from typing import Any

from peercache.core.prefill import PrefillRate

logger = logging.getLogger(__name__)

# Steps of fewer tokens decode for the most part.
_LEAST_TOKENS = 256
# Steps that are planned and whose result has not come; more than vLLM ever has under way.
_MOST_OPEN = 64

_rates: weakref.WeakSet[PrefillRate] = weakref.WeakSet()


class Steps:
    """Tokens of steps, and the time that they took. The scheduler's thread alone uses it."""

    def __init__(self) -> None:
        self.tokens = 0
        self.seconds = 0.0
        self._planned: dict[int, float] = {}  # by the identity of the plan
        self._ended = 0.0

    def planned(self, plan: Any, now: float) -> None:
        while len(self._planned) >= _MOST_OPEN:
            self._planned.pop(next(iter(self._planned)))
        self._planned[id(plan)] = now

    def ended(self, plan: Any, tokens: int, now: float) -> bool:
        """Whether the step counts."""
        began = self._planned.pop(id(plan), None)
        last, self._ended = self._ended, now
        if began is None or tokens < _LEAST_TOKENS:
            return False
        self.tokens += tokens
        self.seconds += now - max(began, last)
        return True


def watch(rate: PrefillRate, scheduler: type[Any]) -> None:
    """``rate`` hears of every step of vLLM's ``Scheduler`` while it lives."""
    _rates.add(rate)
    if getattr(scheduler, "_peercache_steps", None) is not None:
        return
    steps = scheduler._peercache_steps = Steps()
    plan, take = scheduler.schedule, scheduler.update_from_output

    @functools.wraps(plan)
    def schedule(self: Any, *args: Any, **kwargs: Any) -> Any:
        output = plan(self, *args, **kwargs)
        steps.planned(output, time.monotonic())
        return output

    @functools.wraps(take)
    def update_from_output(self: Any, scheduler_output: Any, *args: Any, **kwargs: Any) -> Any:
        tokens = int(getattr(scheduler_output, "total_num_scheduled_tokens", 0))
        if steps.ended(scheduler_output, tokens, time.monotonic()):
            for rate in list(_rates):
                try:
                    rate.counted(steps.tokens, steps.seconds)
                except Exception:  # a step never fails for it
                    logger.exception("PeerCache cannot learn how fast this engine computes")
        return take(self, scheduler_output, *args, **kwargs)

    scheduler.schedule = schedule
    scheduler.update_from_output = update_from_output

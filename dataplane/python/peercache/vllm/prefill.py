"""Learns how fast this vLLM computes, from the steps of its scheduler.

vLLM counts no time of its steps, so two methods of its Scheduler are wrapped: the one that plans a
step and the one that takes its result. Steps may overlap; a step counts from its plan or from the
end of the step before, whichever is later. The wrappers run in the scheduler's thread.
"""

from __future__ import annotations

import time
from typing import Any

from peercache.core import prefill
from peercache.core.wrapping import wrap

# Steps of fewer tokens decode for the most part.
_LEAST_TOKENS = 256
# Steps that are planned and whose result has not come; more than vLLM ever has under way.
_MOST_OPEN = 64


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


_steps = Steps()


def watch(rate: prefill.PrefillRate, scheduler: type[Any]) -> None:
    """``rate`` gets the counts after every step of vLLM's ``Scheduler``."""
    prefill.watch(rate)
    wrap(scheduler, "schedule", _around_schedule)
    wrap(scheduler, "update_from_output", _around_update)


def _around_schedule(method: Any) -> Any:
    def schedule(self: Any, *args: Any, **kwargs: Any) -> Any:
        plan = method(self, *args, **kwargs)
        _steps.planned(plan, time.monotonic())
        return plan

    return schedule


def _around_update(method: Any) -> Any:
    def update_from_output(self: Any, scheduler_output: Any, *args: Any, **kwargs: Any) -> Any:
        tokens = int(getattr(scheduler_output, "total_num_scheduled_tokens", 0))
        if _steps.ended(scheduler_output, tokens, time.monotonic()):
            prefill.counted(_steps.tokens, _steps.seconds)
        return method(self, scheduler_output, *args, **kwargs)

    return update_from_output

"""How fast an engine computes: learned from its counters, or told."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from peercache.core.prefill import PrefillRate
from peercache.vllm import prefill as of_vllm


def test_the_node_is_told_when_the_rate_is_known_and_when_it_changes() -> None:
    told: list[int] = []
    rate = PrefillRate(None, told.append)
    rate.counted(5_000, 100.0)  # from before the attach
    rate.counted(5_100, 100.1)
    assert told == [], "too few tokens to tell"
    rate.counted(25_000, 101.0)
    assert told == [20_000]
    rate.counted(45_000, 102.01)
    assert told == [20_000], "about the same"
    for second in range(103, 140):
        rate.counted(45_000 + 5_000 * (second - 102), second + 0.01)
    assert told[-1] == pytest.approx(5_000, rel=0.2)
    assert len(told) < 12


def test_counters_that_begin_anew_are_no_rate() -> None:
    told: list[int] = []
    rate = PrefillRate(None, told.append)
    rate.counted(50_000, 10.0)
    rate.counted(0, 0.0)
    rate.counted(3_000, 1.0)
    assert told == [3_000]


@pytest.mark.parametrize(("given", "told"), [(12_000, [12_000]), (0, [])])
def test_what_the_configuration_says_is_not_learned(given: int, told: list[int]) -> None:
    heard: list[int] = []
    rate = PrefillRate(given, heard.append)
    rate.counted(0, 0.0)
    rate.counted(1_000_000, 1.0)
    assert heard == told


def test_steps_of_vllm_that_overlap_count_once() -> None:
    steps = of_vllm.Steps()
    one, two, decode = (SimpleNamespace() for _ in range(3))
    steps.planned(one, 10.0)
    steps.planned(two, 10.5)
    assert steps.ended(one, 1000, 11.0)
    assert steps.ended(two, 1000, 12.0)
    assert (steps.tokens, steps.seconds) == (2000, 2.0)
    steps.planned(decode, 20.0)
    assert not steps.ended(decode, 8, 20.5), "decoding is another rate"
    assert not steps.ended(SimpleNamespace(), 1000, 21.0), "its plan was not seen"
    assert (steps.tokens, steps.seconds) == (2000, 2.0)


def test_vllm_goes_on_whatever_becomes_of_the_rate() -> None:
    class Scheduler:
        def schedule(self, throttle: bool = False) -> SimpleNamespace:
            return SimpleNamespace(total_num_scheduled_tokens=4096)

        def update_from_output(self, scheduler_output: object, output: str) -> str:
            return output

    told: list[int] = []
    rate = PrefillRate(None, told.append)

    def fail(tokens: int, seconds: float) -> None:
        raise RuntimeError

    broken = PrefillRate(None, told.append)
    broken.counted = fail  # type: ignore[method-assign]
    for watched in (broken, rate, rate):
        of_vllm.watch(watched, Scheduler)
    scheduler = Scheduler()
    for _ in range(3):
        plan = scheduler.schedule()
        assert scheduler.update_from_output(scheduler_output=plan, output="out") == "out"
    assert told

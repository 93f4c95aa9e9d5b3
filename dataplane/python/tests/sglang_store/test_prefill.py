"""The node learns how fast SGLang computes, from the counters of the scheduler."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

import pytest
from peercache.sglang import prefill

from .conftest import host_pool
from .fakes import FakeCluster

Make = Callable[..., Any]


class Scheduler:
    """Counts as SGLang's does."""

    def __init__(self) -> None:
        self.total_prefill_uncached_tokens = 0
        self.total_prefill_busy_us = 0

    def process_batch_result(self, tokens: int, microseconds: int) -> str:
        self.total_prefill_uncached_tokens += tokens
        self.total_prefill_busy_us += microseconds
        return "done"


@pytest.fixture
def scheduler(monkeypatch: pytest.MonkeyPatch) -> Scheduler:
    module = types.ModuleType("scheduler")
    module.Scheduler = type("Scheduler", (Scheduler,), {})  # type: ignore[attr-defined]
    module.Scheduler.process_batch_result = Scheduler.process_batch_result  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, prefill.SCHEDULER, module)
    made: Scheduler = module.Scheduler()  # type: ignore[attr-defined]
    return made


def test_each_batch_tells(make_store: Make, cluster: FakeCluster, scheduler: Scheduler) -> None:
    store = make_store(host_pool("mha", "page_first"))
    for _ in range(3):
        assert scheduler.process_batch_result(4096, 204_800) == "done"
    assert cluster.clients[-1].prefill == [20_000]
    store.close()


def test_a_rate_that_was_told_is_not_learned(
    make_store: Make, cluster: FakeCluster, scheduler: Scheduler
) -> None:
    store = make_store(host_pool("mha", "page_first"), extra={"prefill_tokens_per_second": 7000})
    for _ in range(3):
        scheduler.process_batch_result(4096, 204_800)
    assert cluster.clients[-1].prefill == [7000]
    store.close()

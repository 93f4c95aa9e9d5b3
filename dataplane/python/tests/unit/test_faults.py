"""Faults: all counted, few logged, none raised."""

from __future__ import annotations

import logging

import pytest
from peercache.core.faults import Faults, never_raises


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_logs_at_most_once_a_minute_and_says_what_it_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    faults = Faults(logging.getLogger("test"), clock=clock)
    faults.record("get", "node gone")
    for _ in range(1000):
        clock.now += 0.05
        faults.record("get", "still gone")
    assert len(messages(caplog)) == 1
    clock.now += 60
    faults.record("set", "timeout", count=3)
    assert messages(caplog) == [
        "PeerCache answered with misses: 1 fault(s) since the last message, latest in get: node "
        "gone",
        "PeerCache answered with misses: 1003 fault(s) since the last message, latest in set: "
        "timeout",
    ]
    assert faults.counts() == {"get": 1001, "set": 3}


class Store:
    attached = True

    def __init__(self) -> None:
        self.faults = Faults(logging.getLogger("test"))

    @never_raises(lambda keys: [False] * len(keys))
    def get(self, keys: list[str]) -> list[bool]:
        if "bad" in keys:
            raise RuntimeError("boom")
        return [True] * len(keys)

    @never_raises(lambda keys: len(keys), needs_node=True)
    def missing(self, keys: list[str]) -> int:
        return -len(keys)

    @never_raises(lambda: None)
    def stop(self) -> None:
        raise KeyboardInterrupt


def test_an_exception_becomes_the_answer() -> None:
    store = Store()
    assert store.get(["a"]) == [True]
    assert store.get(["a", "bad"]) == [False, False]
    assert store.faults.counts() == {"get": 1}


def test_what_is_no_fault_of_the_cache_passes() -> None:
    with pytest.raises(KeyboardInterrupt):
        Store().stop()


def test_without_a_node_the_answer_is_given_at_once_and_is_no_fault() -> None:
    store = Store()
    assert store.missing(["a"]) == -1
    store.attached = False
    assert store.missing(["a"]) == 1
    assert store.get(["a"]) == [True], "it needs no node"
    assert store.faults.counts() == {}

"""Tasks: transfers that LMCache waits for by an eventfd, and the thread that sees them done."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from peercache._peercache import AsyncCall

_Result = TypeVar("_Result")


class Results(Generic[_Result]):
    """Results of one kind of task, by number, and the eventfd that says that there are new ones.

    Thread-safe.
    """

    def __init__(self) -> None:
        self.event_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._lock = threading.Lock()
        self._done: dict[int, _Result] = {}

    def put(self, task: int, result: _Result) -> None:
        with self._lock:
            self._done[task] = result
        os.eventfd_write(self.event_fd, 1)

    def take(self, task: int) -> _Result | None:
        with self._lock:
            return self._done.pop(task, None)

    def take_all(self) -> dict[int, _Result]:
        with self._lock:
            done, self._done = self._done, {}
        return done

    def close(self) -> None:
        os.close(self.event_fd)


@dataclass
class _Waiting:
    """Calls of one task: which pages each has, and what to do with all answers."""

    calls: Sequence[tuple[AsyncCall, Sequence[int]]]
    pages: int
    done: Callable[[list[bool]], None]


class Reaper:
    """Waits for calls in the order in which they were begun; each is bounded in time. Thread-safe.

    Costs: a thread.
    """

    def __init__(self) -> None:
        self._wake = threading.Condition()
        self._waiting: deque[_Waiting] = deque()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="peercache-l2", daemon=True)
        self._thread.start()

    def watch(
        self,
        calls: Sequence[tuple[AsyncCall, Sequence[int]]],
        pages: int,
        done: Callable[[list[bool]], None],
    ) -> None:
        """Calls ``done`` with a flag a page, from the thread. Pages of no call are False."""
        with self._wake:
            self._waiting.append(_Waiting(calls, pages, done))
            self._wake.notify()

    def close(self) -> None:
        """Returns when all is done that was begun."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._wake:
                while not self._waiting:
                    if self._stopping:
                        return
                    self._wake.wait()
                task = self._waiting.popleft()
            flags = [False] * task.pages
            for call, pages in task.calls:
                while not call.wait(1.0):
                    pass
                for page, ok in zip(pages, call.pages() or (), strict=True):
                    flags[page] = ok
            task.done(flags)

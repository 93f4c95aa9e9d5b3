"""PeerCacheTier: vLLM's second tier on a node of PeerCache.

Runs in the scheduler's thread (from 0.33 also in a thread that polls, under the same lock), so
nothing here waits for the node, except for the answer whether a request's pages are there: at most
``_WAIT_SECONDS``, and only while no other question is open. Otherwise vLLM asks again in its next
step. A question that is open for ``_LATE_SECONDS`` is a miss. So is every new one until the first
open one is answered: a node that hangs costs each request 50 ms at most, and soon nothing.

A page is a row of vLLM's host pool. The node reads and writes the rows in place.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.kv_offload.base import LookupResult, Medium, RequestOffloadingContext
from vllm.v1.kv_offload.tiering.base import JobResult, SecondaryTierManager

from peercache.core.attachment import Attachment, engine_name
from peercache.core.config import ConfigError
from peercache.core.digest import block_hash
from peercache.core.faults import Faults, never_raises
from peercache.core.shared_memory import regions
from peercache.vllm import compat, prefill
from peercache.vllm.identity import Layout

if TYPE_CHECKING:
    from peercache._peercache import AsyncCall
    from peercache.vllm.connector import Engine

logger = logging.getLogger(__name__)

_Started = tuple["AsyncCall | None", str]
_WAIT_SECONDS = 300e-6
_LATE_SECONDS = 0.05
# Requests at work at once. Questions have their own: they must not wait behind pages.
_MOVES, _QUESTIONS = 4, 2
_GROUP_BYTES = 4  # a key of vLLM: the hash of the block, and the number of its group of layers


def _miss(*_: Any) -> LookupResult:
    return LookupResult.MISS


def _nothing(*_: Any) -> None:
    return None


@dataclass
class _Question:
    """What one request asks: is each of its pages there?"""

    asked_at: float = 0.0
    calls: list[tuple[AsyncCall, list[bytes]]] = field(default_factory=list)
    asked: set[bytes] = field(default_factory=set)  # keys of these calls
    unasked: dict[bytes, None] = field(default_factory=dict)  # in order, for the end of this step
    there: dict[bytes, bool] = field(default_factory=dict)

    def take_answers(self) -> None:
        waiting = []
        for call, keys in self.calls:
            pages = call.pages()
            if pages is None:
                waiting.append((call, keys))
            else:
                self.there.update(zip(keys, pages, strict=True))
                self.asked.difference_update(keys)
        self.calls = waiting


@dataclass
class _Job:
    """A transfer that vLLM waits for."""

    request: str
    keys: list[bytes]
    load: bool
    parts: list[tuple[AsyncCall, list[bytes]]] = field(default_factory=list)

    @classmethod
    def of(cls, job: Any, *, load: bool) -> _Job:
        return cls(job.req_context.req_id, list(job.keys), load)


class PeerCacheTier(SecondaryTierManager):
    medium = Medium.STORAGE
    tolerates_off_thread_polling = True  # 0.33: loads are seen to be done between steps, too

    def __init__(
        self,
        offloading_spec: Any,
        primary_kv_view: memoryview,
        tier_type: str,
        backpressure_detector: Any = None,
        *,
        engine: Engine | None = None,
        weights: str = "",
    ) -> None:
        more = compat.tier_arguments(backpressure_detector)
        super().__init__(offloading_spec, primary_kv_view, tier_type, *more)
        if engine is None:
            raise ConfigError(
                "the tier PeerCacheTier needs the connector PeerCacheConnector, which knows the "
                'weights: write "kv_connector": "PeerCacheConnector", "kv_connector_module_path": '
                '"peercache.vllm"'
            )
        self.faults = Faults(logger)
        self._engine, self._weights = engine, weights
        self._config = offloading_spec.config
        rows = np.asarray(primary_kv_view)
        self._base, self._row = int(rows.ctypes.data), int(rows.strides[0])
        self._node = Attachment(engine.settings, engine_name(self._config.model.name, "vllm"))
        prefill.watch(self._node.prefill, Scheduler)
        self.shared_bytes = self._node.share(regions(self._base, rows.nbytes))
        self._moves = self._node.asynchronous(_MOVES)
        self._questions = self._node.asynchronous(_QUESTIONS)
        self._layout: Layout | None = None
        self._prefixes: dict[tuple[str, int], bytes] = {}
        self._epoch = ""  # of the prefixes
        self._asked: dict[str, _Question] = {}
        self._to_ask: set[str] = set()  # requests with keys that are not asked for yet
        self._open: AsyncCall | None = None
        self._open_since = 0.0
        self._jobs: dict[int, _Job] = {}
        self._events: list[Any] = []

    # ---- requests -------------------------------------------------------------------------------

    def on_new_request(self, req_context: Any) -> RequestOffloadingContext:
        return RequestOffloadingContext()

    @never_raises(_nothing)
    def on_request_finished(self, req_context: Any) -> None:
        self._asked.pop(req_context.req_id, None)
        self._engine.forget(req_context.req_id)

    @never_raises(_miss, needs_node=True)
    def lookup(self, key: bytes, req_context: Any) -> LookupResult:
        request, now = req_context.req_id, time.monotonic()
        question = self._asked.setdefault(request, _Question())
        question.take_answers()
        if key not in question.there and not question.calls and not question.unasked:
            if self._is_open() and now - self._open_since > _LATE_SECONDS:
                return LookupResult.MISS
            keys = compat.keys_from(req_context, key)
            if not keys:
                return self._ask_later(question, request, key)
            self._ask(question, request, keys, now)
            question.take_answers()
        there = question.there.get(key)
        if there is not None:
            return LookupResult.HIT if there else LookupResult.MISS
        if question.calls and now - question.asked_at > _LATE_SECONDS:
            return LookupResult.MISS
        if key in question.asked:
            return LookupResult.RETRY
        return self._ask_later(question, request, key)

    def _ask_later(self, question: _Question, request: str, key: bytes) -> LookupResult:
        question.unasked[key] = None
        self._to_ask.add(request)
        return LookupResult.RETRY

    @never_raises(_nothing)
    def on_schedule_end(self, context: Any) -> None:
        now = time.monotonic()
        for request in list(self._to_ask):
            question = self._asked.get(request)
            if question is not None and question.calls:
                continue  # one after the other
            self._to_ask.discard(request)
            if question is not None:
                keys, question.unasked = list(question.unasked), {}
                self._ask(question, request, keys, now, wait=0.0)

    def _ask(
        self,
        question: _Question,
        request: str,
        keys: Sequence[bytes],
        now: float,
        wait: float = _WAIT_SECONDS,
    ) -> None:
        """Asks, and waits for the answer unless another question waits already."""
        wait = 0.0 if self._is_open() else wait
        question.asked_at = now
        for group, prefix, part in self._by_group(keys, request):
            call, why = self._questions.presence(prefix, _hashes(part), self._counted(group))
            if call is None:
                self.faults.record("presence", why)
                continue
            question.calls.append((call, part))
            question.asked.update(part)
            if self._open is None:
                self._open, self._open_since = call, now
        for call, _ in question.calls:
            call.wait(max(0.0, now + wait - time.monotonic()))
        question.there.update((key, False) for key in keys if key not in question.asked)

    def _is_open(self) -> bool:
        """Whether a question is open, the first of those that are."""
        if self._open is not None and self._open.done():
            self._open = None
        return self._open is not None

    # ---- transfers ------------------------------------------------------------------------------

    def submit_store(self, job_metadata: Any) -> None:
        def store(_: int, prefix: bytes, keys: list[bytes], ptrs: list[int]) -> _Started:
            sizes = [self._row] * len(ptrs)
            return self._moves.set(prefix, self._engine.clear_tag, keys, ptrs, sizes)

        self._jobs[job_metadata.job_id] = job = _Job.of(job_metadata, load=False)
        self._start(job, compat.job_rows(job_metadata), store)

    def submit_load(self, job_metadata: Any) -> None:
        def load(group: int, prefix: bytes, keys: list[bytes], ptrs: list[int]) -> _Started:
            sizes = [self._row] * len(ptrs)
            return self._moves.get(prefix, keys, ptrs, sizes, self._counted(group))

        self._jobs[job_metadata.job_id] = job = _Job.of(job_metadata, load=True)
        self._start(job, compat.job_rows(job_metadata), load)

    @never_raises(_nothing, needs_node=True)
    def _start(self, job: _Job, rows: list[int], start: Callable[..., _Started]) -> None:
        """What cannot be started is a page that was not moved."""
        row_of = dict(zip(job.keys, rows, strict=True))
        for group, prefix, part in self._by_group(job.keys, job.request):
            ptrs = [self._base + row_of[key] * self._row for key in part]
            call, why = start(group, prefix, _hashes(part), ptrs)
            if call is None:
                self.faults.record("load" if job.load else "store", why)
            else:
                job.parts.append((call, part))

    def get_finished_jobs(self) -> Iterable[JobResult]:
        finished = []
        for job_id, job in list(self._jobs.items()):
            if all(call.done() for call, _ in job.parts):
                del self._jobs[job_id]
                finished.append(self._result(job_id, job))
        return finished

    def _result(self, job_id: int, job: _Job) -> JobResult:
        moved = [
            key
            for call, keys in job.parts
            for key, ok in zip(keys, call.pages() or [], strict=True)
            if ok
        ]
        success = len(moved) == len(job.keys)
        if job.load and not success and job.request in self._asked:
            # A page that has left meanwhile is a miss from now on: vLLM would load it for ever.
            there = self._asked[job.request].there
            there.update(dict.fromkeys(set(job.keys).difference(moved), False))
        if not job.load and moved and self._config.enable_kv_cache_events:
            self._events.append(compat.stored_event(moved, self.medium))
        moved_bytes = len(moved) * self._row
        return compat.job_result(job_id, success, moved if job.load else None, moved_bytes)

    def has_pending_work(self) -> bool:
        return bool(self._jobs)

    def take_events(self) -> Iterable[Any]:
        """vLLM adds tokens and parents to them, and publishes them."""
        events, self._events = self._events, []
        return events

    def drain_jobs(self) -> None:
        """Returns when no transfer touches the host pool; the client's time-out bounds it."""
        for job in self._jobs.values():
            for call, _ in job.parts:
                while not call.wait(1.0):
                    pass

    def shutdown(self) -> None:
        self.drain_jobs()
        self._moves.close()
        self._questions.close()
        self._node.close()

    # ---- inside ---------------------------------------------------------------------------------

    @property
    def attached(self) -> bool:
        return bool(self._node.client.attached)

    def _counted(self, group: int) -> int | None:
        """Tokens of a page, for the node's hit ratio; the first group counts for all of them."""
        first = self._config.groups[0]
        if group != getattr(first, "group_id", 0):
            return None
        return int(first.tokens_per_block * self._config.cache.blocks_per_chunk)

    def _by_group(
        self, keys: Sequence[bytes], request: str
    ) -> Iterator[tuple[int, bytes, list[bytes]]]:
        """(group of layers, prefix, keys). None for a request whose adapter has no identity."""
        adapter = self._engine.adapter_of(request)
        if adapter is None:
            return
        groups: dict[bytes, list[bytes]] = {}
        for key in keys:
            groups.setdefault(key[-_GROUP_BYTES:], []).append(key)
        for number, part in groups.items():
            group = int.from_bytes(number, "big")
            yield group, self._prefix(adapter, group), part

    def _prefix(self, adapter: str, group: int) -> bytes:
        epoch = self._engine.epoch.name
        if epoch != self._epoch:
            self._prefixes.clear()
            self._epoch = epoch
        prefix = self._prefixes.get((adapter, group))
        if prefix is None:
            if self._layout is None:  # not before: vLLM draws its hash seed after the tiers are up
                self._layout = Layout.of(
                    self._config, self._row, compat.VERSION, compat.device(), compat.hash_seed()
                )
            prefix = self._prefixes[adapter, group] = self._layout.prefix(
                weights=self._weights,
                tag=self._engine.settings.tag,
                epoch=epoch,
                adapter=adapter,
                group=group,
            )
        return prefix


def _hashes(keys: Iterable[bytes]) -> list[bytes]:
    return [block_hash(key[:-_GROUP_BYTES]) for key in keys]

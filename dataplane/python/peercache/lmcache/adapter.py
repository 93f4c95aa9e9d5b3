"""PeerCacheL2Adapter: LMCache's L2AdapterInterface on a PeerCache node.

An absent node is no error: lookups find nothing, stores and loads fail, and LMCache computes. A
lookup locks nothing: a chunk that leaves before its load is a load that failed, which LMCache
counts as a miss.

Thread-safe: LMCache calls it from two threads. No method waits for the node.
"""

from __future__ import annotations

import itertools
import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import lmcache
from lmcache.lmcache_native import Bitmap
from lmcache.v1.distributed import api
from lmcache.v1.distributed.internal_api import L2StoreResult
from lmcache.v1.distributed.l2_adapters.base import L2AdapterInterface

from peercache.core.attachment import Attachment, engine_name
from peercache.core.checkpoint import Checkpoint, Unidentified
from peercache.core.config import parse_of_socket
from peercache.core.digest import block_hash, clear_tag, digest
from peercache.core.faults import Faults
from peercache.core.shared_memory import regions
from peercache.lmcache.tasks import Reaper, Results

if TYPE_CHECKING:
    from peercache._peercache import AsyncCall

logger = logging.getLogger(__name__)

_MOVES, _QUESTIONS = 4, 2
_Name = tuple[str, int, int, str]  # model, rank, group of layers, salt


class Models:
    """What stands for the weights of a model, by its name in LMCache's keys. Thread-safe."""

    def __init__(self, tag: str) -> None:
        self._tag = tag
        self._lock = threading.Lock()
        self._known: dict[str, str | None] = {}

    def weights(self, name: str) -> str | None:
        """The digest of the checkpoint of that name on this machine; "" where the tag alone names
        the weights; None where nothing does, and the model's chunks are not shared.
        """
        with self._lock:
            if name not in self._known:
                self._known[name] = self._identify(name)
            return self._known[name]

    def _identify(self, name: str) -> str | None:
        try:
            return Checkpoint(name).identity()
        except Unidentified as error:
            if self._tag:
                return ""
            logger.warning(
                "PeerCache shares no chunks of %s, because its weights cannot be identified (%s): "
                'set "tag" in adapter_params to a text that names these weights, the same in all '
                "servers of exactly them, and in no others",
                name,
                error,
            )
            return None


class PeerCacheL2Adapter(L2AdapterInterface):
    def __init__(self, params: Mapping[str, object], l1_memory_desc: Any = None) -> None:
        super().__init__(0)
        self.faults = Faults(logger)
        self._config = parse_of_socket(params, os.environ, "adapter_params")
        self._models = Models(self._config.tag)
        self._node = Attachment(self._config, engine_name("lmcache", "l2"))
        self.shared_bytes = 0
        if l1_memory_desc is not None:
            self.shared_bytes = self._node.share(regions(l1_memory_desc.ptr, l1_memory_desc.size))
        if not self.shared_bytes:
            logger.warning(
                "PeerCache copies chunks through its staging ring, because LMCache's memory is not "
                "shared: start the server with --shm-name NAME --no-l1-use-lazy"
            )
        self._moves = self._node.asynchronous(_MOVES)
        self._questions = self._node.asynchronous(_QUESTIONS)
        self._numbers = itertools.count(1)
        self._prefixes: dict[_Name, bytes] = {}
        self._stored: Results[L2StoreResult] = Results()
        self._found: Results[Bitmap] = Results()
        self._loaded: Results[Bitmap] = Results()
        # A question must not wait behind a transfer.
        self._moving, self._asking = Reaper(), Reaper()

    def get_store_event_fd(self) -> int:
        return self._stored.event_fd

    def get_lookup_and_lock_event_fd(self) -> int:
        return self._found.event_fd

    def get_load_event_fd(self) -> int:
        return self._loaded.event_fd

    def get_memory_tags(self) -> Any:
        """For 0.5.7: chunks may be in the memory of any machine."""
        return api.MemoryTags(api.MemorySegment.STORAGE, api.MemoryResidency.REMOTE)

    def submit_store_task(self, keys: list[Any], objects: list[Any]) -> int:
        sizes = [o.get_size() for o in objects]

        def store(prefix: bytes, which: Sequence[int], hashes: list[bytes]) -> Any:
            tag = clear_tag(keys[which[0]].model_name, self._config.tag)
            ptrs = [objects[i].data_ptr for i in which]
            return self._moves.set(prefix, tag, hashes, ptrs, [sizes[i] for i in which])

        def done(task: int, ok: list[bool]) -> None:
            kept = [i for i, stored in enumerate(ok) if stored]
            if kept:
                self._notify_keys_stored([keys[i] for i in kept], [sizes[i] for i in kept])
            self._stored.put(task, L2StoreResult(all(ok), sum(sizes[i] for i in kept)))

        return self._begin(keys, store, done, self._moving)

    def pop_completed_store_tasks(self) -> dict[int, L2StoreResult]:
        return self._stored.take_all()

    def submit_lookup_and_lock_task(
        self, keys: list[Any], group_layout_descs: Mapping[int, Any] | None = None
    ) -> int:
        def ask(prefix: bytes, _: Sequence[int], hashes: list[bytes]) -> Any:
            return self._questions.presence(prefix, hashes)

        return self._begin(keys, ask, self._put_bits(self._found), self._asking)

    def query_lookup_and_lock_result(self, task_id: int) -> Bitmap | None:
        return self._found.take(task_id)

    def submit_unlock(self, keys: list[Any]) -> None:
        pass

    def submit_touch(self, keys: list[Any]) -> None:
        pass

    def submit_load_task(self, keys: list[Any], objects: list[Any]) -> int:
        def load(prefix: bytes, which: Sequence[int], hashes: list[bytes]) -> Any:
            ptrs = [objects[i].data_ptr for i in which]
            return self._moves.get(prefix, hashes, ptrs, [objects[i].get_size() for i in which])

        return self._begin(keys, load, self._put_bits(self._loaded), self._moving)

    def query_load_result(self, task_id: int) -> Bitmap | None:
        return self._loaded.take(task_id)

    def delete(self, keys: list[Any]) -> None:
        """Nothing: the node evicts by itself, and other servers may use the chunks."""

    def close(self) -> None:
        for reaper in (self._moving, self._asking):
            reaper.close()
        self._moves.close()
        self._questions.close()
        self._node.close()
        for results in (self._stored, self._found, self._loaded):
            results.close()

    def report_status(self) -> dict[str, Any]:
        return {
            "is_healthy": bool(self._node.client.attached),
            "shared_bytes": self.shared_bytes,
            **self._node.client.stats(),
        }

    # ---- inside ---------------------------------------------------------------------------------

    def _begin(
        self,
        keys: Sequence[Any],
        start: Callable[[bytes, Sequence[int], list[bytes]], tuple[AsyncCall | None, str]],
        done: Callable[[int, list[bool]], None],
        reaper: Reaper,
    ) -> int:
        """The number of a new task. What cannot be started is a page that was not found."""
        task = next(self._numbers)
        calls = []
        if self._node.client.attached:
            for prefix, which in self._by_prefix(keys):
                call, why = start(prefix, which, [block_hash(keys[i].chunk_hash) for i in which])
                if call is None:
                    self.faults.record("submit", why)
                else:
                    calls.append((call, which))
        reaper.watch(calls, len(keys), lambda ok: done(task, ok))
        return task

    def _by_prefix(self, keys: Sequence[Any]) -> Iterator[tuple[bytes, list[int]]]:
        named: dict[_Name, list[int]] = {}
        for i, key in enumerate(keys):
            name: _Name = (key.model_name, key.kv_rank, key.object_group_id, key.cache_salt)
            named.setdefault(name, []).append(i)
        for name, which in named.items():
            weights = self._models.weights(name[0])
            if weights is not None:
                yield self._prefix(name, weights), which

    def _prefix(self, name: _Name, weights: str) -> bytes:
        if name not in self._prefixes:
            model, rank, group, salt = name
            fields = {
                "engine": f"lmcache {getattr(lmcache, '__version__', '')}",
                "model": "" if weights else model,
                "weights": weights,
                "tag": self._config.tag,
                "rank": rank,
                "group": group,
                "salt": salt,
            }
            self._prefixes[name] = digest("lmcache pages", fields)
        return self._prefixes[name]

    def _put_bits(self, results: Results[Bitmap]) -> Callable[[int, list[bool]], None]:
        def done(task: int, ok: list[bool]) -> None:
            bits = Bitmap(len(ok))
            for i, good in enumerate(ok):
                if good:
                    bits.set(i)
            results.put(task, bits)

        return done

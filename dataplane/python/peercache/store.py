"""PeerCacheStore: SGLang's HiCacheStorage on a PeerCache node. Written against SGLang 0.5.23.

SGLang calls it as ``PeerCacheStore(storage_config, {})`` from the backend ``dynamic``. What can be
wrong about the configuration raises during the attach; afterwards nothing raises: a fault is a
miss, counted in ``faults`` and logged at most once a minute.

All methods are thread-safe: SGLang backs up, queries and prefetches from one thread each.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from sglang.srt.mem_cache.hicache_storage import HiCacheStorage, PoolName, PoolTransferResult

from peercache import identity, pools, sidecars
from peercache.attachment import Attachment, engine_name
from peercache.config import ConfigError, parse
from peercache.faults import Faults, never_raises
from peercache.identity import Pages
from peercache.metrics import TransferMetrics
from peercache.namespace import all_page_hashes, clear_tag, page_hash
from peercache.page_map import place
from peercache.segments import Segments

logger = logging.getLogger(__name__)

_KV = "kv"


def _all_false(keys: Sequence[str] = (), *_: Any, **__: Any) -> list[bool]:
    return [False] * len(keys)


def _all_none(keys: Sequence[str] = (), *_: Any, **__: Any) -> list[None]:
    return [None] * len(keys)


def _each_false(transfers: Sequence[Any] = (), *_: Any, **__: Any) -> dict[Any, list[bool]]:
    return {transfer.name: [False] * len(transfer.keys or []) for transfer in transfers}


def _zero(*_: Any, **__: Any) -> int:
    return 0


def _false(*_: Any, **__: Any) -> bool:
    return False


def _none(*_: Any, **__: Any) -> None:
    return None


def _no_hit(*_: Any, **__: Any) -> Any:
    return PoolTransferResult(0, {}, [])


class PeerCacheStore(HiCacheStorage):
    """One per SGLang rank and attach."""

    def __init__(self, storage_config: Any, kwargs: Any = None) -> None:
        self.faults = Faults(logger)
        self._storage = storage_config
        self._config = parse(
            storage_config.extra_config or {}, os.environ, int(storage_config.tp_size)
        )
        model = identity.model_name(storage_config, self._config.tag)
        self._tag = clear_tag(model, self._config.tag)
        self._kv: Pages | None = None
        self._logical_anchor = False
        self._sidecars: dict[str, Pages] = {}
        self._metrics = TransferMetrics(bool(storage_config.enable_storage_metrics))
        for note in self._config.notes:
            logger.warning("PeerCache: %s", note)
        self._node = Attachment(
            self._config,
            engine_name(model, int(storage_config.tp_rank), int(storage_config.tp_size)),
        )

    # ---- attach: whatever raises here fails the attach ------------------------------------------

    def register_mem_pool_host(self, mem_pool_host: Any) -> None:
        super().register_mem_pool_host(mem_pool_host)
        if not pools.has_memory(mem_pool_host):
            self._logical_anchor = True  # its bytes come as sidecars, through v2
            return
        make = identity.segment_pages if self._config.interface_v1 else identity.flat_pages
        self._kv = make(self._storage, self._config.tag, _KV, mem_pool_host)
        self._share(mem_pool_host)

    def register_mem_host_pool_v2(self, host_pool: Any, host_pool_name: Any) -> None:
        super().register_mem_host_pool_v2(host_pool, host_pool_name)
        if not pools.has_memory(host_pool):
            return
        name = str(host_pool_name)
        if name == _KV and self._kv is not None and self._kv.pool is host_pool:
            if self._config.interface_v1:
                self._sidecars[name] = self._kv
            return
        self._sidecars[name] = identity.segment_pages(
            self._storage, self._config.tag, name, host_pool
        )
        self._share(host_pool)

    def _share(self, pool: Any) -> None:
        regions = pools.regions(pool)
        if self._config.shm and not regions:
            logger.warning(
                'PeerCache copies pages through its staging ring: the extra-config has "allocator" '
                '= "shm", but the host pool is not shared memory. SGLang honours the key only in '
                "inline JSON, not in @file"
            )
        self._node.share(regions)

    # ---- zero copy (interface_v1) ---------------------------------------------------------------

    @never_raises(_all_false)
    def batch_set_v1(
        self, keys: list[str], host_indices: Any, extra_info: Any = None
    ) -> list[bool]:
        if self._logical_anchor:
            return [True] * len(keys)
        return self._set_segments(self._require_kv(), keys, host_indices)

    @never_raises(_all_false)
    def batch_get_v1(
        self, keys: list[str], host_indices: Any, extra_info: Any = None
    ) -> list[bool]:
        if self._logical_anchor:
            return [True] * len(keys)
        return self._get_segments(self._require_kv(), keys, host_indices)

    # ---- generic --------------------------------------------------------------------------------

    @never_raises(_false)
    def batch_set(
        self,
        keys: list[str],
        values: Any = None,
        target_locations: Any = None,
        target_sizes: Any = None,
    ) -> bool:
        pages = self._require_kv()
        if not pages.writer or not keys:
            return True
        tensors = [_on_cpu(value).contiguous() for value in _one_each(keys, values, "values")]
        started = time.perf_counter()
        done = self._node.client.set(
            pages.prefixes[0], self._tag, _hashes(keys), *_addresses(tensors)
        )
        self._account("set", done, started, tensors=tensors)
        return all(done)

    @never_raises(_all_none)
    def batch_get(
        self, keys: list[str], target_locations: Any = None, target_sizes: Any = None
    ) -> list[Any]:
        pages = self._require_kv()
        if not keys:
            return []
        if target_locations is None:
            target_locations = [pages.pool.get_dummy_flat_data_page() for _ in keys]
        targets = _one_each(keys, target_locations, "target_locations")
        tensors = [_on_cpu(target).contiguous() for target in targets]
        started = time.perf_counter()
        done = self._node.client.get(pages.prefixes[0], _hashes(keys), *_addresses(tensors))
        self._account("get", done, started, tensors=tensors)
        for target, tensor, ok in zip(targets, tensors, done, strict=True):
            if ok and tensor.data_ptr() != target.data_ptr():
                target.copy_(tensor)
        return [target if ok else None for target, ok in zip(targets, done, strict=True)]

    @never_raises(_false)
    def set(
        self,
        key: str,
        value: Any = None,
        target_location: Any = None,
        target_sizes: Any = None,
    ) -> bool:
        return bool(self.batch_set([key], [value]))

    @never_raises(_none)
    def get(self, key: str, target_location: Any = None, target_sizes: Any = None) -> Any:
        targets = None if target_location is None else [target_location]
        return self.batch_get([key], targets)[0]

    # ---- queries --------------------------------------------------------------------------------

    @never_raises(_false)
    def exists(self, key: str) -> bool:
        return bool(self.batch_exists([key]) == 1)

    @never_raises(_zero)
    def batch_exists(self, keys: list[str], extra_info: Any = None) -> int:
        if self._logical_anchor:
            return 0
        return self._leading_run(self._require_kv(), keys)

    @never_raises(_no_hit)
    def batch_exists_v2(
        self, keys: list[str], pool_transfers: Any = None, extra_info: Any = None
    ) -> Any:
        if self._logical_anchor:
            kv_pages = len(keys) if pool_transfers else 0  # the sidecars alone decide
        else:
            kv_pages = self._leading_run(self._require_kv(), keys)
        hits: dict[Any, int] = {PoolName.KV: kv_pages} if kv_pages else {}
        restorable = set(range(1, kv_pages + 1))
        for transfer in pool_transfers or []:
            if not restorable:
                break
            policy = str(getattr(transfer.hit_policy, "value", transfer.hit_policy))
            if policy == "block_groups":
                present = self._presence(transfer.name, list(transfer.keys or []))
                hits[transfer.name] = sidecars.covered_by_groups(
                    present, transfer.block_pages, transfer.group_pages
                )
                continue  # by contract it never limits the prefix
            if policy == "all_pages":
                run = self._leading_run(self._require(transfer.name), keys[:kv_pages])
                lengths = set(range(1, run + 1))
            elif policy == "trailing_pages":
                lengths = sidecars.restorable_with_trailing(
                    self._presence(transfer.name, keys[:kv_pages]), len(transfer.keys or [])
                )
            else:
                raise ValueError(f"unknown hit policy {policy!r} of pool {transfer.name}")
            if lengths:
                hits[transfer.name] = max(lengths)
            restorable &= lengths
        return PoolTransferResult(max(restorable, default=0), hits, sorted(restorable))

    # ---- several pools (hybrid models) ----------------------------------------------------------

    @never_raises(_each_false)
    def batch_set_v2(self, transfers: list[Any], extra_info: Any = None) -> dict[Any, list[bool]]:
        return {
            transfer.name: self._set_segments(
                self._require(transfer.name), transfer.keys or [], transfer.host_indices
            )
            for transfer in transfers
        }

    @never_raises(_each_false)
    def batch_get_v2(self, transfers: list[Any], extra_info: Any = None) -> dict[Any, list[bool]]:
        return {
            transfer.name: self._get_segments(
                self._require(transfer.name), transfer.keys or [], transfer.host_indices
            )
            for transfer in transfers
        }

    # ---- the rest -------------------------------------------------------------------------------

    @never_raises(_false)
    def clear(self) -> bool:
        """Drops all pages of this model under this tag, on every node that can be reached."""
        reason = self._node.client.clear(self._tag)
        if reason:
            self.faults.record("clear", reason)
        return not reason

    @never_raises(_none)
    def get_stats(self) -> Any:
        """SGLang's StorageMetrics since the last call; None when it does not collect them."""
        return self._metrics.take()

    def stats(self) -> dict[str, Any]:
        """The client's counters, and the faults by operation."""
        return {**self._node.client.stats(), "store_faults": self.faults.counts()}

    @never_raises(_none)
    def close(self) -> None:
        self._node.close()

    # ---- inside ---------------------------------------------------------------------------------

    def _require_kv(self) -> Pages:
        if self._kv is None:
            raise LookupError("no host pool is registered")
        return self._kv

    def _require(self, name: Any) -> Pages:
        pages = self._sidecars.get(str(name))
        if pages is None:
            raise LookupError(f"host pool {name} is not registered")
        return pages

    # The next two are alike, and share no more than what they call: each frame that a call passes
    # through with cold caches costs it a microsecond or two.

    def _set_segments(self, pages: Pages, keys: list[str], indices: Any) -> list[bool]:
        if not pages.writer:
            return [True] * len(keys)
        client, tag = self._node.client, self._tag
        started = time.perf_counter()
        known = pages.map
        rows = known and place(indices)
        if known and rows:
            done = client.set_rows(pages.prefixes[0], tag, keys, known.native, *rows)
            if done is not None:
                self._account("set", done, started, known.page_bytes * len(keys))
                return done
        return self._by_address(
            "set", pages, keys, indices, lambda prefix, *where: client.set(prefix, tag, *where)
        )

    def _get_segments(self, pages: Pages, keys: list[str], indices: Any) -> list[bool]:
        client = self._node.client
        started = time.perf_counter()
        known = pages.map
        rows = known and place(indices)
        if known and rows:
            done = client.get_rows(pages.prefixes[0], keys, known.native, *rows)
            if done is not None:
                self._account("get", done, started, known.page_bytes * len(keys))
                return done
        return self._by_address("get", pages, keys, indices, client.get)

    def _by_address(
        self,
        operation: str,
        pages: Pages,
        keys: list[str],
        indices: Any,
        move: Callable[[bytes, list[str], list[int], list[int]], list[bool]],
    ) -> list[bool]:
        """Of pages that SGLang has to be asked for."""
        if not keys:
            return []
        started = time.perf_counter()
        hashes = _hashes(keys)
        groups = _segments(pages, keys, indices)
        done = [True] * len(keys)
        for prefix, group in zip(pages.prefixes, groups, strict=True):
            answer = move(prefix, hashes, group.ptrs, group.sizes)
            done = [a and b for a, b in zip(done, answer, strict=True)]
        self._account(operation, done, started, sum(sum(group.sizes) for group in groups))
        return done

    def _leading_run(self, pages: Pages, keys: Sequence[str]) -> int:
        hashes = _hashes(keys)
        run = len(hashes)
        for prefix in pages.prefixes:
            if run:
                run = self._node.client.exists(prefix, hashes[:run])
        if run < len(hashes):
            self._note_faults("exists")
        return run

    def _presence(self, name: Any, keys: Sequence[str]) -> list[bool]:
        pages = self._require(name)
        return sidecars.presence(keys, lambda asked: self._leading_run(pages, asked))

    def _account(
        self,
        operation: str,
        done: Sequence[bool],
        started: float,
        size: int = 0,
        tensors: Sequence[Any] = (),
    ) -> None:
        if self._metrics.enabled:
            size += sum(tensor.numel() * tensor.element_size() for tensor in tensors)
            self._metrics.add(operation, len(done), size, time.perf_counter() - started)
        if not all(done):
            self._note_faults(operation)

    def _note_faults(self, operation: str) -> None:
        count, latest = self._node.new_faults()
        if count > 0:
            self.faults.record(operation, latest, count)


def _hashes(keys: Sequence[str]) -> list[str]:
    return list(keys) if all_page_hashes(keys) else [page_hash(key) for key in keys]


def _segments(pages: Pages, keys: Sequence[str], indices: Any) -> list[Segments]:
    rows = int(getattr(pages.pool, "page_size", 1)) * int(getattr(pages.pool, "dcp_size", 1))
    if indices is None or len(indices) != len(keys) * rows:
        raise ValueError(
            f"{len(keys)} pages of {rows} rows in pool {pages.name}, but "
            f"{0 if indices is None else len(indices)} indices"
        )
    return pools.segments(pages.pool, indices, pages.split)


def _one_each(keys: Sequence[str], items: Any, what: str) -> Any:
    if items is None or len(items) != len(keys):
        raise ValueError(f"{len(keys)} keys, but {'no' if items is None else len(items)} {what}")
    return items


def _on_cpu(tensor: Any) -> Any:
    if tensor.device.type != "cpu":
        raise ValueError(f"the page is on device {tensor.device}, not in host memory")
    return tensor


def _addresses(tensors: Sequence[Any]) -> tuple[list[int], list[int]]:
    return (
        [tensor.data_ptr() for tensor in tensors],
        [tensor.numel() * tensor.element_size() for tensor in tensors],
    )


__all__ = ["ConfigError", "PeerCacheStore"]

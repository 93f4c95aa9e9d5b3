"""PeerCacheStore: SGLang's HiCacheStorage on a PeerCache node. Written against SGLang 0.5.23.

SGLang calls it as ``PeerCacheStore(storage_config, {})`` from the backend ``dynamic``. A wrong
configuration raises during the attach. Afterwards nothing raises: a fault is a miss, counted in
``faults`` and logged at most once a minute. While there is no node, every call is a miss at once.

All methods are thread-safe: SGLang backs up, queries and prefetches from one thread each.
"""

from __future__ import annotations

import functools
import logging
import operator
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from sglang.srt.mem_cache.hicache_storage import HiCacheStorage, PoolName, PoolTransferResult

from peercache.core.attachment import Attachment, engine_name
from peercache.core.config import ConfigError, parse
from peercache.core.faults import Faults, never_raises
from peercache.core.near_gpu import socket_near_gpu
from peercache.core.segments import Segments
from peercache.sglang import gpu, identity, pools, prefill, sidecars, updates
from peercache.sglang.host_pools import HostPools
from peercache.sglang.identity import Pages
from peercache.sglang.metrics import TransferMetrics
from peercache.sglang.namespace import all_page_hashes, page_hash
from peercache.sglang.page_map import row_numbers
from peercache.sglang.weights import LiveWeights

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
            storage_config.extra_config or {}, os.environ, identity.engine_rank(storage_config)
        )
        socket, why = socket_near_gpu(self._config.socket, os.environ, gpu.pci_address)
        if why:
            logger.info("PeerCache uses the node at %s: %s", socket, why)
        self._config = replace(self._config, socket=socket)
        model = identity.model_name(storage_config, self._config.tag)
        self._weights = LiveWeights(storage_config, self._config.tag)
        self._kv: Pages | None = None
        self._logical_anchor = False
        self._pools = HostPools(storage_config, self._weights)
        # The node counts calls of this pool alone, for all pools of a page (docs/hit-ratio.md).
        self._counted: Pages | None = None
        self._page_tokens = 0
        self._metrics = TransferMetrics(bool(storage_config.enable_storage_metrics))
        for note in self._config.notes:
            logger.warning("PeerCache: %s", note)
        self._node = Attachment(
            self._config,
            engine_name(model, identity.ranks(storage_config)),
        )
        updates.watch(self._weights)
        prefill.watch(self._node.prefill)

    # ---- attach: an exception here fails the attach ---------------------------------------------

    def register_mem_pool_host(self, mem_pool_host: Any) -> None:
        super().register_mem_pool_host(mem_pool_host)
        logical = getattr(self._storage, "logical_page_size", None)
        self._page_tokens = int(logical or getattr(mem_pool_host, "page_size", None) or 0)
        if not pools.has_memory(mem_pool_host):
            self._logical_anchor = True  # the bytes of its pages come as sidecars, through v2
            return
        make = identity.segment_pages if self._config.interface_v1 else identity.flat_pages
        self._kv = make(self._storage, self._weights, _KV, mem_pool_host)
        self._counted = self._kv
        self._share(mem_pool_host)

    def register_mem_host_pool_v2(self, host_pool: Any, host_pool_name: Any) -> None:
        super().register_mem_host_pool_v2(host_pool, host_pool_name)
        if not pools.has_memory(host_pool):
            return
        name = str(host_pool_name)
        if name == _KV and self._kv is not None and self._kv.pool is host_pool:
            self._pools.put(self._kv)
            return
        pages = self._pools.add(name, host_pool)
        if pages is not None and not pages.whole:
            self._share(host_pool)

    def on_host_pools_registered(self) -> None:
        super().on_host_pools_registered()
        self._pools.log_pools()  # SGLang registers pools of a draft model later

    def stores_alone(self, name: Any) -> bool:
        """Whether no other rank has this pool's bytes. writers.py adds this to SGLang's rule."""
        return self._pools.stores_alone(name)

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

    @never_raises(_all_false, needs_node=True)
    def batch_set_v1(
        self, keys: list[str], host_indices: Any, extra_info: Any = None
    ) -> list[bool]:
        if self._logical_anchor:
            return [True] * len(keys)
        return self._set_segments(self._require_kv(), keys, host_indices)

    @never_raises(_all_false, needs_node=True)
    def batch_get_v1(
        self, keys: list[str], host_indices: Any, extra_info: Any = None
    ) -> list[bool]:
        if self._logical_anchor:
            return [True] * len(keys)
        return self._get_segments(self._require_kv(), keys, host_indices)

    # ---- generic --------------------------------------------------------------------------------

    @never_raises(_false, needs_node=True)
    def batch_set(
        self,
        keys: list[str],
        values: Any = None,
        target_locations: Any = None,
        target_sizes: Any = None,
    ) -> bool:
        if self._logical_anchor:
            return True
        pages = self._require_kv()
        if not pages.writer or not keys:
            return True
        prefix = pages.key_prefixes.for_writes()[0]
        return all(self._set_tensors(prefix, keys, _one_each(keys, values, "values")))

    @never_raises(_all_none, needs_node=True)
    def batch_get(
        self, keys: list[str], target_locations: Any = None, target_sizes: Any = None
    ) -> list[Any]:
        if not keys:
            return []
        if target_locations is None:
            target_locations = [self.mem_pool_host.get_dummy_flat_data_page() for _ in keys]
        targets = _one_each(keys, target_locations, "target_locations")
        if self._logical_anchor:
            return list(targets)  # pages of the anchor have no bytes
        done = self._get_tensors(self._require_kv(), keys, targets)
        return [target if ok else None for target, ok in zip(targets, done, strict=True)]

    @never_raises(_false, needs_node=True)
    def set(
        self,
        key: str,
        value: Any = None,
        target_location: Any = None,
        target_sizes: Any = None,
    ) -> bool:
        return bool(self.batch_set([key], [value]))

    @never_raises(_none, needs_node=True)
    def get(self, key: str, target_location: Any = None, target_sizes: Any = None) -> Any:
        targets = None if target_location is None else [target_location]
        return self.batch_get([key], targets)[0]

    # ---- queries --------------------------------------------------------------------------------

    @never_raises(_false, needs_node=True)
    def exists(self, key: str) -> bool:
        return bool(self.batch_exists([key]) == 1)

    @never_raises(_zero, needs_node=True)
    def batch_exists(self, keys: list[str], extra_info: Any = None) -> int:
        if self._logical_anchor:
            return 0
        return self._leading_run(self._require_kv(), keys)

    @never_raises(_no_hit, needs_node=True)
    def batch_exists_v2(
        self, keys: list[str], pool_transfers: Any = None, extra_info: Any = None
    ) -> Any:
        if self._logical_anchor:
            kv_pages = len(keys) if pool_transfers else 0  # the sidecars alone decide
        else:
            kv_pages = self._leading_run(self._require_kv(), keys)
        hits: dict[Any, int] = {PoolName.KV: kv_pages} if kv_pages else {}
        restorable = b"\1" * kv_pages
        transfers = list(pool_transfers or []) if kv_pages else []
        paged = [t for t in transfers if _policy(t) != "block_groups"]
        present = dict(
            zip([t.name for t in paged], self._presence(paged, keys[:kv_pages]), strict=True)
        )
        for transfer in transfers:
            if not any(restorable):
                break
            policy = _policy(transfer)
            if policy == "block_groups":
                (groups,) = self._presence([transfer], list(transfer.keys or []))
                hits[transfer.name] = sidecars.covered_by_groups(
                    groups, transfer.block_pages, transfer.group_pages
                )
                continue  # by contract it never limits the prefix
            own = present[transfer.name]
            if policy == "all_pages":
                own = sidecars.restorable_with_all(own)
            elif policy == "trailing_pages":
                own = sidecars.restorable_with_trailing(own, len(transfer.keys or []))
            else:
                raise ValueError(f"unknown hit policy {policy!r} of pool {transfer.name}")
            if any(own):
                hits[transfer.name] = own.rindex(1) + 1
            restorable = sidecars.in_all([restorable, own], kv_pages)
        return PoolTransferResult(restorable.rfind(1) + 1, hits, sidecars.lengths(restorable))

    # ---- several pools (hybrid models) ----------------------------------------------------------

    @never_raises(_each_false, needs_node=True)
    def batch_set_v2(self, transfers: list[Any], extra_info: Any = None) -> dict[Any, list[bool]]:
        return self._each("batch_set_v2", transfers, self._set_pages)

    @never_raises(_each_false, needs_node=True)
    def batch_get_v2(self, transfers: list[Any], extra_info: Any = None) -> dict[Any, list[bool]]:
        return self._each("batch_get_v2", transfers, self._get_pages)

    def _each(
        self,
        operation: str,
        transfers: list[Any],
        move: Callable[[Pages, list[str], Any], list[bool]],
    ) -> dict[Any, list[bool]]:
        """A transfer that cannot be done fails alone."""
        done: dict[Any, list[bool]] = {}
        for transfer in transfers:
            keys = transfer.keys or []
            done[transfer.name] = [False] * len(keys)
            try:
                pages = self._pools.find(transfer.name)
                if pages is not None:
                    done[transfer.name] = move(pages, keys, transfer.host_indices)
            except Exception as error:  # a fault of this pool; the others go on
                reason = f"host pool {transfer.name}: {type(error).__name__}: {error}"
                self.faults.record(operation, reason)
        return done

    # ---- clear, statistics, close ---------------------------------------------------------------

    @never_raises(_false)
    def clear(self) -> bool:
        """Drops all pages of this model under this tag, on every node.

        False if a node did not get the request: the fault names that node, which drops the pages
        before it serves again. A node that was lost more than a minute ago is not named. It drops
        them all the same before it serves again. False also if engines of this tenant have just
        cleared too often: nothing is dropped then, and the fault says when to try again.
        """
        reason = self._node.client.clear(self._weights.clear_tag)
        if reason:
            self.faults.record("clear", reason)
            # Faults are logged at most once a minute; an incomplete clear is logged always.
            logger.warning("PeerCache: the clear is not complete: %s", reason)
        return not reason

    @never_raises(_none)
    def get_stats(self) -> Any:
        """SGLang's StorageMetrics since the last call; None if SGLang does not collect them."""
        return self._metrics.take()

    # No Python runs for it: a call without a node must cost at most a microsecond.
    attached = property(
        operator.attrgetter("_node.client.attached"),
        doc="Whether there is a node now. The client finds one by itself.",
    )

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

    def _set_pages(self, pages: Pages, keys: list[str], indices: Any) -> list[bool]:
        if not pages.whole:
            return self._set_segments(pages, keys, indices)
        if not pages.writer:
            return [True] * len(keys)
        prefix = pages.key_prefixes.for_writes()[0]  # read before the bytes are copied
        copies = [pages.pool.get_data_page(row) for row in _first_rows(pages, keys, indices)]
        return self._set_tensors(prefix, keys, copies)

    def _get_pages(self, pages: Pages, keys: list[str], indices: Any) -> list[bool]:
        if not pages.whole:
            return self._get_segments(pages, keys, indices)
        rows = _first_rows(pages, keys, indices)
        copies = [pages.pool.get_dummy_flat_data_page() for _ in rows]
        done = self._get_tensors(pages, keys, copies)
        for row, copy, ok in zip(rows, copies, done, strict=True):
            if ok:
                pages.pool.set_from_flat_data_page(row, copy)
        return done

    def _set_tensors(self, prefix: bytes, keys: list[str], values: Any) -> list[bool]:
        if not keys:
            return []
        tensors = [_on_cpu(value).contiguous() for value in values]
        started = time.perf_counter()
        done = self._node.client.set(
            prefix, self._weights.clear_tag, _hashes(keys), *_addresses(tensors)
        )
        self._account("set", done, started, tensors=tensors)
        return done

    def _get_tensors(self, pages: Pages, keys: list[str], targets: Any) -> list[bool]:
        if not keys:
            return []
        tensors = [_on_cpu(target).contiguous() for target in targets]
        started = time.perf_counter()
        done = self._node.client.get(
            pages.prefixes[0],
            _hashes(keys),
            *_addresses(tensors),
            page_tokens=self._tokens(pages, True),
        )
        self._account("get", done, started, tensors=tensors)
        for target, tensor, ok in zip(targets, tensors, done, strict=True):
            if ok and tensor.data_ptr() != target.data_ptr():
                target.copy_(tensor)
        return done

    # The next two methods repeat each other on purpose: with cold caches, each further frame of a
    # call costs a microsecond or two.

    def _set_segments(self, pages: Pages, keys: list[str], indices: Any) -> list[bool]:
        if not pages.writer:
            return [True] * len(keys)
        client, tag = self._node.client, self._weights.clear_tag
        prefixes = pages.key_prefixes.for_writes()
        started = time.perf_counter()
        known = pages.map
        rows = known and row_numbers(indices)
        if known and rows:
            done = client.set_rows(prefixes[0], tag, keys, known.native, *rows)
            if done is not None:
                self._account("set", done, started, known.page_bytes * len(keys))
                return done
        return self._by_address(
            "set",
            pages,
            prefixes,
            keys,
            indices,
            lambda prefix, *where: client.set(prefix, tag, *where),
        )

    def _get_segments(self, pages: Pages, keys: list[str], indices: Any) -> list[bool]:
        client = self._node.client
        prefixes = pages.prefixes
        started = time.perf_counter()
        known = pages.map
        rows = known and row_numbers(indices)
        if known and rows:
            tokens = self._tokens(pages, True)
            done = client.get_rows(prefixes[0], keys, known.native, *rows, page_tokens=tokens)
            if done is not None:
                self._account("get", done, started, known.page_bytes * len(keys))
                return done
        return self._by_address(
            "get",
            pages,
            prefixes,
            keys,
            indices,
            lambda prefix, hashes, ptrs, sizes: client.get(
                prefix, hashes, ptrs, sizes, page_tokens=self._tokens(pages, prefix == prefixes[0])
            ),
        )

    def _by_address(
        self,
        operation: str,
        pages: Pages,
        prefixes: tuple[bytes, ...],
        keys: list[str],
        indices: Any,
        move: Callable[[bytes, list[str], list[int], list[int]], list[bool]],
    ) -> list[bool]:
        """Moves pages of which only SGLang knows the addresses."""
        if not keys:
            return []
        started = time.perf_counter()
        hashes = _hashes(keys)
        groups = _segments(pages, keys, indices)
        done = [True] * len(keys)
        for prefix, group in zip(prefixes, groups, strict=True):
            answer = move(prefix, hashes, group.ptrs, group.sizes)
            done = [a and b for a, b in zip(done, answer, strict=True)]
        self._account(operation, done, started, sum(sum(group.sizes) for group in groups))
        return done

    def _tokens(self, pages: Pages, first: bool) -> int | None:
        """Tokens of a page, for the hit ratio; None if another call or head group counts it."""
        return self._page_tokens if first and pages is self._counted else None

    def _leading_run(self, pages: Pages, keys: Sequence[str]) -> int:
        hashes = _hashes(keys)
        run = len(hashes)
        for group, prefix in enumerate(pages.prefixes):
            if run:
                tokens = self._tokens(pages, group == 0)
                run = self._node.client.exists(prefix, hashes[:run], page_tokens=tokens)
        if run < len(hashes):
            self._note_faults("exists")
        return run

    def _presence(self, transfers: Sequence[Any], keys: Sequence[str]) -> list[bytes]:
        """For each pool a flag for each key: 1 if its page can be read.

        Asks ``exists`` for the pool whose pages count in the hit ratio, and ``presence`` once for
        all others. ``presence`` counts no pages, because it asks for some of them twice.
        """
        prefixes: list[tuple[bytes, ...]] = []  # for each pool one for each of its head groups
        counted: dict[bytes, bytes] = {}
        for transfer in transfers:
            pages = self._pools.find(transfer.name)
            prefixes.append(pages.prefixes if pages is not None else ())
            if pages is None or _policy(transfer) != "all_pages":
                continue
            if self._counted is None:
                self._counted = pages  # the anchor has no pages of its own
            if pages is self._counted and keys:
                run = self._node.client.exists(
                    pages.prefixes[0], _hashes(keys), page_tokens=self._page_tokens
                )
                counted[pages.prefixes[0]] = sidecars.only_leading(run, len(keys))
        others = [
            (transfer, prefix)
            for transfer, of_pool in zip(transfers, prefixes, strict=True)
            for prefix in of_pool
            if prefix not in counted
        ]
        found = counted | self._presence_of(others, keys)
        answers = [sidecars.in_all([found[p] for p in of_pool], len(keys)) for of_pool in prefixes]
        if not all(map(all, answers)):
            self._note_faults("exists")
        return answers

    def _presence_of(
        self, asked: Sequence[tuple[Any, bytes]], keys: Sequence[str]
    ) -> dict[bytes, bytes]:
        """For each prefix a flag for each key: 1 if its page can be read."""
        if not asked or not keys:
            return {prefix: b"" for _, prefix in asked}
        client, prefixes = self._node.client, [prefix for _, prefix in asked]
        found = client.presence(prefixes, keys)
        if found is None:  # keys that are no hashes, or a node of an older release
            keys = _hashes(keys)
            found = client.presence(prefixes, keys)
        if found is not None:
            return dict(zip(prefixes, found, strict=True))
        # The node counts leading runs only. In a pool that needs all pages, those after the first
        # absent one are of no use.
        runs = {}
        for transfer, prefix in asked:
            exists = functools.partial(client.exists, prefix, page_tokens=None)
            if _policy(transfer) == "trailing_pages":
                runs[prefix] = sidecars.presence(keys, exists)
            else:
                runs[prefix] = sidecars.only_leading(exists(keys), len(keys))
        return runs

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
    _page_rows(pages, keys, indices)
    return pools.segments(pages.pool, indices, pages.split)


def _page_rows(pages: Pages, keys: Sequence[str], indices: Any) -> int:
    """Rows of a page; ValueError unless there are indices for that many of each key."""
    rows = int(getattr(pages.pool, "page_size", 1)) * int(getattr(pages.pool, "dcp_size", 1))
    if indices is None or len(indices) != len(keys) * rows:
        raise ValueError(
            f"{len(keys)} pages of {rows} rows in pool {pages.name}, but "
            f"{0 if indices is None else len(indices)} indices"
        )
    return rows


def _first_rows(pages: Pages, keys: Sequence[str], indices: Any) -> list[int]:
    return [int(row) for row in indices[:: _page_rows(pages, keys, indices)]]


def _policy(transfer: Any) -> str:
    return str(getattr(transfer.hit_policy, "value", transfer.hit_policy))


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

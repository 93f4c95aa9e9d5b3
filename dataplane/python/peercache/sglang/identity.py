"""Identity: the namespaces of this engine's pages, and which rank writes them.

Combines what SGLang tells a backend about the engine (HiCacheStorageConfig) with the attributes of
each host pool.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, replace
from typing import Any

from peercache.core.config import ConfigError, EngineRank
from peercache.sglang import page_map, pools
from peercache.sglang.namespace import Namespace, Rank
from peercache.sglang.page_map import PageMap
from peercache.sglang.weights import KeyPrefixes, LiveWeights

logger = logging.getLogger(__name__)

SEGMENTS = "segments"
FLAT = "flat"


@dataclass(frozen=True)
class Pages:
    """The pages of one host pool and the names of their keys."""

    name: str
    pool: Any
    key_prefixes: KeyPrefixes  # one prefix per head group; one when pages are not split
    writer: bool  # False: another rank writes the same bytes
    map: PageMap | None = None  # where the pages lie, if known
    replicated: bool = False  # all TP ranks hold the same bytes
    whole: bool = False  # pages travel through flat tensors, which SGLang copies

    @property
    def prefixes(self) -> tuple[bytes, ...]:
        """Key prefixes for look-ups, for the weights that are loaded now. Raises Unnamed."""
        return self.key_prefixes.for_reads()

    @property
    def split(self) -> int:
        return len(self.key_prefixes)


def model_name(storage: Any, tag: str) -> str:
    """The name of the model. Raises ConfigError if there is neither a name nor a tag."""
    name = storage.model_name or ""
    if not name and not tag:
        raise ConfigError(
            "SGLang gave no model name, so pages of different models would get the same keys: set "
            '--served-model-name, or "tag" in the extra-config'
        )
    return str(name)


def segment_pages(storage: Any, weights: LiveWeights, name: str, pool: Any) -> Pages:
    """Pages that travel straight between pool and node. Raises ConfigError if they cannot."""
    split = head_groups(storage) if name == "kv" else 1
    try:
        groups = pools.segments(pool, _first_page(pool), split)
    except Exception as error:  # pools refuse with various exceptions
        raise ConfigError(
            f"host pool {name} ({type(pool).__name__}, layout {getattr(pool, 'layout', '?')}) has "
            f"no zero-copy interface ({error}): remove "
            '"interface_v1" from the extra-config, or choose another --hicache-mem-layout'
        ) from error
    pages = _pages(storage, weights, name, pool, SEGMENTS, groups[0].sizes, split)
    return pages if split > 1 else replace(pages, map=page_map.learn(pool))


def side_pages(storage: Any, weights: LiveWeights, name: str, pool: Any) -> Pages:
    """Pages of a pool beside the KV: segments, or flat pages if the pool gives no addresses.

    SGLang 0.5.23 gives none for index keys in layout layer_first, nor for Mamba states with side
    states. Raises ConfigError if the pool does not copy pages either.
    """
    try:
        return segment_pages(storage, weights, name, pool)
    except ConfigError as error:
        try:
            return flat_pages(storage, weights, name, pool)
        except ConfigError:
            raise ConfigError(
                f"{type(pool).__name__} with layout {getattr(pool, 'layout', '?')} neither reports "
                f"where its pages lie nor copies them ({error.__cause__}); try another "
                "--hicache-mem-layout"
            ) from error


def flat_pages(storage: Any, weights: LiveWeights, name: str, pool: Any) -> Pages:
    """Pages that SGLang copies into flat tensors (its generic interface)."""
    try:
        page = pool.get_dummy_flat_data_page()
    except Exception as error:  # pools refuse with various exceptions
        raise ConfigError(
            f"host pool {name} ({type(pool).__name__}) has no generic interface ({error}): set "
            '"interface_v1": 1 in the extra-config'
        ) from error
    size = page.numel() * page.element_size()
    return replace(_pages(storage, weights, name, pool, FLAT, [size], 1), whole=True)


def writes_for_all(storage: Any) -> bool:
    """Whether this TP rank writes the pages that are the same on all ranks."""
    return bool(getattr(storage, "is_storage_writer", storage.tp_rank == 0))


def head_groups(storage: Any) -> int:
    """The number of parts of a stored page: engines with another TP size can read each part."""
    if not getattr(storage, "should_split_heads", False):
        return 1
    return int(storage.tp_lcm_size) // int(storage.tp_size)


def _pages(
    storage: Any,
    weights: LiveWeights,
    name: str,
    pool: Any,
    encoding: str,
    sizes: list[int],
    split: int,
) -> Pages:
    replicated = pools.is_replicated(name, pool, bool(storage.is_mla_model))
    shape = pools.shape(pool, sizes, split)
    if pools.is_byte_view(pool):
        shape["kv_cache_dtype"] = _kv_cache_dtype()
    namespaces = tuple(
        Namespace(
            model=weights.model,
            tag=weights.tag,
            pool=name,
            encoding=encoding,
            rank=_rank(storage, replicated, split, group),
            shape=shape,
        )
        for group in range(split)
    )
    weights.pools.append(pool)
    key_prefixes = KeyPrefixes(weights, namespaces, pools.may_hold_draft(name, pool))
    writer = not replicated or writes_for_all(storage)
    return Pages(name, pool, key_prefixes, writer, replicated=replicated)


def _rank(storage: Any, replicated: bool, split: int, group: int) -> Rank:
    tp = (storage.tp_rank * split + group, storage.tp_size * split)
    return Rank(
        tp=None if replicated else tp,
        pp=(storage.pp_rank, storage.pp_size),
        cp=(getattr(storage, "attn_cp_rank", 0), getattr(storage, "attn_cp_size", 1)),
        dcp=(getattr(storage, "dcp_rank", 0), getattr(storage, "dcp_size", 1)),
    )


def ranks(storage: Any) -> str:
    """The TP rank of this process, and each other rank of several: dp1/2 pp0/2 cp0/2 tp3/4."""
    return " ".join(f"{name}{rank}/{size}" for name, (rank, size) in _ranks(storage).items())


def engine_rank(storage: Any) -> EngineRank:
    """The process among all of its engine: the TP rank alone recurs in each DP and PP group."""
    pairs = _ranks(storage)
    # DCP groups are within the TP group. So are CP groups, unless DP attention is on: then SGLang
    # gives the TP rank and size within a DP and CP group.
    whole = {"dp", "pp", "cp", "tp"} if "dp" in pairs else {"pp", "tp"}
    return EngineRank(
        name="-".join(f"{name}{rank}" for name, (rank, _) in pairs.items()),
        count=math.prod(size for name, (_, size) in pairs.items() if name in whole),
    )


def _ranks(storage: Any) -> dict[str, tuple[int, int]]:
    """(rank, size) by the kind of parallelism: of each kind with several ranks, and of TP."""
    pairs = {
        "dp": _data_parallel(storage),
        "pp": (storage.pp_rank, storage.pp_size),
        "cp": (getattr(storage, "attn_cp_rank", 0), getattr(storage, "attn_cp_size", 1)),
        "dcp": (getattr(storage, "dcp_rank", 0), getattr(storage, "dcp_size", 1)),
        "tp": (storage.tp_rank, storage.tp_size),
    }
    return {
        name: (int(rank), int(size))
        for name, (rank, size) in pairs.items()
        if size > 1 or name == "tp"
    }


def _data_parallel(storage: Any) -> tuple[int, int]:
    """(rank, size). SGLang's configuration has only the rank of DP attention, without a size."""
    rank = int(getattr(storage, "dp_rank", 0) or 0)
    try:
        from sglang.srt.runtime_context import get_parallel

        parallel = get_parallel()
        attention, replicas = int(parallel.attn_dp_size), int(parallel.dp_size)
        if replicas > 1:
            return int(parallel.dp_rank or 0), replicas
    except Exception as error:  # another release of SGLang, or no running one
        logger.debug("SGLang does not report its data parallelism: %s", error)
        attention = rank + 1
    return rank, max(attention, rank + 1)


def _first_page(pool: Any) -> Any:
    import torch

    rows = int(getattr(pool, "page_size", 1)) * int(getattr(pool, "dcp_size", 1))
    return torch.arange(rows, dtype=torch.int64)


def _kv_cache_dtype() -> str:
    """--kv-cache-dtype, which alone tells the fp8 formats apart."""
    try:
        from sglang.srt.runtime_context import get_model

        setting = get_model().kv_cache_dtype
    except Exception as error:  # another release of SGLang, or no running one
        logger.debug("SGLang does not report its kv_cache_dtype: %s", error)
        setting = None
    if not isinstance(setting, str):
        logger.warning(
            "PeerCache cannot distinguish the fp8 formats of the KV cache here; engines with "
            'different --kv-cache-dtype need different "tag" values in the extra-config'
        )
        return "unknown"
    return setting

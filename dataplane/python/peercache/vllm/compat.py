"""What differs between releases of vLLM, in one place. Written against 0.28 to 0.33."""

from __future__ import annotations

import inspect
import os
from typing import Any

import vllm
from vllm.v1.kv_offload.base import OffloadingEvent
from vllm.v1.kv_offload.tiering.base import JobResult, SecondaryTierManager

_RESULT = inspect.signature(JobResult).parameters
_EVENT = inspect.signature(OffloadingEvent).parameters
# 0.31 gives tiers a detector of back-pressure.
_TIER = inspect.signature(SecondaryTierManager.__init__).parameters

VERSION = str(vllm.__version__).partition("+")[0]


def tier_arguments(detector: Any) -> tuple[Any, ...]:
    return (detector,) if "backpressure_detector" in _TIER else ()


def job_rows(job: Any) -> list[int]:
    """The rows of the host pool: blocks until 0.29, chunks since."""
    return [int(row) for row in (job.chunk_ids if hasattr(job, "chunk_ids") else job.block_ids)]


def keys_from(context: Any, key: bytes) -> list[bytes]:
    """The key and all keys of the request behind it, which the scheduler will ask for next.

    Empty before 0.31: there each key is known only when it is asked for.
    """
    positions = getattr(context, "_offload_key_positions", {})
    start = positions.get(key)
    return [] if start is None else [k for k, position in positions.items() if position >= start]


def job_result(job_id: int, success: bool, loaded: list[bytes] | None, moved: int) -> JobResult:
    fields = {"successful_keys": loaded, "transfer_bytes": moved}
    known = {name: value for name, value in fields.items() if name in _RESULT}
    return JobResult(job_id=job_id, success=success, **known)


def stored_event(keys: list[bytes], medium: Any) -> OffloadingEvent:
    owner = {"ownership": "peercache"} if "ownership" in _EVENT else {}
    return OffloadingEvent(keys=keys, medium=medium, removed=False, **owner)


def hash_seed() -> str:
    """What decides the first hash of every chain; random per process for xxhash without a seed."""
    from vllm.v1.core import kv_cache_utils

    get = getattr(kv_cache_utils, "get_none_hash_seed", None)
    if get is not None:
        return str(get())
    none_hash = getattr(kv_cache_utils, "NONE_HASH", None)
    return none_hash.hex() if isinstance(none_hash, bytes) else os.environ.get("PYTHONHASHSEED", "")


def device() -> str:
    """The kind of device: it chooses the attention backend, and so the layout of the KV cache."""
    from vllm.platforms import current_platform

    try:
        name = current_platform.get_device_name()
    except Exception:  # no device, or a platform that does not tell
        name = ""
    return f"{current_platform.device_type} {name}"

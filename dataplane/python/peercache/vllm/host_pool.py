"""vLLM's host pool: how large it can be in this container.

Pure but for /sys and /dev/shm: no vLLM, no extension.
"""

from __future__ import annotations

import os
from pathlib import Path

DEFAULT_BYTES = 4 << 30
# Below this, a long prompt does not fit, and vLLM drops what it wants to load.
SMALLEST_BYTES = 64 << 20
# Left in /dev/shm: vLLM's processes talk to each other through it (a few MiB), as does NCCL.
_SHM_FOR_OTHERS = 64 << 20


def fitting_bytes(asked: int, shm: int, memory_limit: int | None, pools: int = 1) -> int:
    """How much of ``asked`` each of so many pools can have; 0 where it is too little to be of use.

    ``shm`` is the size of /dev/shm. All processes of an engine must come to the same result, so it
    does not depend on what is free. Pinned memory counts against the container's limit; a quarter
    of it leaves room for the engine.
    """
    room = min(asked, (shm - _SHM_FOR_OTHERS) // pools)
    if memory_limit is not None:
        room = min(room, memory_limit // 4 // pools)
    return room if room >= SMALLEST_BYTES else 0


def fitting_here(asked: int, pools: int) -> tuple[int, str]:
    """fitting_bytes() in this container, and the reason where it is less than ``asked``."""
    shm, limit = shm_bytes(), memory_limit()
    fitting = fitting_bytes(asked, shm, limit, pools)
    if fitting == asked:
        return fitting, ""
    has = f"/dev/shm has {_mib(shm)}, and the memory limit is {_mib(limit) if limit else 'none'}"
    if fitting:
        return fitting, f"vLLM's host pool has {_mib(fitting)} instead of {_mib(asked)}: {has}"
    return 0, (
        f"vLLM's host pool needs {_mib(SMALLEST_BYTES)}, and here {has}: mount an emptyDir of "
        "medium Memory at /dev/shm, and give the container 4 times the pool's memory"
    )


def _mib(size: int) -> str:
    return f"{size >> 20} MiB"


def shm_bytes(path: str = "/dev/shm") -> int:
    """The size of the file system of shared memory; 0 where there is none."""
    try:
        stat = os.statvfs(path)
    except OSError:
        return 0
    return stat.f_blocks * stat.f_frsize


def memory_limit(root: Path = Path("/sys/fs/cgroup")) -> int | None:
    """The memory limit of this container, in bytes; None where there is none."""
    limits = []
    for name in ("memory.max", "memory/memory.limit_in_bytes"):  # cgroup v2, v1
        try:
            limits.append(int((root / name).read_text()))
        except (OSError, ValueError):  # absent, or "max"
            continue
    limit = min(limits, default=None)
    return None if limit is None or limit >= 1 << 60 else limit

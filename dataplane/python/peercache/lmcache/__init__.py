"""PeerCache for LMCache: an L2 adapter, so that LMCache servers of a cluster share their chunks::

    lmcache server --shm-name kv --no-l1-use-lazy --supported-transfer-mode engine_driven \\
      --l2-adapter '{"type": "plugin", "module_path": "peercache.lmcache",
        "class_name": "PeerCacheL2Adapter", "adapter_params": {}}'

The node reads and writes LMCache's L1 memory in place, if that is shared memory (``--shm-name``)
and whole from the start (``--no-l1-use-lazy``). Written against LMCache 0.5.6 and 0.5.7rc2.

adapter     LMCache's L2AdapterInterface on a client of the node
tasks       what LMCache waits for, and the thread that sees it done
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    # Lazy: LMCache looks the class up by name, and the pure modules need no LMCache.
    if name == "PeerCacheL2Adapter":
        from peercache.lmcache.adapter import PeerCacheL2Adapter

        return PeerCacheL2Adapter
    raise AttributeError(f"module 'peercache.lmcache' has no attribute '{name}'")

"""PeerCache: a peer-to-peer L3 tier for SGLang's HiCache.

SGLang loads the store by name; nothing needs to be imported by hand::

    python -m sglang.launch_server --enable-hierarchical-cache \
      --hicache-storage-backend dynamic \
      --hicache-storage-backend-extra-config '{"backend_name": "peercache",
        "module_path": "peercache.store", "class_name": "PeerCacheStore", "interface_v1": 1,
        "allocator": "shm", "socket": "/run/peercache/default.sock"}'

store       PeerCacheStore, the storage backend that SGLang calls
config      the keys of the extra-config, checked
namespace   what makes pages interchangeable, as the digest in front of every key
pools       SGLang's host pools: shared memory, page segments, shape
sidecars    which prefixes a hybrid model can restore
embedded    a node inside this process, for engines without a node of their own
faults      counting and rate-limited logging of what the cache swallows
_peercache  the C++ side
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    # Lazy, so that the pure modules can be used where the extension is not built.
    if name == "__version__":
        from peercache.extension import load

        return load().__version__
    raise AttributeError(f"module 'peercache' has no attribute '{name}'")

"""PeerCache: a peer-to-peer L3 tier for SGLang's HiCache.

SGLang loads the store by name; nothing needs to be imported by hand::

    python -m sglang.launch_server --enable-hierarchical-cache \
      --hicache-storage-backend dynamic \
      --hicache-storage-backend-extra-config '{"backend_name": "peercache",
        "module_path": "peercache.store", "class_name": "PeerCacheStore", "interface_v1": 1,
        "allocator": "shm", "socket": "/run/peercache/default.sock"}'

store       where SGLang finds the storage backend
core        the engine's side of a node, for every engine
sglang      SGLang's connector, which imports core; core never imports it
_peercache  the C++ side
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    # Lazy, so that the pure modules can be used where the extension is not built.
    if name == "__version__":
        from peercache.core.extension import load

        return load().__version__
    raise AttributeError(f"module 'peercache' has no attribute '{name}'")

"""Where SGLang looks for the backend: ``"module_path": "peercache.store"`` in the extra-config.

Users and the operator's webhook write this path, so it stays whatever room the class is in.
"""

from peercache.sglang.store import ConfigError, PeerCacheStore

__all__ = ["ConfigError", "PeerCacheStore"]

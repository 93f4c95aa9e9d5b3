"""Writers: lets each TP rank store the pools whose bytes it alone holds.

SGLang 0.5.23 decides in HybridCacheController.should_backup which pools of an MLA model a rank
above 0 stores: Mamba states, and drafts with heads only for the backend named "mooncake". With
any other backend those ranks would have no page of such a draft. All ranks use the shortest prefix
that any of them has, so no page of L3 would ever be used. A hook in SGLang's own registry
(sglang.srt.plugins) widens the rule.
"""

from __future__ import annotations

import logging
import threading
from typing import Any

logger = logging.getLogger(__name__)

_CLASS = "sglang.srt.mem_cache.hybrid_cache.hybrid_cache_controller.HybridCacheController"
_METHOD = "should_backup"

# Pools that every rank stores by SGLang's own rule.
KNOWN_TO_SGLANG = ("mamba",)

_lock = threading.Lock()
_widened = False


def widen() -> str:
    """Widens the rule once in a process. Returns "", or the reason why it cannot be widened."""
    global _widened
    with _lock:
        if _widened:
            return ""
        try:
            _register()
        except Exception as error:  # another release of SGLang
            logger.debug("no hook into SGLang", exc_info=True)
            return f"{type(error).__name__}: {error}"
        _widened = True
        return ""


def _register() -> None:
    import pkgutil

    from sglang.srt.plugins.hook_registry import HookRegistry, HookSource, HookType

    controller = pkgutil.resolve_name(_CLASS)
    before = getattr(controller, _METHOD)
    HookRegistry.register(
        f"{_CLASS}.{_METHOD}",
        _or_by_this_rank,
        HookType.AFTER,
        source=HookSource("peercache", None),
    )
    HookRegistry.apply_hooks()
    if getattr(controller, _METHOD) is before:
        raise RuntimeError(f"SGLang did not apply the hook on {_CLASS}.{_METHOD}")


def _or_by_this_rank(decided: bool, controller: Any, transfer: Any) -> bool:
    backend = controller.storage_backend
    store = getattr(backend, "_backend", backend)  # inside SGLang's failure injector
    stores = getattr(store, "stores_alone", None)
    return decided or (stores is not None and bool(stores(transfer.name)))

"""Epoch: which weights the KV of this engine belongs to, as far as it can be told from outside.

vLLM does not tell a connector that weights have changed. In the scheduler's process every change
comes through EngineCore: a remote procedure call to the workers, or a sleep that drops the weights.
Each call that may change them begins a new epoch, and so does each reset of the connector's cache.
Pages of an epoch are found by this engine alone: other engines do not know what it was given.
"""

from __future__ import annotations

import functools
import logging
import os
import weakref
from collections.abc import Callable
from typing import Any

logger = logging.getLogger(__name__)

# Calls to the workers that leave the weights as they are. Any other one may change them.
_HARMLESS = frozenset(
    {
        "checkpoint_prepare",
        "get_model_inspection",
        "init_weight_transfer_engine",
        "profile",
        "save_sharded_state",
        "shutdown_weight_transfer_engine",
    }
)

_epochs: weakref.WeakSet[Epoch] = weakref.WeakSet()


class Epoch:
    """Not thread-safe by itself: the scheduler's thread alone changes and reads it."""

    def __init__(self) -> None:
        self.name = ""  # "": the weights are those that were loaded at the start
        _epochs.add(self)

    def begin(self, why: str) -> None:
        """From here on pages have other keys, which no other engine has."""
        if not self.name:
            logger.warning(
                "PeerCache: this engine shares no more pages with others, because its weights may "
                "have changed: %s. A restart with the new weights shares them again",
                why,
            )
        self.name = os.urandom(16).hex()


def watch(engine_core: type[Any]) -> None:
    """Watches the calls of vLLM's EngineCore that may change weights. Idempotent."""
    if getattr(engine_core, "_peercache_watched", False):
        return
    engine_core._peercache_watched = True
    _before(engine_core, "collective_rpc", _call_may_change)
    _before(engine_core, "sleep", lambda level=1, *_, **__: "a sleep" if level > 1 else "")
    _before(engine_core, "wake_up", _wake_up_may_change)


def _call_may_change(method: Any, *_: Any, **__: Any) -> str:
    name = method if isinstance(method, str) else getattr(method, "__name__", "a function")
    return "" if name in _HARMLESS else f"a call of {name}"


def _wake_up_may_change(tags: Any = None, *_: Any, **__: Any) -> str:
    # Trainers wake the memory of the weights alone, to write new ones into it.
    return "a wake-up in parts" if tags else ""


def _before(owner: type[Any], name: str, why: Callable[..., str]) -> None:
    original = getattr(owner, name, None)
    if original is None:  # another release
        return

    @functools.wraps(original)
    def watched(self: Any, *args: Any, **kwargs: Any) -> Any:
        reason = why(*args, **kwargs)
        if reason:
            for epoch in list(_epochs):
                epoch.begin(reason)
        return original(self, *args, **kwargs)

    setattr(owner, name, watched)

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

from peercache.core.wrapping import wrap

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
    for name, why in (
        ("collective_rpc", _call_may_change),
        ("sleep", _sleep_may_change),
        ("wake_up", _wake_up_may_change),
    ):
        wrap(engine_core, name, functools.partial(_before, why))


def _call_may_change(method: Any, *_: Any, **__: Any) -> str:
    name = method if isinstance(method, str) else getattr(method, "__name__", "a function")
    return "" if name in _HARMLESS else f"a call of {name}"


def _sleep_may_change(level: int = 1, *_: Any, **__: Any) -> str:
    return "a sleep" if level > 1 else ""


def _wake_up_may_change(tags: Any = None, *_: Any, **__: Any) -> str:
    # Trainers wake the memory of the weights alone, to write new ones into it.
    return "a wake-up in parts" if tags else ""


def _before(why: Callable[..., str], method: Any) -> Any:
    def watched(self: Any, *args: Any, **kwargs: Any) -> Any:
        reason = why(*args, **kwargs)
        if reason:
            for epoch in list(_epochs):
                epoch.begin(reason)
        return method(self, *args, **kwargs)

    return watched

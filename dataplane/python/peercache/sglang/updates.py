"""Updates: notifies LiveWeights when SGLang changes the weights of this process.

SGLang has no events for updates, so two groups of its methods are wrapped on their classes: those
of WeightUpdater that write weights, and the reset of HiCache's controller, which drops all KV. The
wrappers run in the scheduler thread and never fail an update.
"""

from __future__ import annotations

import logging
import sys
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from peercache.core.wrapping import wrap
from peercache.sglang.weights import LiveWeights

logger = logging.getLogger(__name__)

_RUNNER = "sglang.srt.model_executor.model_runner"
_UPDATER = f"{_RUNNER}_components.weight_updater"
_CONTROLLER = "sglang.srt.managers.cache_controller"
_FROM_DISK = "update_weights_from_disk"
LOADS = (
    _FROM_DISK,
    "load_weights_from_distributed",
    "update_weights_from_tensor",
    "update_weights_from_ipc",
)
BEGIN, END = "begin_weight_update", "end_weight_update"

_watched: weakref.WeakSet[LiveWeights] = weakref.WeakSet()
# Kept after its store is closed: weights may change between a detach and the next attach.
_latest: LiveWeights | None = None


def watch(weights: LiveWeights) -> None:
    """Notifies ``weights`` of every update while it lives, and hands over those seen before."""
    global _latest
    if _latest is not None:
        weights.inherit(_latest)
    _latest = weights
    _watched.add(weights)
    updater = getattr(sys.modules.get(_UPDATER), "WeightUpdater", None)
    controller = getattr(sys.modules.get(_CONTROLLER), "HiCacheController", None)
    wrapped = [
        *(wrap(updater, name, _around_load) for name in LOADS),
        wrap(updater, BEGIN, _around_begin),
        wrap(updater, END, _after(LiveWeights.update_ended)),
        wrap(controller, "reset", _after(LiveWeights.caches_flushed)),
    ]
    if _RUNNER in sys.modules and not all(wrapped):
        logger.warning(
            "PeerCache does not see updates of the weights in this release of SGLang: give each "
            "of them a new weight_version, and flush the cache with it"
        )


def _around_load(method: Any) -> Any:
    def load(self: Any, *args: Any, **kwargs: Any) -> Any:
        _notify(lambda weights: weights.update_began(session=False, empty=_is_empty(self)))
        answer = method(self, *args, **kwargs)
        if method.__name__ == _FROM_DISK and answer[0]:
            _notify(lambda weights: weights.loaded_from_disk(*_path_and_format(*args, **kwargs)))
        return answer

    return load


def _around_begin(method: Any) -> Any:
    def begin(self: Any, *args: Any, **kwargs: Any) -> Any:
        _notify(lambda weights: weights.update_began(session=True, empty=_is_empty(self)))
        return method(self, *args, **kwargs)

    return begin


def _after(event: Callable[[LiveWeights], None]) -> Callable[[Any], Any]:
    def around(method: Any) -> Any:
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            answer = method(self, *args, **kwargs)
            _notify(event)
            return answer

        return call

    return around


def _notify(event: Callable[[LiveWeights], None]) -> None:
    for weights in list(_watched):
        try:
            event(weights)
        except Exception:  # SGLang's update goes on, with weights that have no name
            logger.exception("PeerCache cannot follow an update of the weights: it stops caching")
            weights.state = replace(weights.state, updating=True)


def _path_and_format(
    model_path: str, load_format: str | None = None, *_: Any, **__: Any
) -> tuple[str, str | None]:
    return model_path, load_format


def _is_empty(updater: Any) -> bool:
    """Whether the device pool of the updater's model runner holds no KV."""
    try:
        allocator = updater.get_model_runner().token_to_kv_pool_allocator
        free, page = int(allocator.available_size()), int(allocator.page_size)
        return free > int(allocator.size) - page
    except Exception:  # a pool of unknown fill counts as full
        return False

"""Updates: what SGLang does to the weights of this process after the attach.

SGLang has no event for it, so its methods are wrapped where they are looked up at each call: those
that write weights (of a model runner), and the reset of HiCache's controller, which drops all KV.
The wrappers run in the scheduler thread and never fail an update.
"""

from __future__ import annotations

import functools
import logging
import sys
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from peercache.loaded import Loaded

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

_watched: weakref.WeakSet[Loaded] = weakref.WeakSet()
# Outlives its store: weights may change between a detach and the next attach.
_latest: Loaded | None = None


def watch(loaded: Loaded) -> None:
    """Tells ``loaded`` of all updates from now on, for as long as it lives, and of those before."""
    global _latest
    if _latest is not None:
        loaded.succeed(_latest)
    _latest = loaded
    _watched.add(loaded)
    updater = getattr(sys.modules.get(_UPDATER), "WeightUpdater", None)
    controller = getattr(sys.modules.get(_CONTROLLER), "HiCacheController", None)
    wrapped = [
        *(_wrap(updater, name, _around_load) for name in LOADS),
        _wrap(updater, BEGIN, _around_begin),
        _wrap(updater, END, _then(Loaded.ended)),
        _wrap(controller, "reset", _then(Loaded.flushed)),
    ]
    if _RUNNER in sys.modules and not all(wrapped):
        logger.warning(
            "PeerCache does not see updates of the weights in this release of SGLang: give each "
            "of them a new weight_version, and flush the cache with it"
        )


def _wrap(owner: Any, name: str, around: Callable[[Any], Any]) -> bool:
    """Once, however often the store is attached. False when there is nothing to wrap."""
    method = getattr(owner, name, None)
    if method is None:
        return False
    if not getattr(method, "_peercache", False):
        wrapper: Any = functools.wraps(method)(around(method))
        wrapper._peercache = True
        setattr(owner, name, wrapper)
    return True


def _around_load(method: Any) -> Any:
    def load(self: Any, *args: Any, **kwargs: Any) -> Any:
        _tell(lambda loaded: loaded.began(session=False, empty=_is_empty(self)))
        answer = method(self, *args, **kwargs)
        if method.__name__ == _FROM_DISK and answer[0]:
            _tell(lambda loaded: loaded.loaded_from_disk(*_place(*args, **kwargs)))
        return answer

    return load


def _around_begin(method: Any) -> Any:
    def begin(self: Any, *args: Any, **kwargs: Any) -> Any:
        _tell(lambda loaded: loaded.began(session=True, empty=_is_empty(self)))
        return method(self, *args, **kwargs)

    return begin


def _then(event: Callable[[Loaded], None]) -> Callable[[Any], Any]:
    def around(method: Any) -> Any:
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            answer = method(self, *args, **kwargs)
            _tell(event)
            return answer

        return call

    return around


def _tell(event: Callable[[Loaded], None]) -> None:
    for loaded in list(_watched):
        try:
            event(loaded)
        except Exception:  # SGLang's update goes on; the store has no name for the weights then
            logger.exception("PeerCache cannot follow an update of the weights: it stops caching")
            loaded.state = replace(loaded.state, updating=True)


def _place(
    model_path: str, load_format: str | None = None, *_: Any, **__: Any
) -> tuple[str, str | None]:
    return model_path, load_format


def _is_empty(updater: Any) -> bool:
    """Whether the device pool of the updater's runner holds no KV."""
    try:
        allocator = updater.get_model_runner().token_to_kv_pool_allocator
        free, page = int(allocator.available_size()), int(allocator.page_size)
        return free > int(allocator.size) - page
    except Exception:  # a runner that does not say it is taken for full
        return False

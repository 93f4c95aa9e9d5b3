"""Wraps methods of engines, which have no events for what PeerCache must learn from them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def wrap(owner: Any, name: str, around: Callable[[Any], Any]) -> bool:
    """Replaces a method of a class by ``around(method)``, unless an earlier call has.

    False if ``owner`` has no such method.
    """
    method = getattr(owner, name, None)
    if method is None:
        return False
    if not getattr(method, "_peercache", False):
        wrapper: Any = functools.wraps(method)(around(method))
        wrapper._peercache = True
        setattr(owner, name, wrapper)
    return True

"""An engine in this process: the client of the package on a node's socket."""

from __future__ import annotations

from typing import Any

from ..patience import PATIENT_MS
from .processes import extension_folder


def connect(socket: str) -> Any:
    import peercache

    folder = str(extension_folder())
    if folder not in peercache.__path__:
        peercache.__path__.append(folder)
    from peercache import _peercache

    connected, reason = _peercache.connect(socket, "a test", PATIENT_MS, 1 << 20)
    assert reason == ""
    return connected

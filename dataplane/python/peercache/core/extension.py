"""Loads the C++ extension, or says what to do if there is none for this interpreter."""

from __future__ import annotations

import importlib
import sysconfig
from pathlib import Path
from types import ModuleType


class ExtensionMissing(ImportError):
    """There is no extension for this interpreter, or it does not load."""


def load() -> ModuleType:
    """The module ``peercache._peercache``."""
    try:
        return importlib.import_module("peercache._peercache")
    except ImportError as error:
        raise ExtensionMissing(_explain(error)) from error


def _explain(error: ImportError) -> str:
    folder = Path(__file__).parents[1]  # peercache
    wanted = f"_peercache.{sysconfig.get_config_var('SOABI')}.so"
    present = sorted(path.name for path in folder.glob("_peercache.*.so"))
    if not isinstance(error, ModuleNotFoundError):
        return f"the extension of peercache does not load: {error}"
    found = ", ".join(present) if present else "none"
    return (
        f"{folder} has no {wanted} for this interpreter (found: {found}). Use one of these "
        "interpreters, or build the package for this one: pip install ./dataplane"
    )

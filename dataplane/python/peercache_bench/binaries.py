"""Finds peercached and peercache-perf: in a build, beside this Python, or on the PATH."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from pathlib import Path

from peercache_bench.errors import BenchError


def find(name: str, build: Path | None) -> Path:
    """The program of that build, or the installed one."""
    places = _in_build(build) if build else _installed()
    for folder in places:
        path = folder / name
        if path.is_file() and os.access(path, os.X_OK):
            return path
    found = None if build else shutil.which(name)
    if found:
        return Path(found)
    looked = ", ".join(str(folder) for folder in places)
    fix = (
        "build the data plane with `make build`"
        if build
        else "name a build with --build, or install both programs with pip install ./dataplane"
    )
    raise BenchError(f"no {name} in {looked}{'' if build else ' or on the PATH'}: {fix}")


def _in_build(build: Path) -> list[Path]:
    return [build, build / "bench", build / "bin"]


def _installed() -> list[Path]:
    beside_python = Path(sys.executable).parent
    return list(dict.fromkeys((Path(sysconfig.get_path("scripts")), beside_python)))

"""Finds peercached and peercache-perf: in a build, beside this Python, or on the PATH. And the
Python package of a source tree, with the extension of a build."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from pathlib import Path

from peercache_bench.errors import BenchError

TREE = Path(__file__).resolve().parents[3]  # of the sources, where they are


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


def install_package(build: Path, folder: Path) -> Path:
    """A folder for PYTHONPATH with the tree's package and the build's extension, as an image has
    it. Raises BenchError."""
    extensions = list((build / "python").glob("_peercache.*.so"))
    if not extensions:
        raise BenchError(
            f"--build {build} has no python/_peercache.*.so: run `make build`, which sets "
            "-DPEERCACHE_PYTHON_INCLUDE and -DPEERCACHE_PYTHON_SOABI of a build"
        )
    package = folder / "site" / "peercache"
    source = TREE / "dataplane" / "python" / "peercache"
    shutil.copytree(source, package, ignore=shutil.ignore_patterns("__pycache__"))
    for extension in extensions:
        shutil.copy(extension, package)
    return package.parent


def _in_build(build: Path) -> list[Path]:
    return [build, build / "bench", build / "bin"]


def _installed() -> list[Path]:
    beside_python = Path(sys.executable).parent
    return list(dict.fromkeys((Path(sysconfig.get_path("scripts")), beside_python)))

"""Measurements through SGLang's HiCache: runs the test engine's hicache_engine.measure."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

from peercache_bench.binaries import find
from peercache_bench.errors import BenchError
from peercache_bench.perf import Result, words

LIMIT_SECONDS = 180


class Engine:
    """The engine whose Python files are in ``folder`` (e2e/engine/python), on one build."""

    def __init__(self, folder: Path, build: Path) -> None:
        self._build = build
        if not (folder / "hicache_engine" / "measure.py").is_file():
            raise BenchError(f"{folder} holds no hicache_engine: name e2e/engine/python")
        if "PEERCACHE_ENGINE" not in os.environ:
            raise BenchError("PEERCACHE_ENGINE is not set: run e2e/engine/install.sh")
        self._environment = {**os.environ, "PYTHONPATH": f"{folder}:{_folder_of_peercache()}"}

    def __call__(self, what: str, **options: object) -> Result:
        """``engine("controller", writer=socket, reader=socket, page_size=28)``."""
        command = [sys.executable, "-m", "hicache_engine.measure", what]
        command += ["--extension", str((self._build / "python").resolve())]
        command += ["--perf", str(find("peercache-perf", self._build)), *words(options)]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=LIMIT_SECONDS, env=self._environment
        )
        if done.returncode != 0:
            raise BenchError(f"{' '.join(command)} failed: {done.stderr.strip()[-2000:]}")
        result: Result = json.loads(done.stdout.splitlines()[-1])
        return result


def _folder_of_peercache() -> Path:
    """The folder to put on PYTHONPATH so that the engine finds the package peercache."""
    found = importlib.util.find_spec("peercache")
    if found is None or found.origin is None:
        raise BenchError(
            "there is no package peercache: set PYTHONPATH=dataplane/python, or install it with "
            "pip install ./dataplane"
        )
    return Path(found.origin).parents[1]

"""What an absent node costs SGLang: at most 2 % of its start-up and of its controller's rounds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from ..conftest import ENGINE, PYTHON
from .processes import extension_folder

LIMIT = 0.02


@pytest.fixture(scope="module")
def measured() -> Any:
    path = (ENGINE / "python", PYTHON, os.environ.get("PYTHONPATH", ""))
    done = subprocess.run(
        [sys.executable, "-m", "hicache_engine.absence", "--extension", extension_folder()],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, filter(None, path)))},
    )
    return json.loads(done.stdout)


@pytest.mark.node
def test_start_up(measured: Any) -> None:
    assert min(measured["store_ms"]) / 1e3 <= LIMIT * measured["start_seconds"], measured


@pytest.mark.node
def test_a_round_of_the_controller(measured: Any) -> None:
    """A prompt is looked up, is not there, and is backed up."""
    # The quickest of many: what a machine does besides only adds.
    parts = (measured["prefetch"], measured["backup"])
    quickest = {name: sum(min(part[name]) for part in parts) for name in parts[0]}
    more = quickest["peercache_calls_us"] - quickest["null_calls_us"]
    assert more <= LIMIT * quickest["null_us"], quickest

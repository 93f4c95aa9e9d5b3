"""Paths for the tests that use SGLang's own source: see e2e/engine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parents[3]
PYTHON = ROOT / "dataplane" / "python"
ENGINE = ROOT / "e2e" / "engine"

for folder in (ENGINE / "python", PYTHON):
    sys.path.insert(0, str(folder))


# Machines that run tests are slow at times, and nothing is to be left in the tree.
settings.register_profile("peercache", deadline=None, database=None)
settings.load_profile("peercache")


def pytest_configure() -> None:
    if "PEERCACHE_ENGINE" not in os.environ:
        made = subprocess.run([ENGINE / "install.sh"], check=True, capture_output=True, text=True)
        os.environ["PEERCACHE_ENGINE"] = made.stdout.strip()


@pytest.fixture(scope="module")
def drives() -> Iterator[Path]:
    """A folder on a disk: /tmp may be memory."""
    with TemporaryDirectory(dir="/var/tmp", prefix="peercache-test-") as folder:
        yield Path(folder)


@pytest.fixture(scope="module", autouse=True)
def _flags_end_with_the_module() -> Iterator[None]:
    """What an engine in this process publishes as its server's flags is not the next module's."""
    yield
    shim = sys.modules.get("hicache_engine.shim")
    if shim is not None and shim._published:
        shim.publish_defaults()

"""peercache-bench others in small: beside Mooncake Store and the original, from their wheels."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ..conftest import PYTHON
from .processes import binary

pytestmark = pytest.mark.node

INSTALL = PYTHON.parents[1] / "hack" / "lab" / "others" / "install.sh"


def interpreter(name: str) -> str:
    return subprocess.run([INSTALL, name], check=True, stdout=subprocess.PIPE, text=True).stdout


@pytest.mark.full
def test_both_are_measured_and_give_the_pages_that_were_set(tmp_path: Path) -> None:
    line = [
        sys.executable, "-m", "peercache_bench", "others", f"--build={binary().parent}",
        f"--mooncake={interpreter('mooncake').strip()}",
        f"--original={interpreter('original').strip()}",
        f"--out={tmp_path}", "--pages-mib=64", "--repetitions=1", "--seconds=0.1",
    ]  # fmt: skip
    done = subprocess.run(line, cwd=PYTHON, capture_output=True, text=True, check=False)
    # 1: a row misses its target, which a busy machine decides.
    assert done.returncode in (0, 1), done.stderr
    assert "error:" not in done.stderr
    result = json.loads((tmp_path / "others.json").read_text())
    assert result["faults"]["PeerCache"] == {"missed": 0, "wrong": 0}
    rows = result["rows"]
    beside = [(row["name"].partition(" ")[0], row["limit_name"]) for row in rows]
    stores = ("Mooncake Store", "original PeerCache")
    assert beside == [(what, s) for what in ("GET", "CPU") * 2 + ("EXISTS",) for s in stores]
    assert all(value > 0 for row in rows for value in (*row["limits"], *row["values"]))
    assert (tmp_path / "others.png").read_bytes().startswith(b"\x89PNG")


def test_a_store_must_be_named(tmp_path: Path) -> None:
    line = [sys.executable, "-m", "peercache_bench", "others", "--build=.", f"--out={tmp_path}"]
    done = subprocess.run(line, cwd=PYTHON, capture_output=True, text=True, check=False)
    assert (done.returncode, "--mooncake" in done.stderr) == (1, True)

"""peercache-bench disk for real, in small: every row is there with a figure that can be.

Whether goals are met is not looked at: that depends on the machine.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from peercache_bench import disk_pairs
from peercache_bench.__main__ import main

from .. import wrong_bytes
from ..conftest import ROOT
from .processes import binary

pytestmark = pytest.mark.node

SMALL = ("--turns=1", "--turn-bytes=16m", "--seconds=0.2")
SESSIONS = ROOT / "dataplane" / "bench" / "eviction" / "sessions.py"
OTHERS = (
    "memory hits beside a saturated tier, p50",
    "memory hits beside other memory hits, p50",
    "pages from disk beside memory hits",
    "hits on the trace, RAM : disk 1 : 10",
    "hits on the trace beside RAM alone",
    "disk contents scanned, a million pages",
    "records of disk pages published, a million pages",
    "pages in memory adopted, a million pages",
)


def test_the_disk_tier_beside_its_goals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "trace"
    with trace.open("w") as lines:
        subprocess.run([sys.executable, SESSIONS, "--requests=100"], stdout=lines, check=True)
    # pytest's own folders may be on a tmpfs, which the tier refuses.
    with tempfile.TemporaryDirectory(dir="/var/tmp") as drive:
        folders = (f"--build={binary().parent}", f"--folder={drive}", f"--out-dir={tmp_path}")
        words = (*folders, f"--trace={trace}", *SMALL)
        status, said = main(["disk", *words]), capsys.readouterr().err
        assert "WRONG BYTES" not in said, wrong_bytes.report(said)
        assert status in (0, 1), said
        assert not list(Path(drive).iterdir()), "what was measured with is removed"
    published = json.loads((tmp_path / "disk.json").read_text())
    rows = {row["name"]: row for row in published["rows"]}
    pairs = [row.name for page in disk_pairs.SIZES for row in disk_pairs.rows_of(page).values()]
    assert list(rows) == [*pairs, *OTHERS]
    for name, row in rows.items():
        assert row["values"], name
        assert all(math.isfinite(x) and x > 0 for x in (*row["values"], *row["limits"])), name
        assert 0.0001 < row["ratio"] < 1000, name
        assert f"| {name} " in (tmp_path / "disk.md").read_text()
    assert (tmp_path / "disk-goals.png").read_bytes().startswith(b"\x89PNG")

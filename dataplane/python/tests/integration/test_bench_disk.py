"""peercache-bench disk for real, in small: every row is there with a figure that can be.

Whether goals are met is not looked at: that depends on the machine.
"""

from __future__ import annotations

import json
import math
import tempfile
from pathlib import Path

import pytest
from peercache_bench import disk_pairs
from peercache_bench.__main__ import main

from .processes import binary

pytestmark = pytest.mark.node

SMALL = ("--turns=1", "--turn-bytes=16m")


def test_the_disk_tier_beside_its_goals(tmp_path: Path) -> None:
    # pytest's own folders may be on a tmpfs, which the tier refuses.
    with tempfile.TemporaryDirectory(dir="/var/tmp") as drive:
        folders = (f"--build={binary().parent}", f"--folder={drive}", f"--out-dir={tmp_path}")
        assert main(["disk", *folders, *SMALL]) in (0, 1)
        assert not list(Path(drive).iterdir()), "what was measured with is removed"
    published = json.loads((tmp_path / "disk.json").read_text())
    rows = {row["name"]: row for row in published["rows"]}
    assert list(rows) == [
        row.name for page in disk_pairs.SIZES for row in disk_pairs.rows_of(page).values()
    ]
    for name, row in rows.items():
        assert row["values"], name
        assert all(math.isfinite(x) and x > 0 for x in (*row["values"], *row["limits"])), name
        assert 0.001 < row["ratio"] < 1000, name
        assert f"| {name} " in (tmp_path / "disk.md").read_text()
    assert (tmp_path / "disk-goals.png").read_bytes().startswith(b"\x89PNG")

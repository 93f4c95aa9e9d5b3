"""`make help`: every target with a text is in a group, in lines that fit a terminal."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[3]
WIDTH = 90


def test_every_target_is_in_one_group_and_its_line_is_short() -> None:
    said = subprocess.run(["make", "help"], cwd=ROOT, text=True, stdout=subprocess.PIPE, check=True)
    lines = said.stdout.splitlines()
    assert [line for line in lines if len(line) > WIDTH] == []
    groups = [line for line in lines if re.match(r"\S", line)]
    assert groups == ["Start here", "Build", "Test", "Measure", "Release"]
    listed = [line.split()[0] for line in lines if line.startswith("  ")]
    makefiles = [ROOT / "Makefile", *ROOT.glob("*/*.mk"), *ROOT.glob("hack/*/*.mk")]
    has_text = re.compile(r"^([a-z0-9][a-z0-9-]*):.*## ", re.M)
    targets = [m for path in makefiles for m in has_text.findall(path.read_text())]
    assert sorted(listed) == sorted(set(targets)), "name the group of the rest in HELP_GROUPS"

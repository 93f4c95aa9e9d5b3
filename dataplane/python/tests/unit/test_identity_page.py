"""docs/identity.md: each row of what is compared names tests, and they exist."""

from __future__ import annotations

import re

from ..conftest import PYTHON, ROOT

PAGE = ROOT / "docs" / "identity.md"


def test_each_row_names_tests_that_exist() -> None:
    tests = "".join(file.read_text() for file in (PYTHON / "tests").rglob("test_*.py"))
    section = PAGE.read_text().split("## What is compared")[1].split("\n## ")[0]
    rows = [line.split(" | ") for line in section.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 15
    for row in rows:
        named = re.findall(r"`(test_\w+)`", row[-1])
        assert named, row[0]
        assert not [name for name in named if f"def {name}(" not in tests], row[0]

"""Tests that short runs leave out exist: a wrong name would leave out nothing, silently."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
LINES = [
    line.split(" ", 1)
    for line in (ROOT / "dataplane" / "cmake" / "short.txt").read_text().splitlines()
    if not line.startswith("#")
]


def test_unit_tests_that_are_left_out_exist() -> None:
    sources = "".join(
        file.read_text() for file in (ROOT / "dataplane" / "src").rglob("*_test*") if file.is_file()
    )
    for preset, pattern in LINES:
        assert preset in ("all", "asan", "tsan"), preset
        plain = re.match(r"\^(?:OnFake\\\.)?(?:(\w+)/)?(\w+)\\\.(\w*)", pattern)
        assert plain, pattern
        instance, suite, test = plain.groups()
        named = rf"\({suite},\s*{test}\)" if test else rf"\({suite},\s*\w+\)"
        assert re.search(named, sources), pattern
        assert not instance or re.search(rf"\b{instance},\s*{suite},", sources), pattern

"""What tests say of wrong bytes, and that nobody says it another way."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from .. import wrong_bytes

ROOT = Path(__file__).resolve().parents[4]


def test_pages_that_are_right_or_missing() -> None:
    wrong_bytes.check_pages([b"ab", b"cd"], [b"ab", b"cd"])
    wrong_bytes.check_none(0, "")
    with pytest.raises(AssertionError, match=r"^1 of 2 pages came"):
        wrong_bytes.check_pages(["a"], ["a", "b"])


def test_the_page_and_its_first_difference_are_named() -> None:
    with pytest.raises(AssertionError) as raised:
        wrong_bytes.check_pages([b"right", b"abXd"], [b"right", b"abcd"])
    said = str(raised.value)
    assert said.startswith(wrong_bytes.TOKEN)
    assert "page 1: 1 of 4 bytes differ, from offset 2 on: got 5864, expected 6364" in said
    with pytest.raises(AssertionError, match=r"digest of its bytes is .a., expected .b."):
        wrong_bytes.check_pages(["a"], ["b", "c"])
    with pytest.raises(AssertionError, match=f"{wrong_bytes.TOKEN}: 3 pages: the log"):
        wrong_bytes.check_none(3, "the log")


def files(*patterns: str) -> list[Path]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return [file for file in map(ROOT.joinpath, listed.stdout.split()) if file.is_file()]


def test_each_language_has_one_helper() -> None:
    having = [
        str(file.relative_to(ROOT))
        for file in files("*.cc", "*.h", "*.go", "*.py", "*.sh")
        if wrong_bytes.TOKEN in file.read_text()
    ]
    assert sorted(having) == [
        "dataplane/python/tests/wrong_bytes.py",
        "dataplane/src/base/wrong_bytes.h",
        "internal/wrongbytes/wrongbytes.go",
    ]


# Comparisons of pages that were read which would not print the token.
OTHERWISE = {
    "*.py": r'\bassert (\(.*\b)?read(\["sha256s"\]|\.sha256s|\.data\b)'
    r"|\bassert page_bytes\(\w+\) ==|\bsame_bytes\(",
    "*.go": r"SHA256s\)\.(To|Should)\(",
    "*_test.cc": r"(EXPECT|ASSERT)_EQ\(std::(memcmp|ranges::count)\((memory\.bytes|page|part)\b"
    r"|std::equal\((payload|places)\b|std::ranges::equal\(page\b",
}


@pytest.mark.parametrize("pattern", OTHERWISE)
def test_pages_are_compared_by_the_helper(pattern: str) -> None:
    otherwise = re.compile(OTHERWISE[pattern])
    found = [
        f"{file.relative_to(ROOT)}:{number}: {line.strip()}"
        for file in files(f"dataplane/**/{pattern}", f"e2e/**/{pattern}", f"e2e/{pattern}")
        for number, line in enumerate(file.read_text().splitlines(), 1)
        if otherwise.search(line)
    ]
    assert found == []

"""Prints the lanes whose inputs a change touches, for FULL: CI runs these at full length.

The change is what HEAD has beyond $CHANGE_BASE. Without that it is the commits of the last twelve
hours before HEAD's: those that are pushed together. Prints "all" where a path is in no line of
touched.txt, and where the change is not known, as in a shallow clone.
"""

from __future__ import annotations

import fnmatch
import os
import subprocess
import sys
from pathlib import Path

TABLE = Path(__file__).with_name("touched.txt")
ALL = "all"
PUSHED_TOGETHER_SECONDS = 12 * 3600


def parse(text: str) -> list[tuple[str, list[str]]]:
    """Raises ValueError for a line that is no `PATHS: LANES`."""
    rows = []
    for line in text.splitlines():
        if line and not line.startswith("#"):
            pattern, colon, lanes = line.partition(":")
            if not colon or " " in pattern:
                raise ValueError(f"touched.txt: neither a comment nor PATHS: LANES: {line}")
            rows.append((pattern, lanes.split()))
    return rows


def fits(pattern: str, path: str) -> bool:
    return fnmatch.fnmatchcase(path, pattern + "*" if pattern.endswith("/") else pattern)


def touched(rows: list[tuple[str, list[str]]], paths: list[str]) -> str:
    """The lanes for these paths, in the order of their names, or "all"."""
    lanes: set[str] = set()
    for path in paths:
        row = next((row for row in rows if fits(row[0], path)), None)
        if row is None:
            return ALL
        lanes.update(row[1])
    return " ".join(sorted(lanes))


def git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def changed() -> list[str] | None:
    """Paths of the change; None where it is not known."""
    try:
        base = os.environ.get("CHANGE_BASE", "")
        if not base:
            head = int(git("show", "-s", "--format=%ct", "HEAD"))
            base = git("rev-list", "-1", f"--before={head - PUSHED_TOGETHER_SECONDS}", "HEAD")
        return git("diff", "--name-only", base, "HEAD").splitlines() if base else None
    except (subprocess.CalledProcessError, OSError) as error:
        print(f"touched: {getattr(error, 'stderr', error)}", file=sys.stderr)
        return None


def main() -> None:
    paths = changed()
    print(ALL if paths is None else touched(parse(TABLE.read_text()), paths))


if __name__ == "__main__":
    main()

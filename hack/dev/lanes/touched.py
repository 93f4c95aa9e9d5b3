"""Prints for FULL the lanes that CI runs at full length: those whose inputs a change touches.

Of these it prints what fits in ten minutes (full.txt), in five where C++ has to be compiled, and
says on stderr what is left to the run of every night. A change of the data plane touches nearly
all: a run of all at full length takes longer than anybody waits for.

The change is what HEAD has beyond $CHANGE_BASE. Without that it is the commits of the last twelve
hours before HEAD's: those that are pushed together. All lanes are touched where a path is in no
line of touched.txt, and where the change is not known, as in a shallow clone.
"""

from __future__ import annotations

import fnmatch
import os
import subprocess
import sys
from pathlib import Path

TABLE = Path(__file__).with_name("touched.txt")
COSTS = Path(__file__).with_name("full.txt")
MOST_SECONDS = 600
# What is compiled for each sanitizer and each image takes the other half, and more.
MOST_SECONDS_COMPILED = 300
COMPILED = "dataplane/src/"
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


def costs(text: str) -> dict[str, int]:
    """Seconds of each lane. Raises ValueError for a line that is no `LANE SECONDS`."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {lane: int(seconds) for lane, seconds in (line.split() for line in lines)}


def fits(pattern: str, path: str) -> bool:
    return fnmatch.fnmatchcase(path, pattern + "*" if pattern.endswith("/") else pattern)


def touched(rows: list[tuple[str, list[str]]], paths: list[str] | None) -> set[str] | None:
    """The lanes for these paths; None: all."""
    if paths is None:
        return None
    lanes: set[str] = set()
    for path in paths:
        row = next((row for row in rows if fits(row[0], path)), None)
        if row is None:
            return None
        lanes.update(row[1])
    return lanes


def room_for(paths: list[str] | None) -> int:
    """Seconds that lanes at full length may add."""
    compiled = paths is None or any(path.startswith(COMPILED) for path in paths)
    return MOST_SECONDS_COMPILED if compiled else MOST_SECONDS


def chosen(
    lanes: set[str] | None, seconds: dict[str, int], room: int
) -> tuple[list[str], list[str]]:
    """Of these lanes the ones that fit, and those with a full length that do not."""
    fit: list[str] = []
    left: list[str] = []
    for lane, cost in seconds.items():
        if lanes is None or lane in lanes:
            (fit if cost <= room else left).append(lane)
            room -= cost if cost <= room else 0
    return fit, left


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
    lanes = touched(parse(TABLE.read_text()), paths)
    fit, left = chosen(lanes, costs(COSTS.read_text()), room_for(paths))
    print(" ".join(fit))
    if left:
        print(f"left to the run of every night at full length: {' '.join(left)}", file=sys.stderr)


if __name__ == "__main__":
    main()

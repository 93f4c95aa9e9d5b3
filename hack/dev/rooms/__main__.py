"""Which folder uses which, held against rooms.txt: python3 hack/dev/rooms [REPOSITORY]

Prints each line that uses a folder it may not, or a header that is its folder's own; each folder
that the table lacks or has in vain, and each that the map in docs/dev/contributing.md does not
name. Reads the sources that git knows, tests excepted: they may use all.

Prints each comment, of tests too, that names a file which does not exist, and each line that
starts a thread without a Status, in files that threads.txt does not name. Prints each file that is
too large for a source.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from large import large
from named_files import stale
from rooms import check, parse_table, unnamed
from threads import bare, parse

HERE = Path(__file__).resolve().parent


def main() -> int:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE.parents[2]
    listed = subprocess.run(
        ["git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard"],
        check=True,
        capture_output=True,
        text=True,
    )
    files = [name for name in listed.stdout.splitlines() if (root / name).is_file()]
    trees = parse_table((HERE / "rooms.txt").read_text())
    problems = check(trees, files, lambda name: (root / name).read_text())
    page = root / "docs/dev/contributing.md"
    problems += unnamed(trees, page.read_text() if page.is_file() else "")
    problems += stale(files, lambda name: (root / name).read_text())
    allowed = parse((HERE / "threads.txt").read_text())
    problems += bare(files, lambda name: (root / name).read_text(), allowed)
    problems += large(files, lambda name: (root / name).stat().st_size)
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

"""Runs lanes of the tests, in the order given: python3 hack/lanes LANE...

Each lane is a target of make. The first that fails ends the run. In CI (the variable CI is set)
single named tests that failed are tried again: see run.py. $ARTIFACTS, or build/lanes, keeps what
each lane printed, its seconds (lanes.tsv), and what was tried again (flaky.tsv).
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from run import Run


def main() -> int:
    if not sys.argv[1:]:
        print(__doc__, file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what runs beside is ended too
    artifacts = Path(os.environ.get("ARTIFACTS") or "build/lanes")
    return Run(artifacts, again=bool(os.environ.get("CI"))).all(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())

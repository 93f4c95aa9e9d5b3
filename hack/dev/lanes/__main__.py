"""Runs lanes of the tests, in the order given: python3 hack/dev/lanes LANE...

Each lane is a target of make. The first that fails ends the run. Named tests that failed are tried
again: see run.py. $ARTIFACTS, or build/lanes, keeps what each lane printed, its seconds
(lanes.tsv), and what was tried again (flaky.tsv).

FULL          "all", or the lanes that run at full length (see touched.py); the others run the part
              that finds most in a minute
AGAIN         how many tests may be tried again in the run (10)
UNDER_LOAD    "1": a process spins on each processor meanwhile
CI            set: a test that was skipped fails its lane
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import nullcontext
from pathlib import Path

from load import spinning
from run import Run


def main() -> int:
    lanes = sys.argv[1:]
    if not lanes:
        print(__doc__, file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what runs beside is ended too
    artifacts = Path(os.environ.get("ARTIFACTS") or "build/lanes")
    named = os.environ.get("FULL", "").split()
    full = frozenset(lanes if named in (["all"], ["1"]) else named)
    again = int(os.environ.get("AGAIN") or 10)
    with spinning() if os.environ.get("UNDER_LOAD") else nullcontext():
        return Run(artifacts, again, full).all(lanes)


if __name__ == "__main__":
    sys.exit(main())

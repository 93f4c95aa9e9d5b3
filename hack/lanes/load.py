"""A machine that others use, too: a process that spins on each processor."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

LONGEST_SECONDS = 4 * 3600  # if this process is killed, so that nothing spins for ever


@contextmanager
def spinning() -> Iterator[None]:
    """In a session of their own, which has the weight of any other: lanes get half of the time."""
    processors = len(os.sched_getaffinity(0))
    spin = f"for i in $(seq {processors}); do while :; do :; done & done; wait"
    with subprocess.Popen(
        ["timeout", str(LONGEST_SECONDS), "bash", "-c", spin], start_new_session=True
    ) as load:
        try:
            yield
        finally:
            load.terminate()

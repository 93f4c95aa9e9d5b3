"""A machine that others use, too: a process that spins on each processor."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def spinning() -> Iterator[None]:
    """In a session of their own, which has the weight of any other: lanes get half of the time.

    They look every second or so whether this process lives: it may be killed.
    """
    processors = len(os.sched_getaffinity(0))
    while_needed = f"while kill -0 {os.getpid()}"
    own = f"{while_needed}; do for ((n = 0; n < 300000; n++)); do :; done; done"
    spin = f"for i in $(seq {processors}); do {own} & done; wait"
    with subprocess.Popen(
        ["bash", "-c", spin],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as load:
        try:
            yield
        finally:
            os.killpg(load.pid, signal.SIGKILL)

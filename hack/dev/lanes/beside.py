"""A lane that runs beside the lanes after it, and what it has ended with."""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import time
from pathlib import Path

# Most of these want processors and wait for nothing, the lanes after them mostly wait (e2e for six
# tenths of its time): so they run beside them, and their output comes at the end. Schedulers weigh
# sessions, and only then the processes in one: each gets a session of its own, of the weight of
# this nice value. With 15 they take what others leave: who needs a build waits for it. The two of 5
# wait most of their time, as test-python and test-faults do beside them. ratio-rdma counts
# instructions of one virtual processor, which no other load changes.
NICE = {
    "ratio-rdma": 15,
    "build-cpp": 15,
    "build-tsan": 15,
    "e2e-build": 15,
    "lint": 15,
    "test-dashboard": 5,
    "test-hostile": 5,
    "test-fuzz": 15,
    "test-model": 15,
    "test-envtest": 15,
    "test-kill": 15,
    "test-site": 15,
    "test-go": 15,
    "test-rules": 15,
    "test-render": 15,
    "test-chart-upgrade": 15,
    "test-push": 15,
}
# Lanes that begin when another has ended: two builds in one folder spoil it. e2e-build has locks.
AFTER = {"test-cpp": "build-cpp", "test-tsan": "build-tsan"}
# Guests with several processors, whose queue pairs stop for seconds when they have to wait for
# them: these begin when nothing runs beside.
ALONE = {"test-rdma", "test-rdma-kubernetes"}


class Beside:
    """One such lane, begun."""

    def __init__(self, lane: str, log: Path, variables: dict[str, str]) -> None:
        self.lane = lane
        self.log = log
        self._began = time.time()  # as files have it
        nice = NICE[lane]
        weight = f"{{ echo {nice} > /proc/self/autogroup; }} 2>/dev/null; exec nice -n {nice} "
        with log.open("wb") as file:
            self._process = subprocess.Popen(
                ["bash", "-c", f"{weight} make --no-print-directory {lane}"],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, **variables},
            )
        atexit.register(self.kill)

    @property
    def runs(self) -> bool:
        return self._process.poll() is None

    @property
    def well(self) -> bool:
        """It has not failed."""
        return self._process.poll() in (None, 0)

    @property
    def seconds(self) -> float:
        """Until it said its last word, which is when it ended, as good as."""
        return max(0.0, self.log.stat().st_mtime - self._began)

    def wait(self) -> None:
        self._process.wait()

    def kill(self) -> None:
        if self.runs:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

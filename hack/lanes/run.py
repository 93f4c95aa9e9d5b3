"""Runs lanes, and decides what is tried again.

Many tests wait for something with a deadline, which a machine that others use too may miss. So in
CI a named test that failed is tried again alone, at most three in the whole run; a spec of e2e with
those in its containers. Each is a defect of the test or of the product all the same. Never tried
again: wrong bytes, a sanitizer's or fuzzer's report, a build, a crash, a test that was skipped, and
the lanes that search for faults: what they find is there.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from alarms import alarm, not_run
from beside import AFTER, ALONE, NICE, Beside
from named import CTEST, GINKGO, GO, PYTEST, Framework

# Lanes that have named tests which wait; no other lane is ever tried again.
FRAMEWORKS: dict[str, Framework] = {
    "test-cpp": CTEST,
    "test-python": PYTEST,
    "test-dashboard": PYTEST,
    "test-go": GO,
    "test-rules": GO,
    "test-envtest": GO,
    "test-render": GO,
    "test-chart-upgrade": GO,
    "test-push": GO,
    "e2e": GINKGO,
}
MOST_AGAIN = 3  # in a run
ERROR_LINES = 12  # of what a test or lane that failed has printed last, at the end of a run


class Run:
    """One run: its lanes' times and what it has tried again."""

    def __init__(self, artifacts: Path, again: bool) -> None:
        self.artifacts = artifacts
        self.again = again
        self.times: list[tuple[str, float, str]] = []
        self.again_of: list[tuple[str, str, bool]] = []  # lane, name, and whether it passed then
        self._errors: list[str] = []  # repeated last, where whoever sees only the end finds them
        self._left = MOST_AGAIN
        self._beside: list[Beside] = []

    def all(self, lanes: list[str]) -> int:
        """The run's exit status."""
        self.artifacts.mkdir(parents=True, exist_ok=True)
        (self.artifacts / "flaky.tsv").write_text("lane\tname\tsecond try\treason\n")
        (self.artifacts / "lanes.tsv").write_text("lane\tseconds\tresult\n")
        began = time.monotonic()
        passed = True
        for lane in lanes:
            if lane in NICE:
                say(f"=== lane {lane} begins, beside the next ones")
                self._beside.append(Beside(lane, self.artifacts / f"{lane}.log"))
                continue
            if lane in ALONE:
                passed = self._end_all(passed)
            elif lane in AFTER:
                passed = self._end_all(passed, AFTER[lane])
            if not (passed and self._lane(lane) and all(beside.well for beside in self._beside)):
                passed = False
                break
        passed = self._end_all(passed)
        self._report(time.monotonic() - began, passed)
        return 0 if passed else 1

    def _lane(self, lane: str) -> bool:
        say(f"=== lane {lane}")
        began = time.monotonic()
        log = self.artifacts / f"{lane}.log"
        well = make(lane, log)
        passed = self._judge(lane, log, well)
        self._note(lane, time.monotonic() - began, passed)
        return passed

    def _judge(self, lane: str, log: Path, well: bool) -> bool:
        """Whether the lane passes: at once, or after its tests that failed have passed alone."""
        lines = read(log)
        if found := alarm(lines):
            wrong = f"wrong bytes or a sanitizer's report: {found}"
            return self._fail(f"{lane} is not tried again: {wrong}")
        if well and self.again and (line := not_run(lines)):
            return self._fail(f"{lane}: a test was skipped, and in CI each has to run: {line}")
        if well:
            return True
        framework = FRAMEWORKS.get(lane)
        names = framework.failed(lines) if framework else []
        if not (framework and names):
            why = ": more than tests with names has failed" if framework else ""
            return self._fail(f"{lane} is not tried again{why}", lines)
        if not self.again or len(names) > self._left:
            left = f", and {self._left} more may be tried" if self.again else ""
            self._fail(f"{lane}: {len(names)} tests failed{left}")
            for name in names:
                self._fail(f"{lane}: {name}", framework.reason(lines, name).splitlines())
            return False
        self._left -= len(names)
        # All are tried, also after one has failed, so that the list is complete.
        passed = [self._alone(lane, framework, name, lines) for name in names]
        return all(passed)

    def _alone(self, lane: str, framework: Framework, name: str, first: list[str]) -> bool:
        say(f"=== lane {lane}: once more, alone: {name}")
        log = self.artifacts / f"{lane}.again-{len(self.again_of) + 1}.log"
        well = make(lane, log, ONLY=framework.again(name))
        lines = read(log)
        found = alarm(lines)
        passed = well and not found and framework.one_passed(lines)
        self.again_of.append((lane, name, passed))
        verdict = "passed" if passed else "failed"
        row = (lane, name, verdict, framework.reason(first, name))
        with (self.artifacts / "flaky.tsv").open("a") as file:
            file.write("\t".join(map(cell, row)) + "\n")
        if not passed:
            text = f"{lane}: {name} {found or 'failed again'}; see {log}"
            self._fail(text, framework.reason(first, name).splitlines())
        return passed

    def _fail(self, text: str, lines: list[str] | None = None) -> bool:
        """Says it, and says it again at the end, with the last of these lines."""
        said = [line for line in lines or [] if line.strip()][-ERROR_LINES:]
        self._errors.append("\n".join([f"error: {text}", *(f"    {line[:400]}" for line in said)]))
        say(f"error: {text}")
        return False

    def _note(self, lane: str, seconds: float, passed: bool) -> None:
        result = "passed" if passed else "FAILED"
        say(f"=== lane {lane} {result} after {seconds:.0f} s")
        self.times.append((lane, seconds, result))
        with (self.artifacts / "lanes.tsv").open("a") as file:
            file.write(f"{lane}\t{seconds:.0f}\t{result}\n")

    def _end_all(self, passed: bool, only: str | None = None) -> bool:
        """Whether the run has passed so far, once lanes beside have ended: all, or only this."""
        for beside in [beside for beside in self._beside if only in (None, beside.lane)]:
            passed = self._end(beside, passed) and passed
            self._beside.remove(beside)
        return passed

    def _end(self, beside: Beside, wait: bool) -> bool:
        """Waits for it, unless the run is over already and it has not failed itself."""
        if wait and beside.runs:
            say(f"=== waiting for lane {beside.lane}")
            beside.wait()
        if beside.runs:
            beside.kill()
            return True
        sys.stdout.buffer.write(beside.log.read_bytes())
        passed = self._judge(beside.lane, beside.log, beside.well)
        self._note(beside.lane, beside.seconds, passed)
        return passed

    def _report(self, seconds: float, passed: bool) -> None:
        width = max((len(lane) for lane, _, _ in self.times), default=0)
        for lane, took, result in self.times:
            say(f"  {lane:<{width}} {took:>6.0f} s  {result}")
        for lane, name, well in self.again_of:
            if well:
                say(f"FLAKY: {name} of lane {lane} failed once, and passed alone")
        result = "all lanes passed" if passed else "FAILED"
        say(f"=== {result} after {seconds:.0f} s; logs, lanes.tsv, flaky.tsv: {self.artifacts}")
        for error in self._errors:
            say(error)


def make(lane: str, log: Path, **variables: str) -> bool:
    """Whether the target could be made; what it prints is shown and kept."""
    with (
        log.open("wb") as file,
        subprocess.Popen(
            ["make", "--no-print-directory", lane],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **variables},
        ) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            file.write(line)
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
    return process.returncode == 0


def read(log: Path) -> list[str]:
    return log.read_text(errors="replace").splitlines()


def cell(text: str) -> str:
    """Of a table with tabs between its columns."""
    return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n")


def say(line: str) -> None:
    print(line, flush=True)

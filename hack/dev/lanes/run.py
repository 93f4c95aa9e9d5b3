"""Runs lanes, and decides what is tried again.

Many tests wait for something with a deadline, which a machine that others use too may miss. So a
named test that failed is tried again once, at the end, when nothing else runs: at most ten in the
whole run; a spec of e2e with those in its containers. Each is a defect of the test or of the
product all the same, and ends the run's output with what it printed first. Never tried again: wrong
bytes, the report of a sanitizer, fuzzer or model, a build, a crash, a test that was skipped, and
kills at random points.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from alarms import alarm, crash, not_run
from beside import AFTER, ALONE, NICE, Beside
from named import CTEST, GINKGO, GO, PYTEST, SOFT_RDMA, SOFT_RDMA_KUBERNETES, Framework

# Lanes that have named tests which wait. No other lane is ever tried again: a build, a model, a
# fuzzer and kills at random points find what is there.
FRAMEWORKS: dict[str, Framework] = {
    "test-cpp": CTEST,
    "test-tsan": CTEST,
    "test-python": PYTEST,
    "test-dashboard": PYTEST,
    "test-faults": PYTEST,
    "test-hostile": PYTEST,
    "test-engines": PYTEST,
    "test-stress": PYTEST,
    "test-rdma": SOFT_RDMA,
    "test-rdma-kubernetes": SOFT_RDMA_KUBERNETES,
    "test-go": GO,
    "test-rules": GO,
    "test-envtest": GO,
    "test-render": GO,
    "test-chart-upgrade": GO,
    "test-push": GO,
    "test-families": GINKGO,
    "e2e": GINKGO,
}
ERROR_LINES = 12  # of what a test or lane that failed has printed last, at the end of a run


@dataclass(frozen=True)
class Late:
    """A test that failed, and what its lane had printed by then."""

    lane: str
    framework: Framework
    name: str
    lines: list[str]


@dataclass(frozen=True)
class Again:
    """A second try: of what, whether it passed, and what the first one printed last."""

    lane: str
    name: str
    passed: bool
    reason: str


class Run:
    """One run: its lanes' times and what it has tried again."""

    def __init__(self, artifacts: Path, most_again: int, full: frozenset[str]) -> None:
        self.artifacts = artifacts
        self.full = full  # lanes that run at full length
        self.times: list[tuple[str, float, str]] = []
        self._idle: dict[str, float] = {}  # of processors while this lane was in front, 0 to 1
        self.again_of: list[Again] = []
        self._errors: list[str] = []  # repeated last, where whoever sees only the end finds them
        self._left = most_again
        self._beside: list[Beside] = []
        self._late: list[Late] = []  # to be tried again

    def all(self, lanes: list[str]) -> int:
        """The run's exit status."""
        self.artifacts.mkdir(parents=True, exist_ok=True)
        (self.artifacts / "flaky.tsv").write_text("lane\tname\tsecond try\treason\n")
        (self.artifacts / "lanes.tsv").write_text("lane\tseconds\tresult\n")
        began = time.monotonic()
        passed = True
        for lane in lanes:
            if lane in ALONE:
                passed = self._end_all(passed)
            elif lane in AFTER:
                passed = self._end_all(passed, AFTER[lane])
            if not passed:
                break
            if lane in NICE:
                say(f"=== lane {lane} begins, beside the next ones")
                log = self.artifacts / f"{lane}.log"
                self._beside.append(Beside(lane, log, self._length(lane)))
            else:
                passed = self._lane(lane) and self._end_failed()
            if not passed:
                break
        passed = self._end_all(passed)
        again = self._alone if passed else self._not_again
        for late in self._late:  # all, also after one has failed: the list is complete
            passed = again(late) and passed
        self._report(time.monotonic() - began, passed)
        return 0 if passed else 1

    def _lane(self, lane: str) -> bool:
        say(f"=== lane {lane}")
        began = time.monotonic()
        idle, ran = processors()
        log = self.artifacts / f"{lane}.log"
        well = make(lane, log, **self._length(lane))
        passed = self._judge(lane, log, well)
        idle_now, ran_now = processors()
        self._idle[lane] = (idle_now - idle) / max(1, idle_now - idle + ran_now - ran)
        self._note(lane, time.monotonic() - began, passed)
        return passed

    def _length(self, lane: str) -> dict[str, str]:
        """The variable by which makefiles know that all of a lane is to run."""
        return {"FULL": "1" if lane in self.full else ""}

    def _judge(self, lane: str, log: Path, well: bool) -> bool:
        """Whether the lane passes, but for tests that are tried again at the end."""
        lines = read(log)
        if found := alarm(lines):
            wrong = f"wrong bytes or a sanitizer's report: {found}"
            return self._fail(f"{lane} is not tried again: {wrong}")
        if well and os.environ.get("CI") and (line := not_run(lines)):
            return self._fail(f"{lane}: a test was skipped, and in CI each has to run: {line}")
        if well:
            return True
        if found := crash(lines):
            return self._fail(f"{lane} is not tried again: a crash: {found}", lines)
        framework = FRAMEWORKS.get(lane)
        names = framework.failed(lines) if framework else []
        if not (framework and names):
            why = ": more than tests with names has failed" if framework else ""
            return self._fail(f"{lane} is not tried again{why}", lines)
        if len(names) > self._left:
            self._fail(f"{lane}: {len(names)} tests failed, and {self._left} more may be tried")
            for name in names:
                self._fail(f"{lane}: {name}", framework.reason(lines, name).splitlines())
            return False
        self._left -= len(names)
        for name in names:
            say(f"=== lane {lane}: failed, and is tried again at the end: {name}")
            self._late.append(Late(lane, framework, name, lines))
        return True

    def _alone(self, late: Late) -> bool:
        lane, name, framework = late.lane, late.name, late.framework
        say(f"=== lane {lane}: once more, alone: {name}")
        log = self.artifacts / f"{lane}.again-{len(self.again_of) + 1}.log"
        well = make(lane, log, ONLY=framework.again(name))
        lines = read(log)
        found = alarm(lines)
        passed = well and not found and framework.one_passed(lines)
        reason = framework.reason(late.lines, name)
        self.again_of.append(Again(lane, name, passed, reason))
        verdict = "passed" if passed else "failed"
        row = (lane, name, verdict, reason)
        with (self.artifacts / "flaky.tsv").open("a") as file:
            file.write("\t".join(map(cell, row)) + "\n")
        if not passed:
            text = f"{lane}: {name} {found or 'failed again'}; see {log}"
            self._fail(text, reason.splitlines())
        return passed

    def _not_again(self, late: Late) -> bool:
        reason = late.framework.reason(late.lines, late.name).splitlines()
        text = f"{late.lane}: {late.name} failed, and was not tried again: the run had failed"
        return self._fail(text, reason)

    def _fail(self, text: str, lines: list[str] | None = None) -> bool:
        """Says it, and says it again at the end, with the last of these lines."""
        self._errors.append("\n".join([f"error: {text}", *last(lines or [])]))
        say(f"error: {text}")
        return False

    def _note(self, lane: str, seconds: float, passed: bool) -> None:
        result = "passed" if passed else "FAILED"
        say(f"=== lane {lane} {result} after {seconds:.0f} s")
        self.times.append((lane, seconds, result))
        with (self.artifacts / "lanes.tsv").open("a") as file:
            file.write(f"{lane}\t{seconds:.0f}\t{result}\n")

    def _end_failed(self) -> bool:
        """Whether the run goes on after the lanes beside that have failed by now."""
        passed = True
        for beside in [beside for beside in self._beside if not beside.well]:
            passed = self._end(beside, True) and passed
            self._beside.remove(beside)
        return passed

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
            idle = f", {self._idle[lane]:.0%} idle" if lane in self._idle else ", beside"
            say(f"  {lane:<{width}} {took:>6.0f} s  {result}{idle}")
        for again in self.again_of:
            if again.passed:
                say(f"FLAKY: {again.name} of lane {again.lane} failed once, and passed alone:")
                say("\n".join(last(again.reason.splitlines())))
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


def processors() -> tuple[int, int]:
    """How long all processors together have been idle, and have run: in ticks since the start."""
    times = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    idle = times[3] + times[4]  # that of waiting for a drive, too
    return idle, sum(times) - idle


def read(log: Path) -> list[str]:
    return log.read_text(errors="replace").splitlines()


def last(lines: list[str]) -> list[str]:
    """The end of an output, as the end of a run shows it."""
    return [f"    {line[:400]}" for line in lines if line.strip()][-ERROR_LINES:]


def cell(text: str) -> str:
    """Of a table with tabs between its columns."""
    return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n")


def say(line: str) -> None:
    print(line, flush=True)

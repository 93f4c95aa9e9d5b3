"""The tests that a lane's log says have failed, by name: make LANE ONLY=NAME runs one of them.

A log in which anything else failed (a build, a crash, the time limit of the whole) has no names.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import takewhile

Lines = list[str]
REASON_LINES = 30


@dataclass(frozen=True)
class Framework:
    """How one test framework writes."""

    # Of the tests that failed, if nothing else did.
    failed: Callable[[Lines], list[str]]
    # Whether what was named ran, and passed: a name that nothing has passes otherwise.
    one_passed: Callable[[Lines], bool]
    # The line at which the output of a test begins, and the lines at which another's does.
    begins: Callable[[str], re.Pattern[str]]
    others: re.Pattern[str]
    # What to name to try that test again.
    again: Callable[[str], str] = lambda name: name

    def reason(self, lines: Lines, name: str) -> str:
        """The end of what the test printed."""
        begins = self.begins(name)
        at = next((i for i, line in enumerate(lines) if begins.search(line)), None)
        if at is None:
            return "\n".join(lines[-REASON_LINES:])
        own = takewhile(lambda line: not self.others.search(line), lines[at + 1 :])
        return "\n".join([lines[at], *own][-REASON_LINES:])


def _matches(pattern: str, lines: Lines) -> list[re.Match[str]]:
    return [match for match in map(re.compile(pattern).search, lines) if match]


def _complete(names: list[str], count: int) -> list[str]:
    """All that failed have names, or none is of use."""
    return names if len(names) == count and len(set(names)) == count else []


def _last_number(pattern: str, lines: Lines) -> int:
    found = _matches(pattern, lines)
    return int(found[-1][1]) if found else 0


# ---- ctest


def _ctest_failed(lines: Lines) -> list[str]:
    # A crash is (SEGFAULT), (Subprocess aborted) and so on; a test without program is (Not Run).
    names = [m[1] for m in _matches(r"^\s+\d+ - (.+) \((?:Failed|Timeout)\)$", lines)]
    return _complete(names, _last_number(r"tests passed, (\d+) tests failed out of", lines))


CTEST = Framework(
    failed=_ctest_failed,
    one_passed=lambda lines: bool(_matches(r"^100% tests passed, 0 tests failed out of 1$", lines)),
    begins=lambda name: re.compile(rf" Test +#\d+: {re.escape(name)} \.*\s*\*\*\*"),
    others=re.compile(r"^\s*\d+/\d+ Test +#|^\s+Start +\d+: |% tests passed, "),
)


# ---- pytest


def _pytest_failed(lines: Lines) -> list[str]:
    if _matches(r"^!{3,} .* !{3,}$", lines):  # interrupted, or stopped at a number of failures
        return []
    names = [
        m[1]
        for m in _matches(r"^(?:FAILED|ERROR) (\S+?::[\w:]+(?:\[.*?\](?= - |$))?)(?: - |$)", lines)
    ]
    end = _matches(r"^(?:=+ )?(?:\d+ \w+, )*\d+ \w+ in [\d.]+s", lines)
    counts = re.findall(r"(\d+) (?:failed|errors?)\b", end[-1][0]) if end else []
    return _complete(names, sum(map(int, counts)))


PYTEST = Framework(
    failed=_pytest_failed,
    one_passed=lambda lines: bool(_matches(r"^(?:=+ )?1 passed(?:, \d+ warnings?)? in ", lines)),
    begins=lambda name: re.compile(
        rf"^_+ (?:ERROR at \w+ of )?{re.escape(name.split('::', 1)[1].replace('::', '.'))} _+$"
    ),
    others=re.compile(r"^_{3,} .* _{3,}$|^={3,} .* ={3,}$"),
)


# ---- go test: PACKAGE.TestName


def _go_failed(lines: Lines) -> list[str]:
    # After a panic, and after the time limit, which is one, the rest of a package has not run.
    if _matches(r"^panic: |^fatal error: |^FAIL\t\S+ \[", lines):
        return []
    names, tests, bare = [], [], False
    for line in lines:
        if match := re.match(r"--- FAIL: (\w+) \(", line):
            tests.append(match[1])
        elif match := re.match(r"FAIL\t(\S+)\t[\d.]+s$", line):
            bare = bare or not tests  # TestMain, or os.Exit
            names += [f"{match[1]}.{test}" for test in tests]
            tests = []
    return [] if bare or tests else names


def _go_one_passed(lines: Lines) -> bool:
    ok = _matches(r"^ok  \t", lines)
    return len(ok) == 1 and "[no tests to run]" not in ok[0].string and not _matches("^FAIL", lines)


GO = Framework(
    failed=_go_failed,
    one_passed=_go_one_passed,
    begins=lambda name: re.compile(rf"^--- FAIL: {re.escape(name.rsplit('.', 1)[1])} \("),
    others=re.compile(r"^(?:--- |FAIL\b|ok  \t|PASS$|=== )"),
)


# ---- hack/lab/soft-rdma/test.sh: a script in a guest


def _soft_rdma_failed(lines: Lines) -> list[str]:
    names = [m[1] for m in _matches(r"\bFAIL +\d+ s  (\S+) \(status \d+\)", lines)]
    return _complete(names, _last_number(r"error: (\d+) of \d+ tests failed: ", lines))


SOFT_RDMA = Framework(
    failed=_soft_rdma_failed,
    one_passed=lambda lines: bool(_matches(r"\ball 1 tests passed in ", lines)),
    begins=lambda name: re.compile(rf"\bFAIL +\d+ s  {re.escape(name)} "),
    others=re.compile(r"\b(?:PASS|FAIL) +\d+ s  "),
)


# ---- hack/lab/soft-rdma/qemu/kubernetes.sh: one test, of steps that follow from each other


def _kubernetes_failed(lines: Lines) -> list[str]:
    steps = _matches(r"^error: (?:not so|not within \d+ s): (?!.*no byte was wrong)", lines)
    return ["kubernetes"] if len(steps) == 1 else []


SOFT_RDMA_KUBERNETES = Framework(
    failed=_kubernetes_failed,
    one_passed=lambda lines: bool(_matches(r"\ball is as it should be after \d+ s$", lines)),
    begins=lambda _: re.compile(r"^error: not "),
    others=re.compile(r"^make"),
)


# ---- ginkgo: the texts of containers, and that of the spec

# A spec goes on from where those before it in its containers have ended: all are tried again. What
# failed in a node of a container further out, whose text does not tell them, is tried alone.
_SPEC = " > "
_GINKGO_KINDS = r"\[(It|BeforeAll|AfterAll|BeforeEach|JustBeforeEach|JustAfterEach|AfterEach)\] "
_WITH_CONTAINER = ("It", "BeforeAll", "AfterAll")
_GINKGO_NODES = _GINKGO_KINDS.replace("(", "(?:")


def _ginkgo_failed(lines: Lines) -> list[str]:
    # A suite that was interrupted, or took too long, says so between FAIL! and the counts.
    end = _matches(r"^FAIL! -- \d+ Passed \| (\d+) Failed \| ", lines)
    # "[TIMEDOUT] in [It]" is of the report of one spec, not of the list at the end.
    found = _matches(rf"^  \[(?:FAIL|TIMEDOUT)\] (?!in \[)(.*?){_GINKGO_KINDS}(.*)$", lines)
    names = [m[1].rstrip() + (_SPEC if m[2] in _WITH_CONTAINER else " ") + m[3] for m in found]
    return _complete(names, int(end[-1][1]) if end else 0)


GINKGO = Framework(
    failed=_ginkgo_failed,
    one_passed=lambda lines: bool(
        _matches(r"^Ran [1-9]\d* of \d+ Specs ", lines)
        and _matches(r"^SUCCESS! -- [1-9]\d* Passed \| 0 Failed ", lines)
    ),
    # A report has the kind of the node that failed before that node's own text.
    begins=lambda name: re.compile(
        "^(?! )"
        + rf" (?:{_GINKGO_NODES})?".join(map(re.escape, name.replace(_SPEC, " ", 1).split(" ")))
        + "$"
    ),
    others=re.compile(r"^-{30}$"),
    again=lambda name: name.partition(_SPEC)[0],
)

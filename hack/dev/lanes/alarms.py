"""What ends a run at the first time, in every lane: wrong bytes, and any sanitizer's report.

In CI, a test that was skipped does so, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

# The same in base/wrong_bytes.h and tests/wrong_bytes.py of the data plane, internal/wrongbytes.
WRONG_BYTES = "PEERCACHE-" + "WRONG-BYTES"

# Address-, Leak-, Thread-, Memory- and UndefinedBehaviorSanitizer, libFuzzer, Go's race detector.
_REPORT = re.compile(
    r"(ERROR|WARNING|SUMMARY|FATAL): \w+Sanitizer\b"
    r"|==\d+== ?\w+Sanitizer\b|\w+Sanitizer:DEADLYSIGNAL|\w+Sanitizer:? CHECK failed"
    r"|(ERROR|SUMMARY): libFuzzer: "
    r"|: runtime error: "
    r"|WARNING: DATA RACE"
)

# ctest's list of what did not run, and pytest's last line. `go test` says nothing about it.
_NOT_RUN = re.compile(
    r"^\s+\d+ - .+ \((?:Skipped|Disabled)\)$"
    r"|^(?:=+ )?(?:\d+ \w+, )*[1-9]\d* skipped\b.* in [\d.]+s"
)


# A process that ended itself, or was ended for what it did.
_CRASH = re.compile(r"\bterminate called\b|\bSegmentation fault\b|\bSIG(SEGV|ABRT|BUS|ILL|FPE)\b")


def alarm(lines: Iterable[str]) -> str:
    """The first line that ends the run, or ""."""
    for line in lines:
        if WRONG_BYTES in line or _REPORT.search(line):
            return line.strip()
    return ""


def crash(lines: Iterable[str]) -> str:
    """The first line that says that a process crashed, or ""."""
    return next((line.strip() for line in lines if _CRASH.search(line)), "")


def not_run(lines: Iterable[str]) -> str:
    """The first line that says that tests were skipped, or ""."""
    return next((line.strip() for line in lines if _NOT_RUN.search(line)), "")

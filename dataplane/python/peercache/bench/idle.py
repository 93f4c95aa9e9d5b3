"""What idle processors of a virtual machine do: poll for a while, or halt at once.

    with polling_idle() as before:      # None: nothing was changed
        ...

A processor that has halted is the host's, which takes 50 us or so to give it back, and longer when
others want it: each wake-up of a thread then costs that, and measurements are of the host. Linux
lets guests poll first, unless their image has turned it off. This sets what Linux has by default,
and puts back what was there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

DRIVER = "sys/devices/system/cpu/cpuidle/current_driver"
HALT_POLL_NS = "sys/module/haltpoll/parameters/guest_halt_poll_ns"
# drivers/cpuidle/governors/haltpoll.c
DEFAULT_NS = 200_000


@contextlib.contextmanager
def polling_idle(root: Path = Path("/")) -> Iterator[int | None]:
    """Nanoseconds that were there before, where they were fewer and can be changed, or None."""
    before = halt_poll_ns(root)
    setting = root / HALT_POLL_NS
    if before is None or before >= DEFAULT_NS or not _written(setting, DEFAULT_NS):
        yield None
        return
    try:
        yield before
    finally:
        _written(setting, before)


def halt_poll_ns(root: Path = Path("/")) -> int | None:
    """For how long idle processors poll; None where that is not set, as on a machine of its own."""
    try:
        if (root / DRIVER).read_text().strip() != "haltpoll":
            return None
        return int((root / HALT_POLL_NS).read_text())
    except (OSError, ValueError):
        return None


def _written(setting: Path, ns: int) -> bool:
    try:
        setting.write_text(f"{ns}\n")
    except OSError:  # /sys is read-only in most containers
        return False
    return True

"""Makes idle processors of a virtual machine poll for a while before they halt.

    with polling_idle() as before:      # None: nothing was changed
        ...

The host takes about 50 us to wake a processor that has halted, and longer when others use it. Each
wake-up of a thread then costs as much, so measurements show the host. Linux lets guests poll first,
unless their image turns it off. This sets the default of Linux, and restores the value afterwards.
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
    """Yields the nanoseconds from before, or None if nothing was changed."""
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
    """How long idle processors poll; None without that setting, as on bare metal."""
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

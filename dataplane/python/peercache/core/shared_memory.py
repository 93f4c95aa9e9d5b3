"""Which descriptors are behind a range of this process's memory. Pure but for /proc."""

from __future__ import annotations

import os
import re
from pathlib import Path

from peercache.core.segments import Region

_MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (....) ([0-9a-f]+) ([0-9a-f]+):([0-9a-f]+) (\d+)")


def regions(address: int, length: int) -> list[Region]:
    """The parts of a range of this process's memory that another process can map.

    A shared mapping is found by its inode among the open descriptors, not by a name: so it does not
    matter how the engine names its files, or whether it has unlinked them. Pages of a part without
    an open descriptor go through the staging ring.
    """
    descriptors: dict[tuple[int, int], int] = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            stat = os.stat(f"/proc/self/fd/{name}")
        except OSError:  # closed meanwhile
            continue
        descriptors.setdefault((stat.st_dev, stat.st_ino), int(name))
    found = []
    for line in Path("/proc/self/maps").read_text(errors="replace").splitlines():
        mapping = _MAPPING.match(line)
        if mapping is None or mapping[3][3] != "s":
            continue
        low, high, offset, major, minor = (int(mapping[i], 16) for i in (1, 2, 4, 5, 6))
        fd = descriptors.get((os.makedev(major, minor), int(mapping[7])))
        begin, end = max(low, address), min(high, address + length)
        if fd is not None and begin < end:
            found.append(Region(fd, begin, end - begin, offset + begin - low))
    return found

"""A drive that fails, lags, or brings wrong bits, for a whole process (drive_faults.c)."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

from .processes import shared_library

SOURCE = Path(__file__).with_name("drive_faults.c")
NAMES = (
    "read_errno", "write_errno", "read_delay_ns", "write_delay_ns", "flips", "reads", "writes",
    "sync_delay_ns", "syncs", "synced",
)  # fmt: skip


class FaultyDrive:
    """Healthy until it is told otherwise."""

    def __init__(self, folder: Path) -> None:
        self.library = folder / "drive_faults.so"
        shared_library(SOURCE, self.library)
        self._file = folder / "faults"
        self._file.write_bytes(bytes(8 * len(NAMES)))
        with self._file.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 8 * len(NAMES))

    @property
    def environment(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(self.library), "DRIVE_FAULTS": str(self._file)}

    def set(self, **faults: int) -> None:
        for name, value in faults.items():
            struct.pack_into("q", self._map, 8 * NAMES.index(name), value)

    def count(self, name: str) -> int:
        return int(struct.unpack_from("q", self._map, 8 * NAMES.index(name))[0])

"""A limit of memory for processes, and shared memory that nobody has touched yet."""

from __future__ import annotations

import ctypes
import mmap
import os
from pathlib import Path


class MemoryGroup:
    """A memory cgroup with a limit, of version 2 where that has the controller, else of 1."""

    def __init__(self, name: str, limit: int) -> None:
        root = Path("/sys/fs/cgroup")
        if "memory" in _words(root / "cgroup.controllers"):
            (root / "cgroup.subtree_control").write_text("+memory")
            self._folder, bound, self._used = root / name, "memory.max", "memory.current"
        else:
            self._folder = root / "memory" / name
            bound, self._used = "memory.limit_in_bytes", "memory.usage_in_bytes"
        self._folder.mkdir()  # needs root, as the lanes have it
        (self._folder / bound).write_text(str(limit))

    def add(self, pid: int) -> None:
        (self._folder / "cgroup.procs").write_text(str(pid))

    def used(self) -> int:
        return int((self._folder / self._used).read_text())

    def remove(self) -> None:
        self._folder.rmdir()


def _words(file: Path) -> list[str]:
    return file.read_text().split() if file.is_file() else []


class Sparse:
    """A mapped memfd without memory."""

    def __init__(self, size: int) -> None:
        self.fd = os.memfd_create("sparse")
        os.ftruncate(self.fd, size)
        self.map = mmap.mmap(self.fd, size)
        self.base = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        self.size = size

    def taken(self) -> int:
        return os.fstat(self.fd).st_blocks * 512

    def close(self) -> None:
        os.close(self.fd)

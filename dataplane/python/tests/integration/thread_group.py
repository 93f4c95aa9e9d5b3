"""A limit of threads for processes, as a container has it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


class ThreadGroup:
    """A pids cgroup, of version 2 where that has the controller, else of 1."""

    def __init__(self, name: str, limit: int | None = None) -> None:
        root = Path("/sys/fs/cgroup")
        controllers = root / "cgroup.controllers"
        if controllers.is_file() and "pids" in controllers.read_text().split():
            (root / "cgroup.subtree_control").write_text("+pids")
        else:
            root /= "pids"
        self._root = root
        self._folder = root / name
        self._folder.mkdir()  # needs root, as the lanes have it
        self.limit(limit)

    def limit(self, threads: int | None) -> None:
        """So many may there be from now on; fewer than there are: none is started any more."""
        (self._folder / "pids.max").write_text("max" if threads is None else str(threads))

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """What is started meanwhile begins its life in the group."""
        own = _group_of_this_process(self._root)
        (self._folder / "cgroup.procs").write_text(str(os.getpid()))
        try:
            yield
        finally:
            (own / "cgroup.procs").write_text(str(os.getpid()))

    def used(self) -> int:
        return int((self._folder / "pids.current").read_text())

    def remove(self) -> None:
        self._folder.rmdir()


def _group_of_this_process(root: Path) -> Path:
    wanted = "pids" if root.name == "pids" else ""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if wanted in controllers.split(","):
            return root / path.lstrip("/")
    return root

"""disk_benchmark: the disk tier by itself, which takes turns with what stands beside it."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from peercache_bench.binaries import find
from peercache_bench.errors import BenchError
from peercache_bench.perf import Result, ask, asked
from peercache_bench.speed import Speed, speed

LIMIT_SECONDS = 600


@dataclass(frozen=True)
class Shape:
    """Pages of a turn, and turns of a lap: the tier holds one lap."""

    page_bytes: int
    pages: int
    turns: int
    depth: int


class Tier:
    def __init__(self, process: subprocess.Popen[str], command: list[str], shape: Shape) -> None:
        self._process = process
        self._command = command
        self._shape = shape
        self.io: str = ask(process, command, "", LIMIT_SECONDS)["io"]

    def write(self) -> Speed:
        return self._turn("write")

    def read(self) -> Speed:
        return self._turn("read")

    def restart(self) -> Result:
        """Opens it anew; pages and seconds of the recovery."""
        return ask(self._process, self._command, "restart\n", LIMIT_SECONDS)

    def _turn(self, op: str) -> Speed:
        done = ask(self._process, self._command, f"{op}\n", LIMIT_SECONDS)
        if done["pages"] != self._shape.pages:
            raise BenchError(
                f"{op}: {done['pages']} of {self._shape.pages} pages; is the drive full or off?"
            )
        return speed(done["bytes"], done["seconds"], done["cpu_seconds"])


@contextlib.contextmanager
def tier(build: Path, folder: Path, shape: Shape) -> Iterator[Tier]:
    """A new tier in an empty folder, which is removed by whoever made it."""
    binary = find("disk_benchmark", build)
    numbers = (shape.page_bytes, shape.depth, shape.pages, shape.turns)
    command = [str(binary), str(folder), *map(str, numbers)]
    with asked(command) as process:
        yield Tier(process, command, shape)

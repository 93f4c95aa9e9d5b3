"""Nodes whose clocks a time daemon slews, or which stand still from time to time (clocks.c).

What stands still is the clock; the node runs on, and so do its sleeps, sockets and timers. A
machine that is paused, and whose hypervisor hides the time, does nothing meanwhile. So this is more
than a pause: as long as the stop lasts, the node uses what it was told before, and serves records
of owners that it has not heard from, while the clocks of the others go on.
"""

from __future__ import annotations

import os
import random
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .network import Host, Network
from .nodes import Fleet, Node

SOURCE = Path(__file__).with_name("clocks.c")
# Of CLOCK_MONOTONIC, as chrony does: 8.3 %.
FAST, SLOW = 1, -1
SLEW = 1 / 12
STOP_SECONDS = 0.5, 3.0
MOST_STOPS = 256
# A program that prints how much of both has passed, each read within a millisecond of the other.
BOTH_CLOCKS = """
import sys, time
def now():
    while True:
        before, monotonic, raw = time.clock_gettime(4), time.clock_gettime(1), time.clock_gettime(4)
        if raw - before < 0.001:
            return monotonic, raw
start = now()
time.sleep(float(sys.argv[1]))
print(*(b - a for a, b in zip(start, now())))
"""


def compile_clocks(folder: Path) -> Path:
    """The library to be loaded before a process."""
    library = folder / "clocks.so"
    flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run(["gcc", *flags, "-o", str(library), str(SOURCE)], check=True)
    return library


def raw_seconds() -> float:
    return time.clock_gettime(time.CLOCK_MONOTONIC_RAW)


class Stops:
    """When a clock stands still."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "stops"
        self.file.write_bytes(bytes(16 * MOST_STOPS))
        self.spans: list[tuple[float, float]] = []

    def begin(self, spans: Sequence[tuple[float, float]]) -> None:
        """From and to, in raw_seconds(), in order. The first is yet to come."""
        assert len(spans) < MOST_STOPS
        assert raw_seconds() < spans[0][0]
        self.spans = list(spans)
        nanoseconds = [int(at * 1e9) for span in spans for at in span]
        with self.file.open("r+b") as file:
            file.write(struct.pack(f"{len(nanoseconds)}q", *nanoseconds))

    def end(self) -> float:
        """Ends the last, a moment from now; how long it has stood still then."""
        begun, _ = self.spans[-1]
        to = raw_seconds() + 0.1
        self.spans[-1] = begun, to
        with self.file.open("r+b") as file:
            file.seek(16 * len(self.spans) - 8)
            file.write(struct.pack("q", int(to * 1e9)))
        return to - begun

    def begin_again_and_again(self, seconds: float, seed: int) -> None:
        """Random stops, less than a second apart; the last ends after the time."""
        drawn, spans = random.Random(seed), []
        at = begun = raw_seconds() + 0.1
        while at < begun + seconds:
            to = at + drawn.uniform(*STOP_SECONDS)
            spans.append((at, to))
            at = to + drawn.uniform(0.1, 1.0)
        self.begin(spans)

    def stood_seconds(self, until: float) -> float:
        return sum(min(until, to) - at for at, to in self.spans if at < until)

    def count(self, until: float) -> int:
        return sum(to < until for _, to in self.spans)


@dataclass(frozen=True)
class Clocks:
    """What a process is to see of its machine's clocks."""

    library: Path
    slew: int = 0
    stops: Stops | None = None

    @property
    def environment(self) -> dict[str, str]:
        stops = {} if self.stops is None else {"CLOCKS_STOPS": str(self.stops.file)}
        return {"LD_PRELOAD": str(self.library), "CLOCKS_SLEW": str(self.slew), **stops}


class ClockNode(Node):
    """A node with such clocks."""

    def __init__(
        self, host: Host, folder: Path, discovery: str, flags: dict[str, str], clocks: Clocks
    ) -> None:
        self.clocks = clocks
        super().__init__(host, folder, discovery, flags)

    def enter(self, host: Host) -> list[str]:
        given = (f"{name}={value}" for name, value in self.clocks.environment.items())
        return [*super().enter(host), "env", *given]


class ClockFleet(Fleet):
    """Nodes with a clock each."""

    def __init__(
        self,
        folder: Path,
        network: Network | None,
        hosts: Sequence[Host],
        clocks: Sequence[Clocks],
        **flags: str,
    ) -> None:
        super().__init__(folder, network, hosts, 0, **flags)
        self.clocks = clocks

    def _node(self, i: int) -> ClockNode:
        return ClockNode(self.hosts[i], self.folder, self.discovery, self.flags, self.clocks[i])


def seen_by_a_process(clocks: Clocks, seconds: float) -> tuple[float, float]:
    """How much of CLOCK_MONOTONIC and CLOCK_MONOTONIC_RAW passes while it sleeps."""
    shown = subprocess.run(
        [sys.executable, "-c", BOTH_CLOCKS, str(seconds)],
        env={**os.environ, **clocks.environment},
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    return float(shown[0]), float(shown[1])

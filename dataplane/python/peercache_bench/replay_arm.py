"""One arm of a replay: servers with the caches of the arm, and members whose faults are planned."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from peercache_bench import replay_client, replay_servers
from peercache_bench.errors import BenchError
from peercache_bench.nodes import BenchNode, loopback_nodes
from peercache_bench.progress import Progress
from peercache_bench.replay_client import Answer
from peercache_bench.replay_requests import Request
from peercache_bench.replay_servers import Importer

ARMS = {
    "l1": "GPU pool alone",
    "l2": "GPU pool and HiCache's L2",
    "peercache": "L2 and PeerCache",
    "fault": "PeerCache, one member killed, one frozen for 15 s",
}
FAULT_AT = 0.4  # of the replay's time
FROZEN_SECONDS = 15.0
KILLED, FROZEN = -1, -2  # which members, of all


@dataclass(frozen=True)
class Setup:
    servers: int
    own_tokens: int  # of a server's GPU pool
    pool: str  # of a member
    block_tokens: int
    prefill_rate: float  # tokens/s of a prompt of usual length
    build: Path


@dataclass
class Result:
    arm: str
    answers: list[Answer] = field(default_factory=list)
    # Of the modelled forward, for each server.
    reports: list[list[dict[str, Any]]] = field(default_factory=list)
    busy: float = 0.0  # share of this machine's processors, whatever used them
    evictions: int = 0  # of members that live at the end
    missed: dict[str, int] = field(default_factory=dict)  # pages by reason, of these
    frozen: tuple[float, float] = (
        0.0,
        0.0,
    )  # from when to when a member was, of the clock of spans


def measure(
    arm: str, made: Sequence[Request], setup: Setup, importer: Importer, progress: Progress
) -> Result:
    """Raises BenchError after wrong bytes, and after a request that got no answer."""
    result = Result(arm)
    with contextlib.ExitStack() as stack:
        nodes = stack.enter_context(_members(arm, setup))
        flags = {
            f"{arm}-{i}": _flags(arm, setup, nodes[i].socket if nodes else None)
            for i in range(setup.servers)
        }
        progress.say(f"{arm}: starting {setup.servers} servers")
        servers = stack.enter_context(replay_servers.running(importer, flags))
        if arm == "fault":
            stack.enter_context(_faults(nodes, made[-1].at, result, progress))
        began = _jiffies()
        try:
            result.answers = replay_client.send_all(
                made,
                [server.port for server in servers],
                setup.block_tokens,
                lambda sent: _say(progress, arm, sent, made),
            )
        except replay_client.Unanswered as error:
            server = servers[error.server]
            server.reported()  # raises, if bytes were wrong
            raise BenchError(
                f"{error}; the log of server {server.name}:\n{server.tail()}"
            ) from None
        result.busy = _busy(began, _jiffies())
        result.reports = [server.reported() for server in servers]
        for node in nodes:
            if node.process.poll() is None:
                result.evictions += int(node.status()["pool"]["evictions"])
                for reason, pages in node.missed().items():
                    result.missed[reason] = result.missed.get(reason, 0) + pages
    return result


def _flags(arm: str, setup: Setup, socket: Path | None) -> tuple[str, ...]:
    cache = replay_servers.cache_flags(socket, setup.prefill_rate) if arm != "l1" else ()
    return ("--max-total-tokens", str(setup.own_tokens), "--max-running-requests", "32", *cache)


@contextlib.contextmanager
def _members(arm: str, setup: Setup) -> Iterator[list[BenchNode]]:
    """One for each server, which stands for a machine with both."""
    if arm not in ("peercache", "fault"):
        yield []
        return
    pools = {f"n{i}": setup.pool for i in range(setup.servers)}
    options = {"transport": "tcp", "prefault": "off", "huge-pages": "off"}
    with loopback_nodes(setup.build, pools, options) as nodes:
        yield list(nodes.values())


@contextlib.contextmanager
def _faults(
    nodes: Sequence[BenchNode], seconds: float, result: Result, progress: Progress
) -> Iterator[None]:
    """Kills a member, and freezes another for a while."""
    killed, frozen = nodes[KILLED], nodes[FROZEN]
    over = threading.Event()

    def later() -> None:
        if over.wait(FAULT_AT * seconds):
            return
        progress.say(f"fault: {killed.name} is killed, {frozen.name} is frozen")
        killed.process.kill()
        killed.process.wait()
        os.kill(frozen.pid, signal.SIGSTOP)
        began = time.monotonic()
        over.wait(FROZEN_SECONDS)
        os.kill(frozen.pid, signal.SIGCONT)
        result.frozen = began, time.monotonic()
        progress.say(f"fault: {frozen.name} runs again")

    thread = threading.Thread(target=later)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _say(progress: Progress, arm: str, sent: int, made: Sequence[Request]) -> None:
    """Ten times in an arm."""
    if sent * 10 // len(made) > (sent - 1) * 10 // len(made):
        progress.say(f"{arm}: {sent} of {len(made)} requests are sent")


def _jiffies() -> tuple[int, int]:
    """Of all processors so far: at work, and in all."""
    fields = list(map(int, Path("/proc/stat").read_text().splitlines()[0].split()[1:9]))
    idle = fields[3] + fields[4]
    return sum(fields) - idle, sum(fields)


def _busy(before: tuple[int, int], after: tuple[int, int]) -> float:
    return (after[0] - before[0]) / max(1, after[1] - before[1])

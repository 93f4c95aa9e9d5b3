"""Attackers in a process of their own, which go on while the honest are measured.

    python -m tests.hostile.crowd KIND JSON

It prints a line when all of them are connected, and goes on at the least priority: else a machine
of two processors is what is measured. Whenever it reads a line it answers with what was done since
the last one, and it ends with its stdin.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import resource
import select
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from . import wire

PYTHON = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
READY_SECONDS = 120


class Attacker(Protocol):
    """One connection."""

    socket: socket.socket

    def connect(self) -> None: ...

    def speak(self) -> None: ...


@dataclass
class Done:
    """By all of them."""

    said: int = 0
    again: int = 0  # connections that were closed, and made anew
    refused: int = 0


# ---- what they are ------------------------------------------------------------------------------

# Most of what a peer announces does not come; some send until the node takes no more.
PARTS = (100, 64 << 10, 256 << 10)
EAGER = 20
ENGINE_PART = 1 << 20
MORE = 100
# A node lets in 256 strangers of one source address.
STRANGERS_PER_SOURCE = 100


class Announcer:
    """Announces the largest body, sends a part of it, and then a little more again and again."""

    def __init__(self, make: Callable[[], wire.Connection], first: bytes, more: int = MORE) -> None:
        self.make = make
        self.first = first
        self.more = bytes(more)
        self.connection: wire.Connection | None = None

    @property
    def socket(self) -> socket.socket:
        assert self.connection is not None
        return self.connection.socket

    def connect(self) -> None:
        if self.connection is not None:
            self.connection.socket.close()
        self.connection = self.make()
        self.connection.send_what_is_taken(self.first)

    def speak(self) -> None:
        assert self.connection is not None
        self.connection.send_what_is_taken(self.more)


def announcers(
    port: int, engines_socket: str, token: str, strangers: int, peers: int, engines: int
) -> list[Attacker]:
    lookup = wire.frame(wire.LOOKUP, bytes(wire.MAX_BODY))
    hello = wire.frame(wire.HELLO, bytes(8000), length=8100)
    pages = wire.frame(wire.SET, bytes(ENGINE_PART), length=wire.MAX_BODY)

    def peer() -> wire.Connection:
        return wire.Peer(port).join(token)

    def stranger(number: int) -> Callable[[], wire.Connection]:
        source = f"127.0.0.{2 + number // STRANGERS_PER_SOURCE}"
        return lambda: wire.Peer(port, source=source)

    # A byte of a stranger's leaves its Hello unfinished for longer than it may be.
    parts = itertools.cycle(PARTS)
    return [
        *(Announcer(peer, lookup, ENGINE_PART) for _ in range(EAGER)),
        *(Announcer(peer, lookup[: next(parts)]) for _ in range(peers - EAGER)),
        *(Announcer(lambda: wire.Engine(engines_socket), pages) for _ in range(engines)),
        *(Announcer(stranger(i), hello, 1) for i in range(strangers)),
    ]


DRIPS = b"GET /healthz HTTP/1.1\r\nX: " + b"x" * 1000
NOISE = random.Random(1).randbytes(64 * 200)
SPEECHES: dict[str, Callable[[int], bytes]] = {  # what one says, the how manieth time
    "idle": lambda _: b"",
    "drips": lambda at: DRIPS[at : at + 1],
    "garbage": lambda at: NOISE[at % 64 * 200 :][:200],
    "asks_and_reads_nothing": lambda at: b"" if at else b"GET /metrics HTTP/1.1\r\nHost: n\r\n\r\n",
}


class HttpStranger:
    """A connection to the HTTP port."""

    def __init__(self, port: int, speech: str) -> None:
        self.port = port
        self.speech = SPEECHES[speech]
        self.socket = socket.socket()

    def connect(self) -> None:
        self.socket.close()
        self.times = itertools.count()
        self.socket = socket.socket()
        self.socket.setblocking(False)
        # The port is free again at once: thousands would be missed by the tests that follow.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.connect_ex(("127.0.0.1", self.port))
        with contextlib.suppress(OSError):  # it may be closed before its turn
            self.speak()

    def speak(self) -> None:
        self.socket.send(self.speech(next(self.times)))


def http_strangers(port: int, speech: str, count: int) -> list[Attacker]:
    return [HttpStranger(port, speech) for _ in range(count)]


# ---- how they go on -----------------------------------------------------------------------------


def open_files() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def attack(attacker: Attacker, done: Done) -> None:
    """Says something; who was cut off comes back."""
    entry = select.poll()
    entry.register(attacker.socket, select.POLLRDHUP | select.POLLOUT)
    events = sum(event for _, event in entry.poll(0))
    if events & ~select.POLLOUT:
        done.again += 1
        try:
            attacker.connect()
        except (OSError, AssertionError):
            done.refused += 1
    elif events:
        with contextlib.suppress(OSError):
            attacker.speak()
            done.said += 1


def main() -> None:
    kind, options = sys.argv[1], json.loads(sys.argv[2])
    open_files()
    every = float(options.pop("every"))  # seconds between what one of them says
    attackers = KINDS[kind](**options)
    for attacker in attackers:
        attacker.connect()
    print(json.dumps({}), flush=True)
    os.nice(19)
    random.Random(1).shuffle(attackers)
    done = Done()
    turn = itertools.cycle(attackers)
    next_one = time.monotonic()
    while True:
        wait = next_one - time.monotonic()
        readable, _, _ = select.select([sys.stdin], [], [], max(0.0, wait))
        if readable:
            if not sys.stdin.readline():
                return
            print(json.dumps(vars(done)), flush=True)
            done = Done()
        elif wait <= 0:
            attack(next(turn), done)
            # Who comes late does not say all at once what was left out.
            next_one = max(next_one + every / len(attackers), time.monotonic() - 0.1)


KINDS: dict[str, Callable[..., list[Attacker]]] = {
    "announcers": announcers,
    "http_strangers": http_strangers,
}


# ---- for tests ----------------------------------------------------------------------------------


class Crowd:
    """The process, as the test sees it."""

    def __init__(self, kind: str, **options: object) -> None:
        command = [sys.executable, "-m", "tests.hostile.crowd", kind, json.dumps(options)]
        self.popen = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *command],
            cwd=PYTHON,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self.popen.stdout is not None
        readable, _, _ = select.select([self.popen.stdout], [], [], READY_SECONDS)
        line = self.popen.stdout.readline() if readable else ""
        assert line, "the attackers have ended"
        answer: dict[str, Any] = json.loads(line)
        return answer

    def done(self) -> Done:
        """What they have done since this was asked for."""
        assert self.popen.stdin is not None
        self.popen.stdin.write("\n")
        self.popen.stdin.flush()
        return Done(**self._answer())

    def end(self) -> None:
        self.popen.kill()
        self.popen.wait()


@contextlib.contextmanager
def crowd(kind: str, **options: object) -> Iterator[Crowd]:
    made = Crowd(kind, **options)
    try:
        yield made
    finally:
        made.end()


if __name__ == "__main__":
    main()

"""Two hosts go through the same steps: one says what comes next, the other when it is ready.

A line of text each way for each step, over one TCP connection. The first line of the driving side
is a digest of all steps, so that different flags are an error and not another measurement. Nothing
that is read is run: both sides know the steps.
"""

from __future__ import annotations

import contextlib
import hashlib
import socket
import time
from collections.abc import Iterator

from peercache_bench.errors import BenchError

PATIENCE_SECONDS = 60.0
# One step may take so long: gigabytes are filled first.
STEP_SECONDS = 1800.0
_MOST = 4096


def digest(plan: object) -> str:
    return hashlib.sha256(repr(plan).encode()).hexdigest()[:16]


class Peer:
    """The other host. Lines are short."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(STEP_SECONDS)
        self._connection = connection
        self._lines = connection.makefile("r", encoding="utf-8", newline="\n")
        self.address: str = connection.getpeername()[0]

    def say(self, line: str) -> None:
        self._connection.sendall(f"{line[:_MOST]}\n".encode())

    def hear(self) -> str:
        """Raises BenchError when the other side has ended or says nothing for too long."""
        try:
            line = self._lines.readline(_MOST + 1)
        except OSError as error:
            raise BenchError(f"{self.address} no longer answers: {error}") from None
        if not line.endswith("\n"):
            raise BenchError(f"{self.address} has ended: read its output there")
        return line.rstrip("\n")

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._connection.close()


@contextlib.contextmanager
def serving(port: int, plan: object) -> Iterator[Peer]:
    """The peer that drives, when it has come with the same plan."""
    with socket.create_server(("", port)) as listener:
        connection, _ = listener.accept()
        peer = Peer(connection)
        try:
            if peer.hear() != digest(plan):
                peer.say("other steps")
                raise BenchError(f"{peer.address} has other steps: give both sides the same flags")
            peer.say("same steps")
            yield peer
        finally:
            peer.close()


@contextlib.contextmanager
def driving(host: str, port: int, plan: object) -> Iterator[Peer]:
    """The peer that serves; waits until it is there."""
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            connection = socket.create_connection((host, port), timeout=5)
            break
        except OSError as error:
            if time.monotonic() > end:
                raise BenchError(
                    f"{host}:{port} does not answer: {error}; run the same command there, without "
                    "--host"
                ) from None
            time.sleep(0.2)
    peer = Peer(connection)
    try:
        peer.say(digest(plan))
        if peer.hear() != "same steps":
            raise BenchError(f"{host} has other steps: give both sides the same flags")
        yield peer
    finally:
        peer.close()

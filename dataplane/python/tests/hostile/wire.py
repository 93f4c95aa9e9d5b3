"""Just enough of the wire protocol to attack with: frames, and the proofs of docs/dev/protocol.md.

Written from that page, not from the code, so that a change of the wire shows here.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import socket
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..patience import HANG_SECONDS

if TYPE_CHECKING:
    from typing_extensions import Self

MAGIC = 0x31574350
HEADER = struct.Struct("<IBBHQIIQ")
MAX_BODY = 16 << 20
PATIENCE_SECONDS = HANG_SECONDS
NODE = 99  # who we say we are

ERROR, HELLO, HELLO_OK, CHALLENGE, PROVE, PROVE_OK = 1, 2, 3, 5, 6, 7
LOOKUP, PUBLISH, WITHDRAW, CONTACT, READ, READ_OK = 16, 18, 20, 22, 24, 25
HEARTBEAT, LEAVE, CLEAR_TAG, CONNECT, OFFER, DIRECTORY = 26, 28, 30, 32, 34, 36
CLEARS, FETCH = 38, 40
ATTACH, REGION, SET, EXISTS = 64, 66, 68, 72


def frame(
    kind: int,
    body: bytes = b"",
    length: int | None = None,
    machine: int = 0,
    can: int = 0,
    request: int = 1,
) -> bytes:
    """A frame; ``length`` is what its header announces, when that is not what follows."""
    announced = len(body) if length is None else length
    return HEADER.pack(MAGIC, 1, kind, can, request, announced, machine, 0) + body


def string(text: str) -> bytes:
    return struct.pack("<H", len(text)) + text.encode()


def keys(count: int) -> bytes:
    numbers = (hashlib.sha256(str(i).encode()).digest() for i in range(count))
    return struct.pack("<I", count) + b"".join(numbers)


def lookup(count: int) -> bytes:
    return frame(LOOKUP, struct.pack("<QI", NODE, 0) + keys(count))


def exists(count: int) -> bytes:
    return frame(EXISTS, keys(count))


@dataclass
class Answer:
    """A frame that has come."""

    kind: int
    body: bytes
    machine: int
    can: int
    request: int


class Connection:
    """Frames over a socket of either kind."""

    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def send_what_is_taken(self, data: bytes) -> None:
        """Sends until the node takes no more."""
        self.socket.setblocking(False)
        with contextlib.suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
            left = memoryview(data)
            while left:
                left = left[self.socket.send(left) :]

    def _exactly(self, size: int) -> bytes | None:
        data = b""
        while len(data) < size:
            try:
                part = self.socket.recv(size - len(data))
            except ConnectionError:
                return None
            if not part:
                return None
            data += part
        return data

    def receive(self) -> Answer | None:
        """The next frame without its payload; none: the node has closed the connection."""
        header = self._exactly(HEADER.size)
        if header is None:
            return None
        magic, _, kind, can, request, length, machine, _ = HEADER.unpack(header)
        assert magic == MAGIC
        body = self._exactly(length)
        return None if body is None else Answer(kind, body, machine, can, request)

    def ask(self, kind: int, body: bytes = b"") -> Answer | None:
        self.send(frame(kind, body))
        return self.receive()

    def expect(self, wanted: int, kind: int, body: bytes) -> Answer:
        answer = self.ask(kind, body)
        assert answer is not None, "the node has closed the connection"
        assert answer.kind == wanted, answer
        return answer


class Engine(Connection):
    """A connection to a node's socket for engines, attached to a session; 0: to a new one."""

    def __init__(self, path: str, session: int = 0) -> None:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(PATIENCE_SECONDS)
        connection.connect(path)
        super().__init__(connection)
        body = struct.pack("<Q", session) + string("by hand") + string("0")
        try:
            attached = self.expect(ATTACH + 1, ATTACH, body)
        except BaseException:
            connection.close()
            raise
        self.session: int = struct.unpack_from("<Q", attached.body)[0]


class Peer(Connection):
    """A connection to a node's port for peers."""

    def __init__(
        self,
        port: int,
        cluster: str = "default",
        source: str = "127.0.0.1",
        address: str = "127.0.0.1",
        receive_buffer: int | None = None,
    ) -> None:
        self.dialled, self.cluster = f"{address}:{port}", cluster
        connection = socket.socket()
        if receive_buffer is not None:  # before the connect, which announces it
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        connection.settimeout(PATIENCE_SECONDS)
        # Who was refused too often is turned away for a while, by his address.
        connection.bind((source, 0))
        connection.connect((address, port))
        super().__init__(connection)

    def hello(self, key: bytes | None) -> bytes:
        """The body of Hello; with a key it names that and draws a nonce."""
        return hello(self.cluster, self.dialled if key else "", key)

    def join(self, token: str) -> Self:
        """Hello, Challenge and Prove, as a member with this token does."""
        key = derive_key(self.cluster, token)
        hello = self.hello(key)
        challenge = self.expect(CHALLENGE, HELLO, hello)
        self.expect(PROVE_OK, PROVE, proof(key, 1, hello, challenge))
        self.node = struct.unpack_from("<Q", challenge.body)[0]  # whom it has reached
        return self


def hello(cluster: str, dialled: str, key: bytes | None) -> bytes:
    body = string(cluster) + string(dialled) + struct.pack("<QQ", NODE, 1)
    return body + key_id(key) + os.urandom(32) if key else body


def derive_key(cluster: str, token: str) -> bytes:
    words = b"peercache peers 1 " + cluster.encode()
    return hmac.digest(token.encode(), words, hashlib.sha256)


def key_id(key: bytes) -> bytes:
    return hmac.digest(key, b"id", hashlib.sha256)[:8]


def proof(key: bytes, role: int, hello: bytes, challenge: Answer, machine: int = 0) -> bytes:
    """Of the caller, role 1, or of the one that answers, role 2. ``machine``: of the caller."""
    unproven = challenge.body[:48] + bytes(32)
    words = (
        struct.pack("<BI", role, machine) + hello + struct.pack("<I", challenge.machine) + unproven
    )
    return hmac.digest(key, words, hashlib.sha256)

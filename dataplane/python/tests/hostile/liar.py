"""A member that answers, and lies where it is told to. Else it answers as a node would that keeps
no records and has no pages. As node/integration/lying_peer_testing.h."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from . import bodies, wire
from .bodies import Heartbeat, Record, u32, u64
from .wire import Answer, frame

NAME = "liar"
HASH = 0x07A2D513236F23B2  # XXH3 of 64 bits, of the name
HEARS_ALL = 8 | 32 | 64 | 256  # HeartbeatOk: long lists, activities
HEARS_CLEARS = 4
CAPACITY = 32 << 20
BEAT_SECONDS = 0.05
SERVED = 1
OK = 0

# Makes what goes out instead of the honest frame. An empty answer closes the connection.
Lie = Callable[[Answer, bytes], bytes]


class Liar:
    """Beats to the node that it lies to, when it has joined, and answers it."""

    def __init__(self, token: str) -> None:
        self.key = wire.derive_key("default", token)
        self.token = token
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port = self.server.getsockname()[1]
        self.incarnation = 1
        self.target = 0
        self.lies: Mapping[int, Lie] = {}
        self.told: Counter[int] = Counter()
        self.cleared: dict[int, int] = {}  # epoch by tag
        self.lock = threading.Lock()
        self.stopping = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def join(self, port: int) -> None:
        self.target = port
        threading.Thread(target=self._beat, args=(port,), daemon=True).start()

    def stop(self) -> None:
        self.stopping.set()
        self.server.close()

    def begin(self, lies: Mapping[int, Lie]) -> None:
        """Lies from now on. Under another incarnation: nobody remembers how it has answered."""
        with self.lock:
            self.lies = lies
            self.told = Counter()
            self.incarnation += 1

    def be_reborn(self) -> None:
        self.incarnation += 1

    def _beat(self, port: int) -> None:
        while not self.stopping.wait(BEAT_SECONDS):
            me = Heartbeat(NAME, self.incarnation, 1, port=self.port, capacity=CAPACITY)
            with contextlib.suppress(OSError, AssertionError), wire.Peer(port) as peer:
                peer.join(self.token).ask(wire.HEARTBEAT, me.pack())

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.server.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError, AssertionError), wire.Connection(connection) as caller:
            self._greet(caller)
            while (request := caller.receive()) is not None:
                answer = self._honest(request)
                with self.lock:
                    self.told[request.kind] += 1
                    lie = self.lies.get(request.kind)
                if lie is not None:
                    answer = lie(request, answer)
                if not answer:
                    return
                caller.send(answer)

    def _greet(self, caller: wire.Connection) -> None:
        hello = caller.receive()
        assert hello is not None
        assert hello.kind == wire.HELLO
        unproven = struct.pack("<QQ", HASH, self.incarnation) + os.urandom(32)
        challenge = Answer(wire.CHALLENGE, unproven + bytes(32), 0, 0, hello.request)
        proof = wire.proof(self.key, 2, hello.body, challenge, hello.machine)
        caller.send(frame(wire.CHALLENGE, unproven + proof, request=hello.request))
        prove = caller.receive()
        assert prove is not None
        caller.send(frame(wire.PROVE_OK, request=prove.request))

    def _honest(self, request: Answer) -> bytes:
        body = self._body(request)
        can = HEARS_ALL if request.kind == wire.HEARTBEAT else 0
        return frame(request.kind + 1, body, can=can, request=request.request)

    def _body(self, request: Answer) -> bytes:
        body = request.body
        if request.kind == wire.LOOKUP:
            # It has what nobody else has: so it is read from.
            (left_out,) = struct.unpack_from("<I", body, 8)
            (keys,) = struct.unpack_from("<I", body, 12 + 8 * left_out)
            mine = Record(HASH, self.incarnation, lease_ms=1000)
            return bodies.listed([mine.pack()] * keys)
        if request.kind in (wire.PUBLISH, wire.WITHDRAW, wire.CONTACT):
            count = struct.unpack_from("<I", body, 48)[0] if request.kind == wire.PUBLISH else 0
            answer = shard(time.monotonic_ns(), self.incarnation, OK, [SERVED] * count)
            return answer + self._clears_voice() if request.can & HEARS_CLEARS else answer
        if request.kind == wire.READ:
            return bodies.listed([u32(0)] * struct.unpack_from("<I", body, 8)[0])
        if request.kind == wire.FETCH:
            return u64(self.incarnation) + bodies.listed([bytes(24)] * count_of(body))
        if request.kind == wire.HEARTBEAT:
            return b"\1" + u32(0) + u32(0)
        if request.kind == wire.CLEAR_TAG:
            return u32(0)
        if request.kind == wire.CLEARS:
            return self._clear(body)
        if request.kind == wire.OFFER:
            pages = struct.unpack_from("<I", body, 16)[0]
            return u64(1 << 30) + b"\1" + bodies.listed([b"\0"] * pages)
        return b""

    def _clears_voice(self) -> bytes:
        """That it knows the clears that the node knows, in the node's own words."""
        with wire.Peer(self.target).join(self.token) as peer:
            peer.send(frame(wire.CONTACT, bodies.Stamp().pack(), can=HEARS_CLEARS))
            answer = peer.receive()
        assert answer is not None
        return answer.body[-9:-1] + b"\1"

    def _clear(self, body: bytes) -> bytes:
        with self.lock:
            for tag, epoch in struct.iter_unpack("<QQ", body[12 : 12 + 16 * count_of(body, 8)]):
                self.cleared[tag] = max(epoch, self.cleared.get(tag, 0))
            return clears_answer((), list(self.cleared.items()))


def count_of(body: bytes, at: int = 0) -> int:
    return int(struct.unpack_from("<I", body, at)[0])


def shard(stamp: int, instance: int, code: int, outcomes: list[int]) -> bytes:
    said = struct.pack("<qQB", stamp, instance, code)
    return said + bodies.listed([bytes([outcome]) for outcome in outcomes])


def clears_answer(
    forgotten: Sequence[tuple[int, int, int]], entries: Sequence[tuple[int, int]]
) -> bytes:
    return bodies.clear_state(forgotten, entries) + b"\1"

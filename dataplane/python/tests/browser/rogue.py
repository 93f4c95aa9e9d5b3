"""A member that exists in its heartbeats alone, and whose every name is markup.

Nodes themselves refuse such names in their options; what a member says on the wire is its own.
"""

from __future__ import annotations

import struct
import threading
import time

from ..hostile import wire

# Printable, without spaces: a name as far as a node can tell.
NAME = "<img/src=x/onerror=document.title='taken'>.default"
GROUP = "<script>document.title='taken'</script>"
RAIL = "<svg/onload=document.title='taken'>"
PERIOD_SECONDS = 0.3


def heartbeat(read_from: int) -> bytes:
    identity = wire.string(NAME) + struct.pack("<QB", int(time.time() * 1e9) >> 40, 0)
    identity += wire.string("127.0.0.1") + struct.pack("<HHQ", 1, 1, 1 << 30)
    lists = struct.pack("<II", 0, 0)
    health = wire.string(GROUP) + struct.pack("<BB", 2, 1) + wire.string(RAIL)
    health += struct.pack("<BIQQQQQ", 2, 1, 100, 50, 1 << 20, 10, 5)
    flow = struct.pack("<II5Q", 10_000, 7, 100, 10 << 20, 0, 0, 0)
    flow += struct.pack("<BQQ", 2, 0, 50) + struct.pack("<BBB", 0, 0, 0)  # delivered: 50 local
    sources = struct.pack("<BQQ", 1, read_from, 10 << 20)
    rails = struct.pack("<B", 1) + wire.string(RAIL) + struct.pack("<BQ", 1, 10 << 20)
    return wire.frame(wire.HEARTBEAT, identity + lists + health + flow + sources + rails)


class Rogue:
    """Heartbeats to a discovery host, until it is told to end."""

    def __init__(self, port: int, read_from: int) -> None:
        self.said = heartbeat(read_from)
        self.peer = wire.Peer(port)
        self.peer.expect(wire.HELLO_OK, wire.HELLO, self.peer.hello(None))
        self.ending = threading.Event()
        self.refusal: wire.Answer | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        while not self.ending.wait(PERIOD_SECONDS):
            self.peer.send(self.said)
            answer = self.peer.receive()
            if answer is None or answer.kind != wire.HEARTBEAT + 1:
                self.refusal = answer
                return

    def end(self) -> None:
        self.ending.set()
        self.thread.join()
        self.peer.socket.close()
        assert self.refusal is None, self.refusal

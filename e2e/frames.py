"""Sends what no PeerCache client would send to a node, and prints as JSON what became of each.

usage: python3 - HOST:PORT | /path/of/socket < frames.py

For every case: "closed" when the node closed the connection, "answered" with the type of its last frame, or
"silent" when it waits for more, as it must after the beginning of a good frame.
"""

from __future__ import annotations

import json
import random
import socket
import struct
import sys

_MAGIC, _VERSION = 0x31574350, 1
_HELLO, _READ, _ATTACH, _SET = 2, 24, 64, 68
_SECONDS = 3.0


def frame(
    kind: int,
    body: bytes = b"",
    *,
    magic: int = _MAGIC,
    version: int = _VERSION,
    length: int | None = None,
    payload: int = 0,
) -> bytes:
    size = len(body) if length is None else length
    return struct.pack("<IBBHQIIQ", magic, version, kind, 0, 7, size, 0, payload) + body


def cases(kind: int, request: int) -> dict[str, bytes]:
    noise = random.Random(1)
    return {
        "random bytes": noise.randbytes(4096),
        "zeros": bytes(4096),
        "HTTP": b"GET /metrics HTTP/1.1\r\nHost: node\r\nAccept: */*\r\n\r\n",
        "wrong magic": frame(kind, b"x" * 16, magic=0x12345678),
        "version of tomorrow": frame(kind, b"x" * 16, version=200),
        "body of 4 GiB": frame(kind, length=0xFFFFFFFF),
        "payload of 16 EiB": frame(kind, b"x" * 16, payload=0xFFFFFFFFFFFFFFFF),
        "unknown type": frame(250, b"x" * 16),
        "request before the greeting": frame(request, b"x" * 16),
        "greeting of noise": frame(kind, noise.randbytes(200)),
        "greeting of nothing": frame(kind),
        "half a header": frame(kind, b"x" * 16)[:13],
        "half a body": frame(kind, b"x" * 16)[:40],
    }


def connect(target: str) -> socket.socket:
    if target.startswith("/"):
        peer = socket.socket(socket.AF_UNIX)
        peer.settimeout(_SECONDS)
        peer.connect(target)
        return peer
    host, port = target.rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout=_SECONDS)


def send(target: str, data: bytes) -> dict[str, object]:
    answer, closed = b"", False
    with connect(target) as peer:
        peer.settimeout(_SECONDS)
        try:
            peer.sendall(data)
            while chunk := peer.recv(65536):
                answer += chunk
            closed = True
        except TimeoutError:
            pass
        except ConnectionError:  # closed with our bytes unread
            closed = True
    kind = answer[5] if len(answer) >= struct.calcsize("<IBBHQIIQ") else None
    return {"closed": closed, "answered": kind}


def main(target: str) -> None:
    greeting, request = (_ATTACH, _SET) if target.startswith("/") else (_HELLO, _READ)
    results = {
        name: send(target, data) for name, data in cases(greeting, request).items()
    }
    json.dump(results, sys.stdout)


main(sys.argv[1])

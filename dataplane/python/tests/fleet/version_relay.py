"""A relay in front of a node's port for peers, by which both sides have another protocol version.

What either side sends gets the version of a release to come, so each of the two real nodes sees
what it would see of such a release.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING

from ..hostile.wire import HEADER

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

VERSION_AT = 4  # in a header
BODY_LENGTH, PAYLOAD_LENGTH = 5, 7  # fields of HEADER


class VersionRelay:
    """Passes on what comes to ``address`` to ``node``, at the same port."""

    def __init__(self, address: str, node: str, port: int) -> None:
        # 0: as it is.
        self.version = 0
        self._node = (node, port)
        self._server = socket.create_server((address, port))
        self._sockets: list[socket.socket] = [self._server]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for end in self._sockets:
            _end(end)

    def _accept(self) -> None:
        while True:
            try:
                caller, _ = self._server.accept()
            except OSError:
                return
            try:
                node = socket.create_connection(self._node)
            except OSError:
                _end(caller)
                continue
            self._sockets += [caller, node]
            for ends in ((caller, node), (node, caller)):
                threading.Thread(target=self._pass_on, args=ends, daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while header := bytearray(_exactly(source, HEADER.size)):
                fields = HEADER.unpack(header)
                if self.version:
                    header[VERSION_AT] = self.version
                target.sendall(header)
                left = fields[BODY_LENGTH] + fields[PAYLOAD_LENGTH]
                while left and (part := source.recv(min(left, 1 << 16))):
                    target.sendall(part)
                    left -= len(part)
        for end in (source, target):
            _end(end)


def _end(connection: socket.socket) -> None:
    # Wakes whoever waits for it, which closing alone does not.
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


def _exactly(source: socket.socket, size: int) -> bytes:
    """So many bytes, or none: the end."""
    data = b""
    while len(data) < size:
        part = source.recv(size - len(data))
        if not part:
            return b""
        data += part
    return data

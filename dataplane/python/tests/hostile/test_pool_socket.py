"""The socket where a node hands its pool, to be read, to other nodes of its machine."""

from __future__ import annotations

import contextlib
import mmap
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..integration.conftest import Cluster
from ..patience import HANG_SECONDS
from . import wire
from .conftest import TOKEN, Table
from .wire import frame

POOL = 64 << 20


class Place:
    """A node that hands out its pool, and where."""

    def __init__(self, folder: Path) -> None:
        token = folder / "token"
        token.write_text(TOKEN + "\n")
        self.cluster = Cluster(folder)
        self.node = self.cluster.node(
            "holder", pool_size=str(POOL), auth_token_file=str(token), map_pools="on"
        )
        (self.path,) = folder.glob(".pool-*")
        self.name = f"{folder}//{self.path.name}"  # as nodes say it in their proofs


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    made = Place(tmp_path_factory.mktemp("pool"))
    try:
        yield made
    finally:
        made.cluster.stop()


class Reader(wire.Connection):
    """Somebody at that socket."""

    def __init__(self, place: Place) -> None:
        self.place = place
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(HANG_SECONDS)
        connection.connect(str(place.path))
        super().__init__(connection)

    def hello(self, key: bytes | None) -> bytes:
        return wire.hello("default", self.place.name, key)

    def descriptors(self) -> list[int]:
        """All that come until the node ends the connection, or says nothing for a while."""
        self.socket.settimeout(2)
        came: list[int] = []
        with contextlib.suppress(OSError):
            while True:
                data, fds, _, _ = socket.recv_fds(self.socket, 4096, 16)
                came += fds
                if not data:
                    break
        return came

    def prove(self, token: str) -> None:
        key = wire.derive_key("default", token)
        hello = self.hello(key)
        challenge = self.expect(wire.CHALLENGE, wire.HELLO, hello)
        self.send(frame(wire.PROVE, wire.proof(key, 1, hello, challenge)))


def says_nothing(_: Reader) -> None:
    pass


def has_no_key(reader: Reader) -> None:
    """Where there is no token, this is all that is asked for."""
    reader.send(frame(wire.HELLO, reader.hello(None)))


def has_another_token(reader: Reader) -> None:
    reader.send(frame(wire.HELLO, reader.hello(wire.derive_key("default", "f" * 32))))
    reader.send(frame(wire.PROVE, bytes(32)))


def guesses_the_proof(reader: Reader) -> None:
    """The id of the key is no secret."""
    reader.expect(wire.CHALLENGE, wire.HELLO, reader.hello(wire.derive_key("default", TOKEN)))
    reader.send(frame(wire.PROVE, os.urandom(32)))


def reflects_the_nodes_proof(reader: Reader) -> None:
    key = wire.derive_key("default", TOKEN)
    challenge = reader.expect(wire.CHALLENGE, wire.HELLO, reader.hello(key))
    reader.send(frame(wire.PROVE, challenge.body[48:]))


def passes_a_members_proof_on(reader: Reader) -> None:
    """What a member said on the port for peers, where it has dialled that."""
    key = wire.derive_key("default", TOKEN)
    with wire.Peer(reader.place.node.peer_port) as member:
        hello = member.hello(key)
        challenge = member.expect(wire.CHALLENGE, wire.HELLO, hello)
        reader.send(frame(wire.HELLO, hello))
        reader.send(frame(wire.PROVE, wire.proof(key, 1, hello, challenge)))


def asks_without_a_hello(reader: Reader) -> None:
    reader.send(frame(wire.PROVE, bytes(32)))
    reader.send(frame(wire.CONNECT, bytes(4)))


def makes_noise(reader: Reader) -> None:
    reader.send(os.urandom(300))


STRANGERS = [
    says_nothing,
    has_no_key,
    has_another_token,
    guesses_the_proof,
    reflects_the_nodes_proof,
    passes_a_members_proof_on,
    asks_without_a_hello,
    makes_noise,
]


def test_a_stranger_gets_no_descriptor_of_the_pool(place: Place, table: Table) -> None:
    """Whoever has not the token, though root here, gets none; who has it may read and no more."""
    assert stat.S_IMODE(place.path.stat().st_mode) == 0o600
    came = []
    for attack in STRANGERS:
        with Reader(place) as reader:
            with contextlib.suppress(OSError):
                attack(reader)
            came += reader.descriptors()
    table(
        f"processes without the token at the pool's socket, {len(STRANGERS)} ways",
        "no descriptor",
        f"{len(came)} descriptors",
    )
    assert not came

    with Reader(place) as member:
        member.prove(TOKEN)
        fds = member.descriptors()
    assert len(fds) == 1
    assert os.fstat(fds[0]).st_size >= POOL
    refused = 0
    mmap.mmap(fds[0], 4096, mmap.MAP_SHARED, mmap.PROT_READ).close()
    for write in (
        lambda fd: mmap.mmap(fd, 4096, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE),
        lambda fd: os.pwrite(fd, b"x", 0),
        lambda fd: os.ftruncate(fd, 0),
        lambda fd: os.pwrite(os.open(f"/proc/self/fd/{fd}", os.O_RDWR), b"x", 0),
    ):
        try:
            write(fds[0])
        except OSError:
            refused += 1
    os.close(fds[0])
    table("a member that has the pool writes into it, 4 ways", "refused", f"{refused} refused")
    assert refused == 4

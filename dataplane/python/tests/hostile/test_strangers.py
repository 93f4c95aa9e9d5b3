"""Who reaches the ports of a node, without the token of its cluster."""

from __future__ import annotations

import contextlib
import random
import re
import socket
import struct
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

import pytest

from ..integration.conftest import Cluster
from ..integration.processes import free_port, peercached
from ..patience import HANG_SECONDS
from . import wire
from .conftest import PAGES, TOKEN, Table, Target
from .wire import Peer, frame

CLEAR = struct.pack("<Q", 1)
MIB = 1 << 20


REQUESTS = {
    "ClearTag": (wire.CLEAR_TAG, CLEAR),
    "Lookup": (wire.LOOKUP, struct.pack("<QII", wire.NODE, 0, 1) + bytes(32)),
    "Read": (wire.READ, struct.pack("<QIQQII", 1, 1, 0, 1, 64, 0) + bytes(32)),
    "Connect": (wire.CONNECT, bytes(64)),
    "Heartbeat": (wire.HEARTBEAT, bytes(64)),
}


@pytest.mark.parametrize("greeting", ["nothing", "Hello without key", "Hello with another token"])
def test_a_stranger_is_no_peer(target: Target, table: Table, greeting: str) -> None:
    """Each request of a peer, after what a stranger can say first, gets an Error and no more."""
    answered = []
    for name, (kind, body) in REQUESTS.items():
        with Peer(target.node.peer_port) as stranger:
            if greeting != "nothing":
                key = wire.derive_key("default", "f" * 32) if "another" in greeting else None
                stranger.send(frame(wire.HELLO, stranger.hello(key)))
            stranger.send(frame(kind, body))
            answers = []
            while (answer := stranger.receive()) is not None:
                answers.append(answer.kind)
        if any(kind not in (wire.ERROR, wire.CHALLENGE) for kind in answers):
            answered.append((name, answers))
    assert not answered
    left = target.pages()
    table(f"peer's requests after {greeting}", "no answer", f"{left} of {PAGES} pages left")
    assert left == PAGES


def test_a_proof_is_good_once(target: Target, table: Table) -> None:
    """What a member said is of no use to who repeats it on a connection of his own."""
    key = wire.derive_key("default", TOKEN)
    with Peer(target.node.peer_port) as member:
        hello = member.hello(key)
        challenge = member.expect(wire.CHALLENGE, wire.HELLO, hello)
        proof = wire.proof(key, 1, hello, challenge)
        member.expect(wire.PROVE_OK, wire.PROVE, proof)
    reflected = challenge.body[48:]
    for said in (proof, reflected, bytes(32)):
        with Peer(target.node.peer_port) as thief:
            thief.send(frame(wire.HELLO, hello) + frame(wire.PROVE, said))
            thief.send(frame(wire.CLEAR_TAG, CLEAR))
            kinds = []
            while (heard := thief.receive()) is not None:
                kinds.append(heard.kind)
            assert kinds == [wire.CHALLENGE, wire.ERROR]
    table("a proof that was heard, or reflected", "refused", "3 of 3 refused")
    assert target.pages() == PAGES


def test_an_impostor_learns_nothing(cluster_folder: Path, table: Table) -> None:
    """Who sits at an address of discovery gets neither the token, nor a request, nor a proof."""
    heard = bytearray()
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(HANG_SECONDS)
        token = cluster_folder / "token"
        token.write_text(TOKEN + "\n")
        port = server.getsockname()[1]
        command = peercached(
            "fooled",
            "127.0.0.1",
            free_port(),
            free_port(),
            f"127.0.0.1:{port}",
            str(cluster_folder / "fooled.sock"),
            "64Mi",
            {"auth_token_file": str(token)},
        )
        node = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            for lie in (b"", frame(wire.CHALLENGE, bytes(80)), frame(wire.HELLO_OK, bytes(16))):
                connection, _ = server.accept()
                with connection:
                    connection.settimeout(HANG_SECONDS)
                    heard += connection.recv(wire.HEADER.size + 512)
                    connection.sendall(lie)
                    with contextlib.suppress(ConnectionError):  # until the node ends it
                        while part := connection.recv(4096):
                            heard += part
        finally:
            node.kill()
            node.wait()
    key = wire.derive_key("default", TOKEN)
    assert TOKEN.encode() not in heard
    assert key not in heard
    kinds = set()
    while heard:
        _, _, kind, _, _, length, _, _ = wire.HEADER.unpack(heard[: wire.HEADER.size])
        del heard[: wire.HEADER.size + length]
        kinds.add(kind)
    table("an impostor at an address of discovery", "hears Hello alone", f"message types {kinds}")
    assert kinds == {wire.HELLO}


@pytest.fixture
def cluster_folder(tmp_path: Path) -> Path:
    return tmp_path


@pytest.mark.parametrize("option", ["bind-addr", "advertise-addr", "discovery-addr"])
def test_without_a_secret_nobody_else_is_let_in(tmp_path: Path, table: Table, option: str) -> None:
    """A node that would be open to the network does not start, and says how to close it."""
    values = {"bind-addr": "127.0.0.1", "advertise-addr": "127.0.0.1", "discovery-addr": ""}
    values[option] = "192.0.2.1:31998" if option == "discovery-addr" else "192.0.2.1"
    command = peercached(
        "open",
        "127.0.0.1",
        free_port(),
        free_port(),
        "",
        str(tmp_path / "open.sock"),
        "64Mi",
        {option: value for option, value in values.items() if value},
    )
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=HANG_SECONDS, check=False
    )
    assert done.returncode != 0
    for word in (option, "auth-token-file", "openssl rand -hex 32", "insecure-peers"):
        assert word in done.stderr, done.stderr
    table(f"no secret, {option} of the network", "does not start", f"status {done.returncode}")


@pytest.mark.parametrize("port", ["peers", "engines"])
def test_announced_bytes_cost_nothing(target: Target, table: Table, port: str) -> None:
    """60 connections that announce 16 MiB each, and send some of it."""
    before = target.memory()
    connections = []
    for _ in range(60):
        if port == "peers":
            connection = Peer(target.node.peer_port).socket
        else:
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(target.node.socket)
        connection.setblocking(False)
        connections.append(connection)
        kind = wire.HELLO if port == "peers" else wire.ATTACH
        connection.send(frame(kind, b"x" * 4096, length=wire.MAX_BODY))
    pages = target.pages()
    grown = (target.memory() - before) / MIB
    for connection in connections:
        connection.close()
    table(f"60 strangers announce 16 MiB each ({port})", "8 MiB", f"{grown:.1f} MiB")
    assert grown < 8
    assert pages == PAGES


@pytest.mark.parametrize("port", ["peers", "engines", "http"])
def test_noise(target: Target, table: Table, port: str) -> None:
    """Random bytes, also behind a header that is right: the connection ends, the node does not."""
    random_bytes = random.Random(port).randbytes
    for i in range(200):
        if port == "engines":
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(target.node.socket)
        else:
            number = target.node.peer_port if port == "peers" else target.node.http_port
            connection = socket.create_connection(("127.0.0.1", number), HANG_SECONDS)
        with connection:
            noise = random_bytes(300)
            begin = frame(random_bytes(1)[0], noise) if i % 2 else b""
            try:
                connection.sendall(begin + noise)
            except OSError:
                continue
    assert target.node.popen.poll() is None
    left = target.pages()
    table(f"noise on 200 connections ({port})", "goes on", f"{left} of {PAGES} pages")
    assert left == PAGES


SHARED = "127.0.0.8"
CROWD = 400
JOINS = 20


def be_silent(port: int, ended: threading.Event) -> None:
    crowd: deque[socket.socket] = deque()
    while not ended.wait(0.001):
        connection = socket.socket()
        connection.bind((SHARED, 0))
        connection.connect(("127.0.0.1", port))
        crowd.append(connection)
        if len(crowd) > CROWD:
            crowd.popleft().close()
    while crowd:
        crowd.pop().close()


def guess(port: int, ended: threading.Event) -> None:
    while not ended.wait(0.001):
        with Peer(port, source=SHARED) as stranger, contextlib.suppress(OSError):
            stranger.send(frame(wire.HELLO, stranger.hello(wire.derive_key("default", "f" * 32))))
            while stranger.receive() is not None:
                pass


@pytest.mark.parametrize("attack", [be_silent, guess])
def test_a_member_comes_in_beside_strangers_of_its_address(
    target: Target, table: Table, attack: Callable[[int, threading.Event], None]
) -> None:
    """Pods of a machine may be one source of connections, and so may all behind one address."""
    port = target.node.peer_port
    ended = threading.Event()
    attacker = threading.Thread(target=attack, args=(port, ended))
    refused = "source_strangers" if attack is be_silent else "source_failures"
    attacker.start()
    try:
        deadline = time.monotonic() + HANG_SECONDS
        counted = re.compile(rf'peer_refused_total{{[^}}]*reason="{refused}"[^}}]*}} [1-9]')
        while not counted.search(target.node.metrics()):
            assert time.monotonic() < deadline, "the source is not beyond its bound"
            time.sleep(0.1)
        joined = 0
        for _ in range(JOINS):
            with Peer(port, source=SHARED) as member, contextlib.suppress(OSError, AssertionError):
                member.join(TOKEN)
                joined += 1
    finally:
        ended.set()
        attacker.join()
    what = "silent strangers" if attack is be_silent else "guesses of the token"
    table(f"a member at the address of {what}", "comes in", f"{joined} of {JOINS} times")
    assert joined >= JOINS - 2
    assert target.pages() == PAGES


def test_a_member_that_reads_nothing_is_cut_off(target: Target, table: Table) -> None:
    """Whoever takes none of his answers gives his place and their memory back."""
    before = target.memory()
    with Peer(target.node.peer_port, source="127.0.0.5") as member:
        member.join(TOKEN)
        lookups = wire.lookup(65_536)
        ended = threading.Event()

        def ask_without_end() -> None:
            try:
                while True:
                    member.send(lookups)
            except OSError:
                ended.set()

        began = time.monotonic()
        member.socket.settimeout(None)
        threading.Thread(target=ask_without_end, daemon=True).start()
        assert ended.wait(HANG_SECONDS), "it may sit there for ever"
        took = time.monotonic() - began
    grown = (target.memory() - before) / MIB
    bound = "an end, 32 MiB"
    table("a member that reads none of its answers", bound, f"{took:.1f} s, {grown:.1f} MiB")
    assert grown < 32
    assert target.pages() == PAGES


def test_a_replaced_token_is_good_for_nothing(tmp_path: Path, table: Table) -> None:
    """Connections end with the token that they were made by, and nobody comes in with it."""
    token = tmp_path / "token"
    token.write_text(TOKEN + "\n")
    cluster = Cluster(tmp_path)
    try:
        node = cluster.node("rotated", auth_token_file=str(token), auth_spread_ms="1000")
        with Peer(node.peer_port) as former:
            former.join(TOKEN)
            began = time.monotonic()
            token.write_text("f" * 32 + "\n")
            assert former.receive() is None, "the old token is good for ever"
            took = time.monotonic() - began
        with Peer(node.peer_port, source="127.0.0.6") as stranger:
            stranger.send(frame(wire.HELLO, stranger.hello(wire.derive_key("default", TOKEN))))
            answer = stranger.receive()
            assert answer is None or answer.kind == wire.ERROR
        with Peer(node.peer_port, source="127.0.0.7") as member:
            member.join("f" * 32)
    finally:
        cluster.stop()
    table("a connection made with a token that is replaced", "an end", f"{took:.1f} s")

"""Members, who have the cluster's token, against a node and those who read its pages."""

from __future__ import annotations

import select
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from .. import wrong_bytes
from ..fleet import pages
from ..fleet.engine import NAMESPACE
from ..fleet.nodes import EngineProcess
from ..integration.conftest import Cluster
from ..patience import AT_ONCE_SECONDS, HANG_SECONDS, PATIENT_MS
from . import bodies, requests, wire
from .conftest import PAGES, TOKEN, Table
from .wire import Peer, frame

LARGE = 1 << 20
FIRST_LARGE = 1_000
# The wire allows 10 s and one more for an answer of 64 MiB. All of it would take 18 hours so.
CUT_OFF_SECONDS = 11.0
ONE_BYTE_SECONDS = 0.001
SMALLEST_BUFFER = 2048


class Pair:
    """Two nodes: the engine of one has written pages, that of the other reads them by TCP."""

    def __init__(self, folder: Path) -> None:
        token = folder / "token"
        token.write_text(TOKEN + "\n")
        self.cluster = Cluster(folder)
        # Pages are read where they were set, each time.
        # Nobody is given up for being slow.
        flags = {
            "auth_token_file": str(token),
            "promotion_percent": "0",
            "peer_timeout_ms": f"{AT_ONCE_SECONDS * 1000:.0f}",
        }
        self.holder = self.cluster.node("holder", **flags)
        self.other = self.cluster.node("other", **flags)
        self.writer = EngineProcess("writer", folder, self.holder.socket, timeout_ms=PATIENT_MS)
        self.reader = EngineProcess("reader", folder, self.other.socket, timeout_ms=PATIENT_MS)
        self.next = PAGES
        deadline = time.monotonic() + HANG_SECONDS
        # The other node has joined a moment ago: a shard that changes hands may refuse records.
        while self.writer.ask("set", first=0, count=PAGES)["stored"] != PAGES:
            assert time.monotonic() < deadline, "the pages cannot be set"
        self.await_service("its start")

    def read(self) -> int:
        """How many pages the honest reader gets from the other node, every byte checked."""
        done = self.reader.ask("get", first=0, count=PAGES)
        wrong_bytes.check_none(done["wrong"], self.reader.output())
        return int(done["hits"])

    def serves(self) -> bool:
        self.next += 8
        return self.read() == PAGES and self.writer.ask("set", first=self.next, count=8) == {
            "stored": 8
        }

    def await_service(self, after: str) -> None:
        deadline = time.monotonic() + HANG_SECONDS
        while not self.serves():
            assert time.monotonic() < deadline, f"the node does not serve after {after}"
            assert self.holder.popen.poll() is None, self.holder.output()


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("pair")
    made = Pair(folder)
    try:
        yield made
        made.writer.kill()
        made.reader.kill()
    finally:
        made.cluster.stop()


class Taker(threading.Thread):
    """Takes a byte at a time, until the connection has ended: what its kernel has got by then is
    there to be taken for long."""

    def __init__(self, member: Peer) -> None:
        super().__init__(daemon=True)
        self.member = member
        self.bytes = 0

    def run(self) -> None:
        end = select.poll()
        end.register(self.member.socket, select.POLLRDHUP)  # and always POLLHUP and POLLERR
        while not end.poll(0):
            self.bytes += len(self.member.socket.recv(1))
            time.sleep(ONE_BYTE_SECONDS)


def records(pair: Pair, keys: list[bytes]) -> dict[bytes, bodies.Record]:
    """Where pages of the holder are, as a member is told by the shards of both nodes."""
    found: dict[bytes, bodies.Record] = {}
    for node in (pair.holder, pair.other):
        with Peer(node.peer_port).join(TOKEN) as member:
            answer = member.expect(wire.LOOKUP + 1, wire.LOOKUP, bodies.lookup(keys))
        form = bodies.Record.FORM
        assert struct.unpack_from("<I", answer.body) == (len(keys),)
        for i, named in enumerate(keys):
            record = bodies.Record(*form.unpack_from(answer.body, 4 + i * form.size))
            if record.node:
                found[named] = record
    return found


def test_a_reader_that_drips_is_cut_off(pair: Pair, table: Table) -> None:
    """A member asks for 64 pages of a MiB and takes a byte at a time: they are pinned meanwhile."""
    large = EngineProcess(
        "large", pair.cluster.folder, pair.holder.socket, LARGE, timeout_ms=PATIENT_MS
    )
    assert large.ask("set", first=FIRST_LARGE, count=PAGES)["stored"] == PAGES
    namespace = int.from_bytes(NAMESPACE, "little")
    keys = [
        (int.from_bytes(bytes.fromhex(pages.key(n)), "little") ^ namespace).to_bytes(32, "little")
        for n in range(FIRST_LARGE, FIRST_LARGE + PAGES)
    ]
    found = records(pair, keys)
    assert len(found) == PAGES
    items = [bodies.read_item(k, r.offset, r.generation, r.length) for k, r in found.items()]
    incarnation = next(iter(found.values())).incarnation
    rounds, least = 0, PAGES
    # The node sees that some is taken, all the time.
    with Peer(pair.holder.peer_port, receive_buffer=SMALLEST_BUFFER).join(TOKEN) as member:
        answer = member.expect(wire.READ_OK, wire.READ, bodies.read(incarnation, items))
        lengths = struct.unpack_from(f"<{PAGES}I", answer.body, 4)
        assert lengths == (LARGE,) * PAGES, "all are read, to begin with"
        began = time.monotonic()
        taken = Taker(member)
        taken.start()
        while taken.is_alive() and time.monotonic() < began + HANG_SECONDS:
            least = min(least, pair.read())
            rounds += 1
            time.sleep(0.02)
        took = time.monotonic() - began
        assert not taken.is_alive(), "it may read for ever"
    large.kill()
    bound = f"{CUT_OFF_SECONDS:.0f} s; honest peers read"
    measured = f"{took:.1f} s, {taken.bytes} bytes; {least} of {PAGES} pages, {rounds} times"
    table("a member takes 64 pages of 1 MiB byte by byte", bound, measured)
    assert least == PAGES
    assert rounds > 0


# These come last: a member that says it is another keeps that one out for a while, some seconds
# later (docs/dev/attacks.md).
@pytest.mark.parametrize("message", requests.BY_MESSAGE)
def test_a_member_that_lies_is_refused_or_ignored(pair: Pair, table: Table, message: str) -> None:
    """Each message malformed, impossible or a lie, behind a true proof; the honest go on."""
    kind, rows = requests.BY_MESSAGE[message]
    with Peer(pair.holder.peer_port).join(TOKEN) as member:
        node = member.node
    refused = answered = 0
    for row in rows(node):
        with Peer(pair.holder.peer_port).join(TOKEN) as member:
            member.send(frame(kind, row.body, can=row.can))
            answer = member.receive()
        if row.refused:
            assert answer is None or answer.kind == wire.ERROR, (row.what, answer)
            refused += 1
        else:
            assert answer is not None, row.what
            assert answer.kind == kind + 1, (row.what, answer)
            answered += 1
        pair.await_service(f"{message}: {row.what}")
    table(
        f"lies of a member by {message}: {refused + answered}",
        "refused or ignored",
        f"{refused} refused, {answered} ignored; {PAGES} of {PAGES} pages after each",
    )


def test_what_is_no_request_of_a_member_is_refused(pair: Pair, table: Table) -> None:
    """Every type of message that is none: answers, messages of engines, numbers without one."""
    known = {kind for kind, _ in requests.BY_MESSAGE.values()}
    types = [kind for kind in range(256) if kind not in known]
    taken = []
    for kind in types:
        with Peer(pair.holder.peer_port).join(TOKEN) as member:
            answer = member.ask(kind, bodies.u64(0))
            if answer is not None and answer.kind != wire.ERROR:
                taken.append(kind)
    pair.await_service("all of them")
    refused = f"{len(types) - len(taken)} refused"
    table(f"{len(types)} messages that are no request", "refused", refused)
    assert not taken


def test_a_member_that_takes_the_name_of_another_keeps_it_out_until_it_stops(
    pair: Pair, table: Table
) -> None:
    """It says once that it is the other node, born later. Nobody can tell that from a restart."""

    def address() -> str:
        of_other = [m for m in pair.holder.status()["members"] if m["id"] == "other"]
        return str(of_other[0]["address"]) if of_other else ""

    true = address()
    impostor = bodies.Heartbeat("other", bodies.MAX - 1, state=1, port=9)
    with Peer(pair.holder.peer_port).join(TOKEN) as member:
        began = time.monotonic()
        member.expect(wire.HEARTBEAT + 1, wire.HEARTBEAT, impostor.pack())
    while address() == true:
        assert time.monotonic() < began + HANG_SECONDS, "the name is not taken"
        time.sleep(0.02)
    while address() != true or not pair.serves():
        assert time.monotonic() < began + HANG_SECONDS, "the other node does not come back"
        time.sleep(0.02)
    took = time.monotonic() - began
    table("a member says once that it is another", "it comes back", f"{took:.1f} s")
    assert "stop this process, or give it another id" in pair.other.output()

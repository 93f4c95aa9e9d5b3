"""A member that answers what a node asks it by no answer, or by a lie: misses are all it costs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from .. import wrong_bytes
from ..integration.clients import connect
from ..integration.memory_group import Sparse
from ..integration.processes import Node, free_port
from ..patience import HANG_SECONDS
from . import answers, bodies, wire
from .answers import Lies
from .conftest import PAGES, TOKEN, Table
from .liar import Liar

PREFIX = bytes(32)
TAG = 1
ELSEWHERE = 1_000_000  # pages that nobody has set
# A member that has come again, or does not answer, is noticed in a part of a second.
QUICK = {
    "heartbeat_ms": "100",
    "member_ttl_ms": "1500",
    "lease_ms": "200",
    "peer_timeout_ms": "250",
}


class Among:
    """A node, an engine, and a member that lies: the node publishes to it, looks up and reads
    there, tells it of clears, and hears of members from it."""

    def __init__(self, folder: Path) -> None:
        token = folder / "token"
        token.write_text(TOKEN + "\n")
        self.liar = Liar(TOKEN)
        port = free_port()
        discovery = f"127.0.0.1:{port},127.0.0.1:{self.liar.port}"
        self.node = Node("target", folder, port, discovery, auth_token_file=str(token), **QUICK)
        with wire.Peer(port).join(TOKEN) as member:
            self.hash = member.node
        self.liar.join(port)
        self.await_contact()
        self.client = connect(self.node.socket)
        self.memory = Sparse(PAGES * bodies.PAGE)
        assert self.client.register_region(self.memory.fd, self.memory.base, self.memory.size) == ""
        self.next = 0
        self.await_service()

    @staticmethod
    def keys(first: int, count: int) -> list[str]:
        return [bodies.key(first + i).hex() for i in range(count)]

    @staticmethod
    def page(number: int) -> bytes:
        return bodies.u64(number) * (bodies.PAGE // 8)

    def places(self, count: int) -> tuple[list[int], list[int]]:
        return [self.memory.base + i * bodies.PAGE for i in range(count)], [bodies.PAGE] * count

    def set(self, first: int, count: int, tag: int = TAG) -> int:
        pages = b"".join(self.page(first + i) for i in range(count))
        self.memory.map[: len(pages)] = pages
        return sum(self.client.set(PREFIX, tag, self.keys(first, count), *self.places(count)))

    def get(self, first: int, count: int) -> int:
        """How many pages came, every byte checked."""
        self.memory.map[: count * bodies.PAGE] = b"\xee" * (count * bodies.PAGE)
        found = self.client.get(PREFIX, self.keys(first, count), *self.places(count))
        for i in (i for i, there in enumerate(found) if there):
            got = self.memory.map[i * bodies.PAGE : (i + 1) * bodies.PAGE]
            wrong_bytes.check_page(first + i, got, self.page(first + i))
        return sum(found)

    def work(self, turn: int = 0) -> None:
        """All kinds of calls, another one first each time: who does not answer it is asked nothing
        more. What is not there is not found, whatever the member says."""
        self.next += PAGES
        calls = (self._look_elsewhere, self._set_some, self._clear_some)
        for call in calls[turn % len(calls) :] + calls[: turn % len(calls)]:
            call()

    def _look_elsewhere(self) -> None:
        assert self.get(ELSEWHERE + self.next, PAGES) == 0

    def _set_some(self) -> None:
        self.set(self.next, PAGES // 8, answers.OTHER_TAG)

    def _clear_some(self) -> None:
        self.client.clear(answers.OTHER_TAG)  # at most once a second, after a while

    def serves(self) -> bool:
        self.next += PAGES
        return self.set(self.next, PAGES) == PAGES == self.get(self.next, PAGES)

    def await_service(self) -> float:
        """The seconds until the engine sets and gets all its pages."""
        start = time.monotonic()
        while not self.serves():
            assert self.node.popen.poll() is None, self.node.output()
            assert time.monotonic() < start + HANG_SECONDS
        return time.monotonic() - start

    def await_contact(self) -> None:
        """Until the node has heard of the liar, as it is now, and speaks to it."""
        deadline = time.monotonic() + HANG_SECONDS
        while not self.liar.told[wire.CONTACT]:
            assert time.monotonic() < deadline, "it is no member"
            time.sleep(0.05)

    def await_clear(self) -> None:
        """A clear is true after all: no lie has taken the numbers that it needs."""
        start = time.monotonic()
        while self.client.clear(TAG):
            assert time.monotonic() < start + HANG_SECONDS
            self.await_service()
            time.sleep(0.1)  # one a second is allowed


@pytest.fixture(scope="module")
def among(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Among]:
    made = Among(tmp_path_factory.mktemp("among"))
    try:
        yield made
        made.client.close()
        assert made.node.popen.poll() is None, made.node.output()
    finally:
        # To leave takes the 20 s for which the liar is waited for: AmongLiars.* in C++.
        made.node.kill()
        made.liar.stop()


def be_lied_to(among: Among, lies: Lies) -> list[int]:
    """The questions that were not asked, whatever the engine did."""
    among.liar.begin(lies)
    deadline = time.monotonic() + HANG_SECONDS
    turn = 0
    while time.monotonic() < deadline:
        among.work(turn)
        if all(among.liar.told[kind] for kind in lies):
            return []
        # One that does not answer is asked less and less, and is in no ring, until it is another
        # process. Some time after that, and before its next silence, it is asked.
        among.liar.be_reborn()
        time.sleep(0.05 * (turn % 7))
        turn += 1
    return [kind for kind in lies if not among.liar.told[kind]]


@pytest.mark.parametrize("asked", answers.groups(0))
def test_a_member_that_lies_costs_hits_at_most(among: Among, table: Table, asked: str) -> None:
    rows = answers.groups(among.hash)[asked]
    longest = 0.0
    for name, lies in rows.items():
        among.await_service()
        first = among.next
        assert be_lied_to(among, lies) == [], f"{name}: what it was not asked for"
        among.work()
        assert among.get(first, PAGES) == PAGES, f"{name}: the node's own pages"
        among.liar.begin({})
        longest = max(longest, among.await_service())
    among.await_clear()
    assert among.get(first, PAGES) == 0, "cleared"
    table(
        f"lies of a member that is asked for {asked}: {len(rows)}",
        "misses, and all again",
        f"{PAGES} of {PAGES} own pages, and all again in {longest:.1f} s",
    )

"""Real SGLang servers on two members compute bit for bit what one without a cache does."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from .. import wrong_bytes
from ..integration.processes import Node, free_port
from ..patience import HANG_SECONDS
from .conftest import Frozen, Nodes, SGLang, checkpoint
from .sglang_server import CALL_MS, PAGE, Answer, Server

pytestmark = pytest.mark.node

TOKENS = 1000
WHOLE = TOKENS // PAGE * PAGE
# Prefill of a prompt takes a part of a second. This is room for a machine that has other work.
SLOWER = 40


def prompt(seed: int) -> list[int]:
    return [3 + (i * 7 + i * i * 3 + seed * 131) % 1000 for i in range(TOKENS)]


class Servers:
    """One without a cache, and one on each member."""

    def __init__(
        self,
        sglang: SGLang,
        model: Path,
        folder: Path,
        stack: ExitStack,
        flags: tuple[str, ...] = (),
        cache_flags: tuple[str, ...] = (),
    ) -> None:
        self._sglang, self._model, self._stack = sglang, model, stack
        self._flags, self._cache_flags = flags, cache_flags
        self.nodes = stack.enter_context(Nodes(folder))
        self.plain = self.start("plain")
        self.a = self.start("a", self.nodes.a.socket)
        self.b = self.start("b", self.nodes.b.socket)
        for server in (self.plain, self.a, self.b):
            server.wait()

    def start(self, name: str, socket: str | None = None, **more: Any) -> Server:
        flags = (*self._flags, *(self._cache_flags if socket else ()))
        server = Server(name, self._sglang, self._model, socket, flags, **more)
        self._stack.callback(server.stop)
        return server

    def stored(self, *seeds: int, writers: int = 1) -> list[Answer]:
        """Prompts that the server on member a has computed, and its member stored."""
        return store(self.a, self.nodes.a, "write_stored", seeds, writers)


def store(
    server: Server, node: Node, counter: str, seeds: Sequence[int], writers: int = 1
) -> list[Answer]:
    """Until the counter of the node has all pages. ``writers``: ranks with pages of their own."""

    def pages() -> int:
        return int(node.status()["counters"][counter])

    stored = pages() + len(seeds) * WHOLE // PAGE * writers
    answers = [server.ask(prompt(seed)) for seed in seeds]
    deadline = time.monotonic() + HANG_SECONDS
    while pages() < stored:
        assert time.monotonic() < deadline, server.output()
        time.sleep(0.02)
    return answers


@pytest.fixture(scope="module")
def servers(
    sglang: SGLang, engines: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Servers]:
    folder = tmp_path_factory.mktemp("servers")
    with ExitStack() as stack:
        yield Servers(sglang, checkpoint(engines, folder, "llama", 1), folder, stack)


def check(answer: Answer, plain: Answer) -> None:
    """The same tokens, with the same log-probabilities."""
    if answer.stored and answer.computed != plain.computed:
        what = f"an answer from {answer.stored} stored tokens"
        raise AssertionError(
            wrong_bytes.report(f"{what} is {answer.computed}, expected {plain.computed}")
        )
    assert answer.computed == plain.computed


def test_another_machine_has_the_prefix(servers: Servers) -> None:
    plain = servers.plain.ask(prompt(1))
    (first,) = servers.stored(1)
    assert (plain.cached, first.cached) == (0, 0)
    check(first, plain)
    second = servers.b.ask(prompt(1))
    assert second.stored == WHOLE
    check(second, plain)
    delivered = servers.nodes.b.status()["lookups"]["delivered"]
    assert delivered["tcp"]["tokens"] >= WHOLE
    # The comparison can fail: one token, far from the end, changes what is computed.
    other = prompt(1)
    other[5] = 3 + other[5] % 1000
    assert servers.b.ask(other).computed != plain.computed


def test_a_page_of_other_bytes_is_noticed(servers: Servers) -> None:
    """The control of all tests here: equal answers mean equal bytes."""
    plain = servers.plain.ask(prompt(2))
    servers.stored(2)
    spoiled = servers.start("spoiled", servers.nodes.b.socket, env={"PEERCACHE_SPOIL_LOADS": "1"})
    answer = spoiled.wait().ask(prompt(2))
    spoiled.stop()
    assert answer.stored == WHOLE
    assert answer.computed != plain.computed


def test_evicted_pages_are_computed_again(servers: Servers) -> None:
    """A small member drops pages of some prompts, and the head or the tail of others."""
    seeds = range(100, 112)
    member = servers.nodes.start("small", free_port(), pool_size="8Mi")
    writer = servers.start("writer", member.socket).wait()
    try:
        store(writer, member, "write_requests", seeds)
        assert member.status()["pool"]["evictions"] > 0
        answers = [servers.b.ask(prompt(seed)) for seed in seeds]
    finally:
        writer.stop()
        member.kill()
    assert 0 < sum(answer.stored for answer in answers) < len(seeds) * WHOLE
    for seed, answer in zip(seeds, answers, strict=True):
        check(answer, servers.plain.ask(prompt(seed)))


def test_after_a_clear_all_is_computed_again(servers: Servers) -> None:
    plain = servers.plain.ask(prompt(3))
    servers.stored(3)
    servers.b.clear()
    cleared = servers.b.ask(prompt(3))
    assert (cleared.cached, cleared.computed) == (0, plain.computed)


def bound(plain: Answer, waits: int) -> float:
    """Seconds to the first token of a request that waits so many times for what does not answer."""
    return waits * CALL_MS / 1000 + SLOWER * plain.first_token_seconds


def test_a_member_that_hangs_costs_a_bounded_wait(servers: Servers) -> None:
    """The member of the reading server, which a call waits for until its time is over."""
    plain = [servers.plain.ask(prompt(seed)) for seed in (4, 5)]
    servers.stored(4, 5)
    with Frozen(servers.nodes.b):
        frozen = [servers.b.ask(prompt(seed)) for seed in (4, 5)]
    assert [answer.cached for answer in frozen] == [0, 0]
    for answer, cold in zip(frozen, plain, strict=True):
        check(answer, cold)
        assert answer.first_token_seconds < bound(cold, waits=1)
    assert "PeerCache answered with misses" in servers.b.output()


def breaker_of_holder(servers: Servers) -> str:
    members = servers.nodes.b.status()["members"]
    (holder,) = (member for member in members if member["id"] == "a")
    return str(holder["breaker"])


def test_a_holder_that_hangs_costs_a_bounded_wait(servers: Servers) -> None:
    """The member that has the pages: the reader's own one answers for it."""
    plain = servers.plain.ask(prompt(6))
    servers.stored(6)
    asked = servers.nodes.b.status()["lookups"]["looked_up"]["exists"]["tokens"]
    with Frozen(servers.nodes.a):
        frozen = servers.b.ask(prompt(6))
        status = servers.nodes.b.status()
        # The request may end first: it is worth no longer wait.
        deadline = time.monotonic() + HANG_SECONDS
        while breaker_of_holder(servers) != "open":
            assert time.monotonic() < deadline
            time.sleep(0.02)
    assert status["lookups"]["looked_up"]["exists"]["tokens"] >= asked + WHOLE
    assert frozen.stored < WHOLE
    check(frozen, plain)
    assert frozen.first_token_seconds < bound(plain, waits=1)


def found_again(servers: Servers, first: int) -> None:
    """New prompts of the server on a, from that seed on, are found by the one on b before long."""
    deadline = time.monotonic() + HANG_SECONDS
    for seed in itertools.count(first):
        servers.a.ask(prompt(seed))
        time.sleep(0.1)  # while it is stored
        answer = servers.b.ask(prompt(seed))
        check(answer, servers.plain.ask(prompt(seed)))
        if answer.stored == WHOLE:
            return
        assert time.monotonic() < deadline, servers.b.output()


def test_after_a_hang_members_are_used_again(servers: Servers) -> None:
    found_again(servers, 200)


def test_a_member_that_dies_and_comes_back_is_used_again(servers: Servers) -> None:
    """Last: it replaces the members, first the holder, then the reader's own."""
    nodes = servers.nodes
    for name, seed in (("a", 7), ("b", 8)):
        plain = servers.plain.ask(prompt(seed))
        servers.stored(seed)
        node = getattr(nodes, name)
        node.kill()
        alone = servers.b.ask(prompt(seed))
        assert (alone.cached, alone.computed) == (0, plain.computed)
        assert alone.first_token_seconds < bound(plain, waits=1)
        setattr(nodes, name, nodes.start(name, node.peer_port))
        found_again(servers, 100 * seed)


def test_members_learn_how_fast_servers_compute(servers: Servers) -> None:
    """From counters of the scheduler, which another release may not have."""

    def rate() -> int:
        engines = servers.nodes.a.status()["engines"]
        return max((int(engine["prefill_tokens_per_second"]) for engine in engines), default=0)

    seeds = iter(range(900, 1000))
    while rate() == 0:
        servers.a.ask(prompt(next(seeds)))
    assert rate() < 1_000_000

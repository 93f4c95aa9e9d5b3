"""Real vLLM servers on two nodes compute bit for bit what one without a cache does."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ..integration.processes import http
from ..patience import HANG_SECONDS
from .conftest import VLLM, Frozen, Nodes, checkpoint
from .vllm_server import Answer, Server

pytestmark = [pytest.mark.node, pytest.mark.full]

BLOCK = 128  # tokens: vLLM's block on a CPU
TOKENS = 600
WHOLE = TOKENS // BLOCK * BLOCK


def prompt(seed: int) -> list[int]:
    return [3 + (i * 7 + seed * 131) % 1000 for i in range(TOKENS)]


class Servers:
    """One without a cache, one on each node, and one of other weights."""

    def __init__(self, engines: Path, release: str, folder: Path, stack: ExitStack) -> None:
        self._common = (folder, engines, release)
        self._stack = stack
        self.nodes = stack.enter_context(Nodes(folder))
        self.model, other = (checkpoint(engines, folder, "llama", seed) for seed in (1, 2))
        self.plain = self.start("plain", self.model)
        self.a = self.start("a", self.model, self.nodes.a.socket)
        self.plain.wait()  # two start at a time, as many as there are processors
        self.b = self.start("b", self.model, self.nodes.b.socket)
        self.a.wait()
        self.other = self.start("other", other, self.nodes.b.socket)
        self.b.wait()
        self.other.wait()

    def start(self, name: str, model: Path, socket: str | None = None, **more: Any) -> Server:
        server = Server(name, *self._common, model, socket, **more)
        self._stack.callback(server.stop)
        return server

    def stored(self, seed: int) -> Answer:
        """A prompt that the server on node a has computed, and its node stored."""
        stored = self.nodes.a.status()["pool"]["pages"] + WHOLE // BLOCK
        answer = self.a.ask(prompt(seed))
        deadline = time.monotonic() + HANG_SECONDS
        while self.nodes.a.status()["pool"]["pages"] < stored:
            assert time.monotonic() < deadline, self.a.output()
            time.sleep(0.02)
        return answer


@pytest.fixture(scope="module", params=VLLM[-2:])
def servers(
    request: pytest.FixtureRequest, engines: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Servers]:
    folder = tmp_path_factory.mktemp("vllm")
    with ExitStack() as stack:
        yield Servers(engines, request.param, folder, stack)


def test_another_machine_has_the_prefix(servers: Servers) -> None:
    plain = servers.plain.ask(prompt(1))
    first = servers.stored(1)
    assert (first.cached, first.computed) == (0, plain.computed)
    second = servers.b.ask(prompt(1))
    assert (second.cached, second.computed) == (WHOLE, plain.computed)
    status = servers.nodes.b.status()
    assert status["lookups"]["looked_up"]["exists"]["tokens"] >= WHOLE
    read = servers.b.metric("vllm:kv_offload_tiering_read_bytes_total")
    assert read == WHOLE // BLOCK * (128 << 10)


def test_other_weights_of_the_same_shape_have_nothing(servers: Servers) -> None:
    mine = servers.stored(2)
    theirs = servers.other.ask(prompt(2))
    assert theirs.cached == 0
    assert theirs.computed != mine.computed


def test_a_cache_salt_keeps_users_apart(servers: Servers) -> None:
    servers.a.ask(prompt(3), cache_salt="one user")
    servers.stored(4)  # so the former is stored, too
    assert servers.b.ask(prompt(3), cache_salt="another").cached == 0
    assert servers.b.ask(prompt(3)).cached == 0
    assert servers.b.ask(prompt(3), cache_salt="one user").cached == WHOLE


def test_a_node_that_hangs_costs_a_request_nothing_but_the_cache(servers: Servers) -> None:
    plain = servers.plain.ask(prompt(5))
    servers.stored(5)
    with Frozen(servers.nodes.b):
        frozen = servers.b.ask(prompt(5))
    assert (frozen.cached, frozen.computed) == (0, plain.computed)


def test_new_weights_find_no_pages_of_the_old_ones(servers: Servers) -> None:
    servers.stored(6)
    http(f"{servers.b.url}/collective_rpc", {"method": "reload_weights"})
    servers.b.forget()
    assert servers.b.ask(prompt(6)).cached == 0


def test_an_engine_without_room_for_a_host_pool_serves_without_a_cache(servers: Servers) -> None:
    idle = servers.start("idle", servers.model, servers.nodes.a.socket, pool=1 << 20)
    answer = idle.wait().ask(prompt(8))
    assert (answer.cached, answer.computed) == (0, servers.plain.ask(prompt(8)).computed)
    assert "this engine works without cache: vLLM's host pool needs 64 MiB" in idle.output()


def test_a_node_that_dies_and_comes_back_is_used_again(servers: Servers) -> None:
    """Last: it replaces node a."""
    plain = servers.plain.ask(prompt(7))
    nodes = servers.nodes
    nodes.a.kill()
    alone = servers.a.ask(prompt(7))
    assert (alone.cached, alone.computed) == (0, plain.computed)
    nodes.a = nodes.start("a", nodes.a.peer_port)
    deadline = time.monotonic() + HANG_SECONDS
    for seed in range(100, 200):  # pages of a prompt are stored when it is computed
        servers.a.ask(prompt(seed))
        if nodes.a.status()["pool"]["pages"]:
            return
        assert time.monotonic() < deadline
    raise AssertionError(servers.a.output())

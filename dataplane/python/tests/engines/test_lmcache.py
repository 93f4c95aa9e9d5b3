"""vLLM on LMCache servers, whose second level is our adapter on two nodes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ..patience import HANG_SECONDS
from .conftest import LMCACHE, VLLM, Nodes, checkpoint
from .test_vllm import WHOLE, prompt
from .vllm_server import LMCacheServer, Server

pytestmark = [pytest.mark.node, pytest.mark.full]

RELEASE = VLLM[-2]  # the newest that has a build for a CPU


class Pair:
    """A vLLM server on an LMCache server on a node, and the parts to make another of."""

    def __init__(self, engines: Path, release: str, folder: Path, stack: ExitStack) -> None:
        self._engines, self._release, self._folder, self._stack = engines, release, folder, stack
        self.nodes = stack.enter_context(Nodes(folder))
        self._model = checkpoint(engines, folder, "llama", 1)

    def lmcache(self, name: str, socket: str) -> LMCacheServer:
        server = LMCacheServer(name, self._folder, self._engines, self._release, socket)
        self._stack.callback(server.stop)
        return server.wait()

    def vllm(self, name: str, lmcache: LMCacheServer | None) -> Server:
        server = Server(name, self._folder, self._engines, RELEASE, self._model, lmcache=lmcache)
        self._stack.callback(server.stop)
        return server


@pytest.fixture(scope="module", params=LMCACHE)
def pair(
    request: pytest.FixtureRequest, engines: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pair]:
    with ExitStack() as stack:
        yield Pair(engines, request.param, tmp_path_factory.mktemp("lmcache"), stack)


def test_a_server_that_starts_on_another_machine_has_the_prefix(pair: Pair) -> None:
    first, second = pair.lmcache("a", pair.nodes.a.socket), pair.lmcache("b", pair.nodes.b.socket)
    writer, reader = pair.vllm("writer", first), pair.vllm("reader", second)
    writer.wait()
    reader.wait()
    wrote = writer.ask(prompt(1))
    assert wrote.cached == 0
    deadline = time.monotonic() + HANG_SECONDS
    while pair.nodes.a.status()["pool"]["pages"] < WHOLE // 128:
        assert time.monotonic() < deadline, first.output()
        time.sleep(0.02)
    read = reader.ask(prompt(1))
    assert (read.cached, read.computed) == (WHOLE, wrote.computed)
    plain = pair.vllm("plain", None).wait().ask(prompt(1))
    assert read.computed == plain.computed

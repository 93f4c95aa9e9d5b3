"""Our L2 adapter on two nodes, made by LMCache's own factory, of each supported release."""

from __future__ import annotations

import time
import uuid
from pathlib import Path
from typing import Any

import pytest

from .. import wrong_bytes
from ..patience import HANG_SECONDS
from .conftest import Frozen, Nodes, Program

pytestmark = pytest.mark.node

CHUNKS = 16
TAG = {"tag": "these weights"}


@pytest.fixture
def chunks() -> dict[str, Any]:
    """Chunks that no other test has."""
    return {"seed": uuid.uuid4().hex, "chunks": CHUNKS}


def loaded(lmcache: Program, name: str, chunks: dict[str, Any]) -> int:
    answer = lmcache.do("load", name, **chunks)
    wrong_bytes.check_none(answer["hits"] - answer["right"], None)
    return int(answer["hits"])


def found(lmcache: Program, name: str, chunks: dict[str, Any]) -> int:
    return int(lmcache.do("lookup", name, **chunks)["found"])


@pytest.mark.parametrize("shared", [True, False], ids=["shared", "staged"])
def test_another_machine_loads_what_one_has_stored(
    lmcache: Program, nodes: Nodes, chunks: dict[str, Any], shared: bool
) -> None:
    writer = lmcache.make(socket=nodes.a.socket, params=TAG, shared=shared)
    reader = lmcache.make(socket=nodes.b.socket, params=TAG, shared=shared)
    state = lmcache.do("state", writer)
    assert state == {"fds": 3, "shared": 64 * (64 << 10) if shared else 0, "healthy": True}
    assert (found(lmcache, reader, chunks), loaded(lmcache, reader, chunks)) == (0, 0)
    stored = lmcache.do("store", writer, **chunks)
    assert stored == {"ok": True, "bytes": CHUNKS * (64 << 10)}
    assert (found(lmcache, reader, chunks), loaded(lmcache, reader, chunks)) == (CHUNKS, CHUNKS)


@pytest.mark.parametrize("other", [{"kv_rank": 1}, {"cache_salt": "user"}, {"model_name": "n"}])
def test_chunks_of_other_names_are_apart(
    lmcache: Program, nodes: Nodes, chunks: dict[str, Any], other: dict[str, Any]
) -> None:
    lmcache.do("store", lmcache.make(socket=nodes.a.socket, params=TAG), **chunks)
    reader = lmcache.make(socket=nodes.b.socket, params=TAG)
    assert found(lmcache, reader, {**chunks, **other}) == 0
    tagged = lmcache.make(socket=nodes.b.socket, params={"tag": "other weights"})
    assert found(lmcache, tagged, chunks) == 0


def test_weights_are_identified_by_their_files_or_named_by_a_tag(
    lmcache: Program, nodes: Nodes, chunks: dict[str, Any], tmp_path: Path
) -> None:
    for name, content in (("one", b"1"), ("copy", b"1"), ("two", b"2")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{}")
        (tmp_path / name / "model.bin").write_bytes(content * 4096)
    writer = lmcache.make(socket=nodes.a.socket, params={})
    reader = lmcache.make(socket=nodes.b.socket, params={})

    def model(name: str) -> dict[str, Any]:
        return {**chunks, "model_name": str(tmp_path / name)}

    assert lmcache.do("store", writer, **model("one"))["ok"]
    assert [found(lmcache, reader, model(name)) for name in ("copy", "two")] == [CHUNKS, 0]
    # Nothing says which weights these are, so nobody gets their chunks.
    assert lmcache.do("store", writer, **chunks) == {"ok": False, "bytes": 0}


def test_without_a_node_all_is_a_miss(
    lmcache: Program, nodes: Nodes, chunks: dict[str, Any]
) -> None:
    alone = lmcache.make(socket=nodes.a.socket + ".none", params=TAG)
    assert lmcache.do("store", alone, **chunks) == {"ok": False, "bytes": 0}
    assert (found(lmcache, alone, chunks), loaded(lmcache, alone, chunks)) == (0, 0)


def test_a_node_that_hangs_is_a_miss_and_comes_back(
    lmcache: Program, nodes: Nodes, chunks: dict[str, Any]
) -> None:
    lmcache.do("store", lmcache.make(socket=nodes.a.socket, params=TAG), **chunks)
    reader = lmcache.make(socket=nodes.b.socket, params={**TAG, "timeout_ms": 200})
    with Frozen(nodes.b):
        assert found(lmcache, reader, chunks) == 0
    deadline = time.monotonic() + HANG_SECONDS
    while found(lmcache, reader, chunks) != CHUNKS:
        assert time.monotonic() < deadline, "the node is back, and its chunks are not found"
        time.sleep(0.05)


def test_closing_finishes_what_was_begun(
    lmcache: Program, nodes: Nodes, chunks: dict[str, Any]
) -> None:
    writer = lmcache.make(socket=nodes.a.socket, params=TAG)
    lmcache.do("store", writer, **chunks)
    lmcache.do("close", writer)


def test_a_misspelt_parameter_is_an_error_that_names_the_fix(lmcache: Program) -> None:
    lmcache.begin("make", "wrong", socket="/x", params={"tga": "x"})
    answer = lmcache.answer()
    assert "known keys: socket, tag" in answer["error"]

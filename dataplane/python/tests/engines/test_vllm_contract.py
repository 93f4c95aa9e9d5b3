"""vLLM's tier on two nodes, under the real TieringOffloadingManager of each supported release."""

from __future__ import annotations

import signal
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

from .. import wrong_bytes
from ..patience import HANG_SECONDS, PATIENT_MS
from .conftest import Frozen, Nodes, Program

pytestmark = pytest.mark.node

PAGES = 16


@pytest.fixture
def pages() -> dict[str, Any]:
    """Pages that no other test has."""
    return {"seed": uuid.uuid4().hex, "pages": PAGES}


def hits(answer: Any) -> int:
    wrong_bytes.check_none(answer["hits"] - answer["right"], None)
    assert answer["open"] == 0, "vLLM would ask for ever"
    return int(answer["hits"])


def test_the_whole_host_pool_is_shared(vllm: Program, nodes: Nodes) -> None:
    state = vllm.do("state", vllm.make(socket=nodes.a.socket))
    assert state == {"attached": True, "shared": state["pool"], "pool": 4 << 20, "faults": {}}


def test_another_machine_reads_what_one_has_stored(
    vllm: Program, nodes: Nodes, pages: dict[str, Any]
) -> None:
    stored = vllm.do("store", vllm.make(socket=nodes.a.socket), **pages)
    assert PAGES in stored["events"]  # for routers: what the tier holds now
    reader = vllm.make(socket=nodes.b.socket)
    assert hits(vllm.do("fetch", reader, **pages)) == PAGES
    # As in releases that do not name a request's keys before they ask for the first one.
    assert (
        hits(vllm.do("fetch", vllm.make(socket=nodes.b.socket), positions=False, **pages)) == PAGES
    )


def test_a_prompt_that_goes_on_hits_its_stored_part(
    vllm: Program, nodes: Nodes, pages: dict[str, Any]
) -> None:
    vllm.do("store", vllm.make(socket=nodes.a.socket), **pages)
    longer = {**pages, "pages": 2 * PAGES}
    assert hits(vllm.do("fetch", vllm.make(socket=nodes.b.socket), **longer)) == PAGES


@pytest.mark.parametrize(
    "other",
    [
        {"weights": "other weights"},
        {"peercache": {"tag": "other"}},
        {"parallel": {"is_parallelism_agnostic": False, "tp_size": 2}},
    ],
    ids=["weights", "tag", "ranks"],
)
def test_engines_that_differ_share_nothing(
    vllm: Program, nodes: Nodes, pages: dict[str, Any], other: dict[str, Any]
) -> None:
    vllm.do("store", vllm.make(socket=nodes.a.socket), **pages)
    assert hits(vllm.do("fetch", vllm.make(socket=nodes.b.socket, **other), **pages)) == 0


def test_adapters_of_one_name_are_told_apart_by_their_files(
    vllm: Program, nodes: Nodes, pages: dict[str, Any], tmp_path: Path
) -> None:
    for name, weights in (("one", b"1"), ("copy", b"1"), ("two", b"2")):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "adapter_config.json").write_text("{}")
        (folder / "adapter_model.bin").write_bytes(weights * 4096)
    vllm.do("store", vllm.make(socket=nodes.a.socket), lora=str(tmp_path / "one"), **pages)

    def found(lora: str | None) -> int:
        reader = vllm.make(socket=nodes.b.socket)
        return hits(vllm.do("fetch", reader, lora=lora and str(tmp_path / lora), **pages))

    assert [found(name) for name in ("copy", "two", "absent", None)] == [PAGES, 0, 0, 0]


def test_pages_of_weights_before_an_update_are_not_found_after_it(
    vllm: Program, nodes: Nodes, pages: dict[str, Any]
) -> None:
    vllm.do("store", vllm.make(socket=nodes.a.socket), **pages)
    reader = vllm.make(socket=nodes.b.socket)
    vllm.do("begin_epoch", reader)
    assert hits(vllm.do("fetch", reader, **pages)) == 0
    vllm.do("store", reader, **pages)
    vllm.do("reset", reader)  # of the host pool, so that the node is asked
    assert hits(vllm.do("fetch", reader, **pages)) == PAGES
    vllm.do("begin_epoch", reader)
    vllm.do("reset", reader)
    assert hits(vllm.do("fetch", reader, **pages)) == 0


def test_without_a_node_all_is_a_miss_at_once(
    vllm: Program, nodes: Nodes, pages: dict[str, Any]
) -> None:
    alone = vllm.make(socket=nodes.a.socket + ".none")
    vllm.do("store", alone, **pages)
    vllm.do("reset", alone)
    answer = vllm.do("fetch", alone, **pages)
    assert (hits(answer), answer["steps"]) == (0, 1)


def test_a_node_that_hangs_does_not_hold_the_scheduler(
    vllm: Program, nodes: Nodes, pages: dict[str, Any]
) -> None:
    vllm.do("store", vllm.make(socket=nodes.a.socket), **pages)
    # Its calls end when the node goes on: a lookup that waits for one would not return before.
    reader = vllm.make(socket=nodes.b.socket, timeout_ms=min(60_000, PATIENT_MS))
    with Frozen(nodes.b):
        late = vllm.do("fetch", reader, **pages)
        assert hits(late) == 0
        # While that question is open, no other request waits for as much as a step.
        other = vllm.do("fetch", reader, seed=pages["seed"] + "x", pages=PAGES)
        assert (hits(other), other["steps"]) == (0, 1)
    deadline = time.monotonic() + HANG_SECONDS
    while hits(vllm.do("fetch", reader, **pages)) != PAGES:
        assert time.monotonic() < deadline, "the node is back, and its pages are not found"


@pytest.mark.parametrize("how", ["restarted", "frozen", "killed"])
def test_pages_that_go_between_question_and_load_are_misses(
    vllm: Program, tmp_path: Path, pages: dict[str, Any], how: str
) -> None:
    with Nodes(tmp_path) as own:
        writer = vllm.make(socket=own.a.socket)
        vllm.do("store", writer, **pages)
        reader = vllm.make(socket=own.b.socket)
        hit = tmp_path / "hit"
        vllm.begin("fetch", reader, wait_for_file=str(hit), **pages)
        deadline = time.monotonic() + HANG_SECONDS
        while not hit.exists():
            assert time.monotonic() < deadline, "no hit"
            time.sleep(0.005)
        if how == "killed":
            own.a.kill()
        elif how == "frozen":
            own.a.signal(signal.SIGSTOP)
        else:
            own.a.kill()
            own.a = own.start("a", own.a.peer_port)
        hit.unlink()
        assert hits(vllm.end()) == 0


def test_an_engine_that_cuts_its_host_pool_off_harms_nobody(
    vllm: Program, nodes: Nodes, pages: dict[str, Any]
) -> None:
    vllm.do("store", vllm.make(socket=nodes.a.socket), **pages)
    cutter = vllm.make(socket=nodes.a.socket)
    vllm.do("truncate", cutter, share=0.0)
    assert hits(vllm.do("fetch", cutter, **pages)) == 0
    assert nodes.a.popen.poll() is None
    assert hits(vllm.do("fetch", vllm.make(socket=nodes.b.socket), **pages)) == PAGES


def test_a_misspelt_setting_is_an_error_that_names_the_fix(vllm: Program) -> None:
    vllm.begin("make", "wrong", socket="/x", peercache={"sokcet": "/y"})
    answer = vllm.answer()
    assert "ConfigError" in answer["error"]
    assert "known keys: socket, tag" in answer["error"]

"""peercache-bench replay as it is run: SGLang's servers, members, a modelled forward pass."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from peercache_bench.__main__ import main
from peercache_bench.capacity_trace import chats
from peercache_bench.replay_requests import Span, oracle, requests
from peercache_bench.replay_servers import PAGE_TOKENS

from .. import wrong_bytes
from ..integration.processes import build_folder

pytestmark = pytest.mark.node

REQUESTS, RATE, SPEED = 24, 4.0, 40.0
LAG = 5.0  # until a busy machine has stored a prompt
WORDS = [
    "replay", "--servers=2", f"--requests={REQUESTS}", f"--rate={RATE}", f"--speed={SPEED}",
    "--pool=64m", "--overhead=0.01", "--prefill=4k=80000",
]  # fmt: skip


def replay(folder: Path, arms: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    words = [*WORDS, f"--arms={arms}", f"--build={build_folder()}", f"--out={folder}"]
    status = main(words)
    said = capsys.readouterr().err
    if "WRONG BYTES" in said:
        raise AssertionError(wrong_bytes.report(said))
    assert status == 0, said
    found: dict[str, Any] = json.loads((folder / "replay.json").read_text())
    return found


def test_a_small_replay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """That outputs of both arms are the same, and no row is wrong, the command itself checks."""
    found = replay(tmp_path, "l2,peercache", capsys)
    l2, peercache = found["arms"]
    assert [len(arm["requests"]) for arm in (l2, peercache)] == [REQUESTS, REQUESTS]
    assert 0 < l2["checked_rows"] < peercache["checked_rows"]

    def cached(arm: dict[str, Any]) -> int:
        return sum(int(request["cached"]) for request in arm["requests"])

    assert cached(peercache) > cached(l2)
    assert sum(request["stored"] for request in l2["requests"]) == 0
    # No member has evicted, so all is there that was computed LAG seconds before. On a busy machine
    # SGLang's prefetch timeouts and the guard leave some of it. Nothing is found that was sent
    # before its first token came.
    assert peercache["evictions"] == 0
    made = requests(chats(REQUESTS, RATE, seed=1), 2, SPEED, 120.0, seed=1)
    spans = [Span(**request["span"]) for request in peercache["requests"]]
    least = oracle(made, [Span(s.sent, s.first + LAG) for s in spans], 512, PAGE_TOKENS)
    most = oracle(made, [Span(s.first, s.sent) for s in spans], 512, PAGE_TOKENS)
    assert least / 2 <= cached(peercache) <= most
    assert "modelled forward, measured cache" in (tmp_path / "replay.md").read_text()


@pytest.mark.full
def test_wrong_bytes_end_a_replay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The control of the test above."""
    monkeypatch.setenv("PEERCACHE_SPOIL_LOADS", "1")
    words = [*WORDS, "--arms=peercache", f"--build={build_folder()}", f"--out={tmp_path}"]
    assert main(words) == 1
    assert "WRONG BYTES: 16 of" in capsys.readouterr().err
    assert not (tmp_path / "replay.json").exists()

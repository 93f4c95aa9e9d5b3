"""peercache-bench plan: caches beside slow ones, what is advised, and what is refused."""

from __future__ import annotations

import json
import random
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from peercache_bench import capacity_advice, capacity_trace
from peercache_bench.__main__ import main
from peercache_bench.capacity_cluster import Cluster, Lru, play
from peercache_bench.capacity_model import Prefill, bytes_per_token
from peercache_bench.capacity_trace import Prompt, Trace, chats, parse
from peercache_bench.errors import BenchError

from ..conftest import ROOT

BLOCK = 512
FAST = Prefill(0.0, 1 / 20_000)
CLUSTER = Cluster(4, 16 * BLOCK, 0, 70 * 1024, 10e9, FAST)
# A line of a published trace, and the words for it.
LINE = '{"timestamp": 3500, "input_length": 1025, "output_length": 9, "hash_ids": [7, 8, 9]}'
WORDS = ["plan", "--workers=4", "--own-tokens=8k", "--prefill=4k=20000", "--bytes-per-token=70k"]


class SlowLru:
    """The same as Lru, by the words of its definition."""

    def __init__(self, most: int) -> None:
        self.most, self.order = most, list[int]()

    def run(self, blocks: Sequence[int], start: int) -> int:
        missing = [i for i, block in enumerate(blocks) if i >= start and block not in self.order]
        return missing[0] if missing else len(blocks)

    def use(self, blocks: Sequence[int]) -> None:
        for block in reversed(blocks):
            if block in self.order:
                self.order.remove(block)
            self.order.append(block)
        self.order = self.order[max(0, len(self.order) - self.most) :]


@pytest.mark.parametrize("most", [0, 1, 5, 17, 1000])
def test_a_cache_is_beside_its_definition(most: int) -> None:
    chance, fast, slow = random.Random(most), Lru(most), SlowLru(most)
    for _ in range(400):
        first = chance.randrange(30)
        blocks = tuple(range(first, first + chance.randrange(8)))
        start = chance.randrange(len(blocks) + 1)
        assert fast.run(blocks, start) == slow.run(blocks, start)
        fast.use(blocks)
        slow.use(blocks)


def test_one_worker_by_hand() -> None:
    trace = Trace(
        (Prompt(0.0, 1024, (1, 2)), Prompt(0.0, 1024, (1, 2)), Prompt(100.0, 1100, (1, 2, 3))),
        BLOCK,
    )
    alone = play(trace, replace(CLUSTER, workers=1))
    # The last token of a prompt is always computed.
    assert (alone.own, alone.shared, alone.tokens) == (1023 + 1024, 0, 3148)
    assert alone.ttft == pytest.approx([1024 / 20_000, 1025 / 20_000, 76 / 20_000])
    # With two workers the second computes what the first has not stored yet, and reads it later.
    both = play(trace, replace(CLUSTER, workers=2, shared_tokens=100 * BLOCK))
    assert (both.own, both.shared) == (1024, 0)
    none_own = play(trace, replace(CLUSTER, workers=2, own_tokens=0, shared_tokens=100 * BLOCK))
    assert (none_own.own, none_own.shared) == (0, 1024)
    load = 1024 * 70 * 1024 / 10e9
    assert none_own.ttft[2] == pytest.approx(load + 76 / 20_000)
    assert none_own.windows == {0: 0, 10: 1024}


def test_more_memory_never_finds_less_and_at_last_all_that_repeats() -> None:
    trace = chats(600, 4.0, 1)
    outcomes = [
        play(trace, replace(CLUSTER, shared_tokens=n * BLOCK)) for n in (0, 50, 200, 1000, 9999)
    ]
    hits = [o.hits for o in outcomes]
    assert hits == sorted(hits)
    assert hits[-1] > hits[0] + 0.2
    assert all(o.tokens == outcomes[0].tokens and len(o.ttft) == 600 for o in outcomes)


def test_a_router_that_knows_finds_more_in_own_caches() -> None:
    trace = chats(600, 1.0, 1)
    roomy = replace(CLUSTER, own_tokens=400 * BLOCK)
    assert play(trace, replace(roomy, cache_aware=True)).own > play(trace, roomy).own


def test_traces_as_they_are_published() -> None:
    trace = parse([LINE, "", LINE.replace("3500", "500")], BLOCK, 1000.0)
    assert trace.prompts == (Prompt(0.0, 1025, (7, 8, 9)), Prompt(3.0, 1025, (7, 8, 9)))
    assert trace.distinct_tokens == 3 * BLOCK
    assert chats(50, 2.0, 7) == chats(50, 2.0, 7) != chats(50, 2.0, 8)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("x", "line 2 of the trace is not a JSON object"),
        ("[]", "line 2 of the trace is not a JSON object"),
        ('{"timestamp": 1, "input_length": 5}', "hash_ids"),
        ('{"timestamp": 1, "input_length": 0, "hash_ids": []}', "input_length is 0"),
        ('{"timestamp": 1, "input_length": 64, "hash_ids": [1, 2, 3, 4]}', "give --block-tokens"),
    ],
)
def test_a_wrong_line_is_named(line: str, said: str) -> None:
    with pytest.raises(BenchError, match=said):
        parse([LINE, line], BLOCK, 1000.0)


def test_an_empty_trace_is_refused() -> None:
    with pytest.raises(BenchError, match="has no request"):
        parse(["", " "], BLOCK, 1.0)


def test_bytes_of_models() -> None:
    qwen = {
        "num_hidden_layers": 28,
        "num_attention_heads": 28,
        "num_key_value_heads": 4,
        "hidden_size": 3584,
    }
    assert bytes_per_token(qwen, 2) == 56 * 1024
    assert bytes_per_token({"text_config": {**qwen, "head_dim": 256}}, 1) == 56 * 1024
    mla = {"num_hidden_layers": 61, "kv_lora_rank": 512, "qk_rope_head_dim": 64}
    assert bytes_per_token(mla, 2) == 61 * 576 * 2
    with pytest.raises(BenchError, match="no num_hidden_layers: give --bytes-per-token"):
        bytes_per_token({}, 2)


def test_rates_of_two_lengths_are_met() -> None:
    prefill = Prefill.of_rates(0.03, [(4096, 20_000.0), (32_768, 12_000.0)])
    assert prefill.seconds(4096, 0) == pytest.approx(4096 / 20_000)
    assert prefill.seconds(32_768, 0) == pytest.approx(32_768 / 12_000)
    for wrong in ([(4096, 12_000.0), (32_768, 20_000.0)], [(4096, 1.0), (4096, 2.0)], [(1, 1e9)]):
        with pytest.raises(BenchError):
            Prefill.of_rates(0.03, wrong)


def test_what_does_not_repeat_is_not_worth_it() -> None:
    prompts = tuple(Prompt(float(i), BLOCK, (i,)) for i in range(200))
    advice = capacity_advice.advise(Trace(prompts, BLOCK), CLUSTER, [100 * BLOCK])
    assert advice.enough == 0
    assert "prompts hardly repeat: 0 %" in advice.reasons[0]


def test_what_own_caches_have_is_not_worth_it() -> None:
    prompts = tuple(Prompt(float(i), BLOCK, (i % 4,)) for i in range(200))
    advice = capacity_advice.advise(Trace(prompts, BLOCK), CLUSTER, [100 * BLOCK])
    assert "own caches have" in advice.reasons[0]


def test_a_slow_link_is_not_worth_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*WORDS, "--trace=chat", "--requests=600", "--link=0.2"]) == 3
    assert "the link is too slow for this model" in capsys.readouterr().out


def test_the_command_writes_what_it_prints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "trace.jsonl"
    with trace.open("w") as file:
        for prompt in capacity_trace.chats(600, 4.0, 1).prompts:
            row = {
                "timestamp": 1000 * prompt.at,
                "input_length": prompt.tokens,
                "hash_ids": prompt.blocks,
            }
            print(json.dumps(row), file=file)
    words = [*WORDS, f"--trace={trace}", "--pool=1g,4g,1t", f"--out-dir={tmp_path}"]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "Worth it: " in said
    assert said.strip() == (tmp_path / "plan.md").read_text().strip()
    rows = json.loads((tmp_path / "plan.json").read_text())
    assert rows[0]["tokens"] == 0
    assert len(rows) == 4
    assert rows[-1]["busy_seconds"] < rows[0]["busy_seconds"]
    assert rows[-1]["tokens"] == int(0.95 * 4 * 2**40 / (70 * 1024))


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("--trace=/nowhere", "cannot be read"),
        ("--link=0", "--link 0 must be above 0"),
        ("--rate=0", "--rate 0 must be above 0"),
        ("--model-config=/nowhere", ""),
    ],
)
def test_what_cannot_be_planned_is_said(
    word: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = WORDS if said else [w for w in WORDS if "bytes" not in w]
    assert main([*words, "--trace=chat", "--requests=10", word]) == 1
    assert (said or "--model-config /nowhere cannot be read") in capsys.readouterr().err


@pytest.mark.parametrize(
    "word", ["--prefill=20000", "--prefill=a=b", "--own-tokens=1.0005k", "--pool=x"]
)
def test_a_wrong_word_is_explained(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([*WORDS, "--trace=chat", word])
    assert "write" in capsys.readouterr().err


def test_the_page_shows_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "planner.md").read_text()
    command = next(
        line for line in page.splitlines() if line.startswith("    peercache-bench plan ")
    )
    assert main(shlex.split(command)[1:]) == 0
    assert capsys.readouterr().out.strip() in page

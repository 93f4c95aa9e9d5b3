"""Samples: every tensor is looked at, where there are not too many of them."""

from __future__ import annotations

from itertools import pairwise

from peercache.core.samples import BLOCK, MAX_BLOCKS, Span, choose, spread

LAYERS, EXPERTS = 60, 256


def tensors(names: list[str], size: int = 1 << 20) -> list[Span]:
    return [Span("file", name, at * size, size) for at, name in enumerate(names)]


def deepseek() -> list[str]:
    experts = [
        f"model.layers.{layer}.mlp.experts.{expert}.{part}.weight"
        for layer in range(LAYERS)
        for expert in range(EXPERTS)
        for part in ("gate_proj", "up_proj", "down_proj")
    ]
    others = [
        f"model.layers.{layer}.{part}.weight"
        for layer in range(LAYERS)
        for part in ("self_attn.q_proj", "self_attn.kv_proj", "self_attn.o_proj", "mlp.gate")
    ]
    return [*experts, *others, "model.embed_tokens.weight", "lm_head.weight"]


def test_every_tensor_gives_a_block() -> None:
    names = [f"model.layers.{layer}.q_proj" for layer in range(MAX_BLOCKS)]
    chosen = choose(tensors(names))
    assert sorted(block.name for block in chosen) == sorted(names)


def test_few_tensors_give_several_blocks_each() -> None:
    chosen = choose(tensors(["a", "b"]))
    assert {block.name for block in chosen} == {"a", "b"}
    assert len({block.offset for block in chosen}) > 20


def test_blocks_are_inside_their_tensors() -> None:
    for size in (1, BLOCK - 1, BLOCK, BLOCK + 1, 10 * BLOCK + 7):
        given = {tensor.name: tensor for tensor in tensors(["a", "b", "c"], size)}
        for block in choose(list(given.values())):
            tensor = given[block.name]
            assert tensor.offset <= block.offset
            assert block.offset + block.size <= tensor.offset + tensor.size
            assert 0 < block.size <= BLOCK


def test_empty_tensors_give_none() -> None:
    assert choose(tensors(["a"], 0)) == []
    assert choose([]) == []


def test_of_many_experts_some_of_every_layer_and_everything_else_is_looked_at() -> None:
    names = deepseek()
    assert len(names) > MAX_BLOCKS
    chosen = {block.name for block in choose(tensors(names))}
    assert len(chosen) == MAX_BLOCKS
    assert {name for name in names if ".experts." not in name} <= chosen
    for layer in range(LAYERS):
        for part in ("gate_proj", "up_proj", "down_proj"):
            at = f"model.layers.{layer}.mlp.experts."
            of = [name for name in chosen if name.startswith(at) and part in name]
            assert len(of) >= MAX_BLOCKS // (LAYERS * 4)


def test_the_choice_does_not_depend_on_the_order_of_files() -> None:
    given = tensors(deepseek())
    key = lambda block: block.offset  # noqa: E731
    assert sorted(choose(given), key=key) == sorted(choose(given[::-1]), key=key)


def test_blind_files_are_covered_from_end_to_end() -> None:
    size = 100 << 20
    blocks = spread([Span("file", "", 0, size)])
    places = sorted((block.offset, block.offset + block.size) for block in blocks)
    assert places[0][0] == 0
    assert max(end for _, end in places) == size
    gaps = [after[0] - before[1] for before, after in pairwise(places)]
    assert max(gaps) <= size // 500
    assert sum(block.size for block in blocks) < 4 << 20

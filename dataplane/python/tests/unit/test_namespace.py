"""The namespace: whatever decides the bytes of a page decides its key."""

from __future__ import annotations

import dataclasses
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st
from peercache.core.digest import clear_tag
from peercache.sglang.namespace import Namespace, Rank, is_page_hash, page_hash

BASE = Namespace(
    model="meta/llama",
    tag="",
    pool="kv",
    encoding="segments",
    rank=Rank(tp=(0, 2), pp=(0, 1), cp=(0, 1), dcp=(0, 1)),
    shape={"dtype": "bfloat16", "layout": "page_first", "page_size": 16, "segments": [4096, 4096]},
)


def test_the_prefix_is_stable() -> None:
    # Nodes of an older version hold pages under this digest: it must not change by accident.
    assert BASE.prefix().hex() == (
        "315c0ac5b60bdf04b0c7b5bb5bf3b82cd8232722bc4628b53a7ac818713b215e"
    )
    assert (
        dataclasses.replace(BASE, shape=dict(reversed(BASE.shape.items()))).prefix()
        == BASE.prefix()
    )


@pytest.mark.parametrize(
    "change",
    [
        {"model": "meta/llama2"},
        {"tag": "blue"},
        {"pool": "mamba"},
        {"encoding": "flat"},
        {"weights": "5f1e"},
        {"rank": Rank(tp=(1, 2), pp=(0, 1), cp=(0, 1), dcp=(0, 1))},
        {"rank": Rank(tp=(0, 4), pp=(0, 1), cp=(0, 1), dcp=(0, 1))},
        {"rank": Rank(tp=None, pp=(0, 1), cp=(0, 1), dcp=(0, 1))},
        {"rank": Rank(tp=(0, 2), pp=(1, 2), cp=(0, 1), dcp=(0, 1))},
        {"rank": Rank(tp=(0, 2), pp=(0, 1), cp=(1, 2), dcp=(0, 1))},
        {"rank": Rank(tp=(0, 2), pp=(0, 1), cp=(0, 1), dcp=(1, 2))},
        {"shape": {**BASE.shape, "dtype": "float16"}},
        {"shape": {**BASE.shape, "layout": "page_head"}},
        {"shape": {**BASE.shape, "page_size": 32}},
        {"shape": {**BASE.shape, "segments": [4096]}},
    ],
    ids=str,
)
def test_each_part_of_the_namespace_changes_the_prefix(change: dict[str, object]) -> None:
    assert dataclasses.replace(BASE, **change).prefix() != BASE.prefix()


@given(st.text(), st.text(), st.text(), st.text())
def test_parts_do_not_run_into_each_other(a: str, b: str, c: str, d: str) -> None:
    one = dataclasses.replace(BASE, model=a, tag=b)
    two = dataclasses.replace(BASE, model=c, tag=d)
    assert (one.prefix() == two.prefix()) == ((a, b) == (c, d))
    assert (clear_tag(a, b) == clear_tag(c, d)) == ((a, b) == (c, d))


@given(st.text(alphabet=string.hexdigits, min_size=64, max_size=64))
def test_page_hashes_pass_unchanged(key: str) -> None:
    assert is_page_hash(key)
    assert page_hash(key) == key.lower()


@given(st.text(max_size=80), st.text(max_size=80))
def test_other_keys_are_digested_without_collisions(one: str, two: str) -> None:
    for key in (one, two):
        assert is_page_hash(page_hash(key))
    if not is_page_hash(one) and not is_page_hash(two):
        assert (page_hash(one) == page_hash(two)) == (one == two)


def test_digits_of_other_scripts_are_no_page_hash() -> None:
    arabic_indic_one = chr(0x661)
    assert not is_page_hash(arabic_indic_one * 64)
    assert not is_page_hash("a" * 63)
    assert not is_page_hash("g" * 64)

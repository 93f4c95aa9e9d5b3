"""The map of a pool's pages: what SGLang's real pools answer themselves, or no map."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from hicache_engine.layouts import LAYOUTS
from peercache.core.segments import Segments
from peercache.sglang import page_map

from .conftest import PAGES, host_pool

pytestmark = pytest.mark.node
ALL_LAYOUTS = [(kind, layout) for kind, layouts in LAYOUTS.items() for layout in layouts]


def rows(pool: Any, pages: list[int]) -> Any:
    size = pool.page_size
    return torch.cat([torch.arange(page * size, (page + 1) * size) for page in pages])


@pytest.mark.parametrize(("kind", "layout"), ALL_LAYOUTS)
def test_it_answers_what_the_pool_answers(kind: str, layout: str) -> None:
    pool = host_pool(kind, layout)
    found = page_map.learn(pool)
    assert found is not None
    pages = random.Random(1).sample(range(PAGES), PAGES)
    ptrs, sizes = pool.get_page_buffer_meta(rows(pool, pages))[:2]
    assert found.segments(rows(pool, pages)) == Segments(list(ptrs), list(sizes))
    assert found.segments(torch.empty(0, dtype=torch.int64)) == Segments([], [])
    assert found.page_bytes == sum(sizes) // PAGES


@pytest.mark.parametrize("start", [-16, -1, 1, 15, 10**9])
def test_rows_that_start_no_page_are_left_to_sglang(start: int) -> None:
    pool = host_pool("mla", "page_first")
    found = page_map.learn(pool)
    assert found is not None
    assert found.segments(torch.arange(start, start + pool.page_size)) is None


def test_the_page_behind_the_last_is_none_of_the_pool() -> None:
    pool = host_pool("mha", "page_first")
    found = page_map.learn(pool)
    assert found is not None
    pages = pool.size // pool.page_size
    assert found.segments(rows(pool, [pages - 1])) is not None
    assert found.segments(rows(pool, [pages])) is None


def test_rows_that_are_not_as_sglang_gives_them_are_left_to_sglang() -> None:
    pool = host_pool("mla", "page_first")
    found = page_map.learn(pool)
    assert found is not None
    good = rows(pool, [0, 1])
    assert found.segments(good) is not None
    assert found.segments(None) is None
    assert found.segments(good.to(torch.int32)) is None
    assert found.segments(torch.stack([good, good], 1)[:, 0]) is None
    assert found.segments(good[:-1]) is None


class Odd:
    """A pool in which one page lies elsewhere."""

    def __init__(self, pool: Any, odd: int) -> None:
        self._pool, self._odd = pool, odd
        self.page_size, self.size = pool.page_size, pool.size

    def get_page_buffer_meta(self, indices: Any) -> tuple[list[int], list[int]]:
        ptrs, sizes = self._pool.get_page_buffer_meta(indices)
        starts = indices[:: self.page_size].tolist()
        segments = len(ptrs) // max(1, len(starts))
        for page, start in enumerate(starts):
            if start == self._odd * self.page_size:
                ptrs[page * segments] += 64
        return ptrs, sizes


@pytest.mark.parametrize("odd", [0, 1, 2, PAGES // 2, PAGES - 1])
def test_a_pool_whose_pages_do_not_follow_one_rule_has_no_map(odd: int) -> None:
    assert page_map.learn(Odd(host_pool("mla", "page_first"), odd)) is None


def test_a_pool_that_does_not_answer_has_no_map() -> None:
    class Silent:
        page_size, size = 16, 1600

        def get_page_buffer_meta(self, indices: Any) -> None:
            raise NotImplementedError

    assert page_map.learn(Silent()) is None
    assert page_map.learn(object()) is None

"""The hit ratio of real nodes under SGLang's real controller: delivered / looked up."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import Cluster
from .processes import Engine, Node

PAGE_TOKENS = 16
STORED = 50
SCENARIO = {"kind": "mha", "layout": "page_first", "v1": True}


def lookups(node: Node) -> Any:
    return node.status()["lookups"]


def prompt(reader: Engine, seed: int, pages: int) -> int:
    """Prefetches a prompt of so many pages; returns how many arrived."""
    # The engine asks for one page more than it is told, which nobody has.
    answer = reader.ask("read", **SCENARIO, seed=seed, pages=pages - 1)
    return int(answer["prefetched"]) // PAGE_TOKENS


@pytest.mark.node
def test_half_of_a_prompt_is_stored(cluster: Cluster) -> None:
    a, b = cluster.node("a"), cluster.node("b")
    writer, reader = cluster.engine("writer", a), cluster.engine("reader", b)
    writer.ask("write", **SCENARIO, seed=1, pages=STORED)
    assert lookups(b)["looked_up_pages"] == 0

    assert prompt(reader, seed=1, pages=100) == STORED
    seen = lookups(b)
    assert (seen["delivered_pages"], seen["looked_up_pages"]) == (STORED, 100)
    assert seen["looked_up"]["exists"] == {"pages": 100, "tokens": 100 * PAGE_TOKENS}
    assert seen["found"] == {"pages": STORED, "tokens": STORED * PAGE_TOKENS}
    assert seen["delivered"]["tcp"] == {"pages": STORED, "tokens": STORED * PAGE_TOKENS}
    metrics = b.metrics()
    for line in (
        'peercache_lookup_pages_total{op="exists"} 100',
        'peercache_lookup_pages_total{op="get"} 0',
        f'peercache_lookup_tokens_total{{op="exists"}} {100 * PAGE_TOKENS}',
        f"peercache_lookup_found_pages_total {STORED}",
        f'peercache_delivered_pages_total{{tier="tcp"}} {STORED}',
        f'peercache_delivered_tokens_total{{tier="tcp"}} {STORED * PAGE_TOKENS}',
    ):
        assert line in metrics.splitlines()

    # Of a prompt that nobody has, nothing is got, and all of it was looked up.
    assert prompt(reader, seed=2, pages=100) == 0
    seen = lookups(b)
    assert (seen["delivered_pages"], seen["looked_up_pages"]) == (STORED, 200)

    # HiCacheController itself asks for 128 pages at a time and stops at the first that is absent:
    # of the other 172 no node hears. (What serves models asks for all at once.)
    assert prompt(reader, seed=1, pages=300) == STORED
    seen = lookups(b)
    assert (seen["delivered_pages"], seen["looked_up_pages"]) == (2 * STORED, 328)

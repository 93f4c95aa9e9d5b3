"""What a node needs beside its pool for a page: the operator adds as much to its memory limit."""

from __future__ import annotations

import re
import subprocess

import pytest

from ..conftest import ROOT
from .conftest import Cluster
from .processes import binary

pytestmark = pytest.mark.node


def test_a_page_takes_no_more_than_the_operator_adds(cluster: Cluster) -> None:
    resources = (ROOT / "operator" / "plan" / "resources.go").read_text()
    entry = re.search(r"poolIndexEntry = (\d+)", resources)
    assert entry
    node = cluster.node("indexed", pool_size="2Gi")
    empty = node.own_memory()
    # Two sizes of the tables, which double: shortly after that, and shortly before.
    for pages in (100_000, 270_000):
        subprocess.run(
            [
                str(binary().parent / "bench" / "peercache-perf"), "set", "--socket", node.socket,
                "--pages", str(pages), "--page-bytes", "4096", "--batch", "128", "--seconds", "0",
            ],
            check=True, capture_output=True,
        )  # fmt: skip
        held = re.search(r"^peercache_pool_pages (\d+)$", node.metrics(), re.MULTILINE)
        assert held
        assert int(held[1]) > 0.9 * pages
        taken = (node.own_memory() - empty) / int(held[1])
        assert taken < int(entry[1]), f"{taken:.0f} bytes for each of {held[1]} pages"

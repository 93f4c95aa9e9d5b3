"""Links that GitHub follows by path, as the site follows them."""

from __future__ import annotations

import pytest
from links import rewrite

PAGES = {
    "docs/rdma.md": "rdma.md",
    "docs/install/tcp.md": "install/tcp.md",
    "CONTRIBUTING.md": "project/contributing.md",
}
FILES = "https://github.com/peercache/peercache/blob/v1"


@pytest.mark.parametrize(
    ("path", "link", "site"),
    [
        ("docs/install/tcp.md", "../rdma.md#gids", "../rdma.md#gids"),
        ("docs/rdma.md", "../CONTRIBUTING.md", "project/contributing.md"),
        ("CONTRIBUTING.md", "docs/rdma.md", "../rdma.md"),
        ("CONTRIBUTING.md", "docs/runbooks/", f"{FILES}/docs/runbooks"),
        ("docs/rdma.md", "../config/samples/a.yaml", f"{FILES}/config/samples/a.yaml"),
        ("docs/rdma.md", "#gids", "#gids"),
        ("docs/rdma.md", "https://example.com/a.md", "https://example.com/a.md"),
    ],
)
def test_links(path: str, link: str, site: str) -> None:
    assert rewrite(f"see [a\nb]({link})", path, PAGES, FILES) == f"see [a\nb]({site})"
    assert rewrite(f"see [a]\n\n[a]: {link}", path, PAGES, FILES) == f"see [a]\n\n[a]: {site}"


def test_code_is_left_alone() -> None:
    page = "`[a](../b.md)`\n\n```text\n[a](../b.md)\n```\n"
    assert rewrite(page, "docs/rdma.md", PAGES, FILES) == page

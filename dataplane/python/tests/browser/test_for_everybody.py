"""The dashboard by keyboard, by screen reader, in both schemes and on a phone."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from .conftest import Nodes, Open

pytestmark = pytest.mark.node

LOW_CONTRAST = Path(__file__).with_name("low_contrast.js").read_text()

WHAT_HAS_THE_FOCUS = """() => {
  const e = document.activeElement;
  const seen = getComputedStyle(e.type === 'radio' ? e.nextElementSibling : e);
  const name = e.id || e.name || e.textContent.trim().slice(0, 24);
  return [name, e === document.body, seen.outlineStyle !== 'none',
    e.getBoundingClientRect().top + scrollY];
}"""


def whole(page: Page) -> None:
    """Waits until everything is there."""
    expect(page.locator("h4")).to_have_count(3)
    expect(page.locator("#tiers tbody tr")).not_to_have_count(0, timeout=60_000)
    expect(page.locator("#reads .heat")).to_have_count(6)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast(nodes: Nodes, look: Open, scheme: str) -> None:
    page = look(nodes.host, color_scheme=scheme)
    whole(page)
    page.locator("details summary").first.click()
    assert page.evaluate(LOW_CONTRAST) == []
    ground = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(246, 247, 248)") is (scheme == "light")


def test_the_focus_goes_from_top_to_bottom_and_is_seen(nodes: Nodes, look: Open) -> None:
    page = look(nodes.host)
    whole(page)
    page.locator("#events-section details").evaluate("e => { e.open = true; }")
    order, tops = [], []
    for _ in range(60):
        page.keyboard.press("Tab")
        name, none, seen, top = page.evaluate(WHAT_HAS_THE_FOCUS)
        if none:
            break
        assert seen, f"nobody sees that {name} has the focus"
        order.append(name)
        tops.append(top)
    assert order[0] == "Skip to the figures"
    assert order[1:3] == ["scope", "pause"]
    assert order[-5:] == ["metrics", "status", "history", "healthz", "readyz"]
    for region in ("stages", "engines", "rails", "reads", "events"):
        assert region in order
    # Panels side by side begin at one height.
    steps = list(itertools.pairwise(tops[3:]))
    assert all(later >= earlier - 60 for earlier, later in steps), list(
        zip(order, tops, strict=True)
    )


def test_the_first_link_skips_to_the_figures(nodes: Nodes, look: Open) -> None:
    page = look(nodes.host)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("() => document.activeElement.id") == "main"


def test_a_screen_reader_finds_its_way(nodes: Nodes, look: Open) -> None:
    page = look(nodes.host)
    whole(page)
    for role in ("banner", "main", "contentinfo", "navigation"):
        assert page.get_by_role(role).count() == 1, role
    without = "all => all.filter((e) => !e.querySelector('caption')?.textContent).length"
    assert page.locator("table").evaluate_all(without) == 0
    unnamed = "all => all.filter((e) => !e.getAttribute('aria-label')).length"
    assert page.locator("svg[role=img]").count() == 4
    assert page.locator("svg[role=img]").evaluate_all(unnamed) == 0
    undecided = "all => all.filter((e) => !e.closest('[role=img], [aria-hidden]')).length"
    assert page.locator("svg").evaluate_all(undecided) == 0, "each is named, or beside its number"
    level = "all => all.map((e) => Number(e.tagName[1]))"
    levels = page.locator("h1, h2, h3, h4").evaluate_all(level)
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b <= a + 1 for a, b in itertools.pairwise(levels)), levels
    ids = page.locator("[id]").evaluate_all("all => all.map((e) => e.id)")
    assert len(ids) == len(set(ids))


def test_a_chart_is_a_table_too_and_stays_open(nodes: Nodes, look: Open) -> None:
    page = look(nodes.host)
    whole(page)
    page.locator("#figure-hits summary").press("Enter")
    table = page.get_by_role("table", name="Share of the pages looked up, by where they were found")
    expect(table.get_by_role("columnheader").first).to_have_text("until")
    expect(table.locator("tbody tr").first).to_contain_text("%")
    with page.expect_response("**/v1/history"):
        pass
    page.wait_for_timeout(200)
    expect(table).to_be_visible()
    assert page.evaluate("() => document.activeElement.tagName") == "SUMMARY"


@pytest.mark.parametrize("width", [360, 820, 1280, 1920])
def test_fits_any_width(nodes: Nodes, look: Open, width: int) -> None:
    page = look(nodes.host, viewport={"width": width, "height": 800})
    whole(page)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width

"""The dashboard of real nodes under load, in a real browser."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from . import rogue
from .conftest import WAIT_MS, Nodes, Open
from .prefix_proxy import prefixed

pytestmark = pytest.mark.node

PERIOD_MS = 2000  # between two questions of the page
AMOUNT = re.compile(r"^[1-9][\d.,]* [kMG]?B/s$")


def tile(page: Page, name: str) -> Locator:
    return page.locator(".tile").filter(has=page.get_by_text(name, exact=True)).locator(".value")


def points(page: Page, figure: str) -> int:
    """Of the first line or area of a chart."""
    path = page.locator(f"#{figure} svg path").first.get_attribute("d") or ""
    return len(re.findall("[ML]", path))


def test_shows_the_whole_cluster_under_load(nodes: Nodes, look: Open) -> None:
    page = look(nodes.host)
    expect(page.locator("h4")).to_have_count(3)
    expect(page).to_have_title("PeerCache gpu-1.numa0")
    expect(page.get_by_role("radio", name="Cluster")).to_be_checked()
    expect(tile(page, "Members")).to_have_text("3 of 3")
    expect(tile(page, "Read")).to_have_text(AMOUNT)
    expect(tile(page, "Hit ratio")).to_have_text(re.compile(r"^[4-9]\d(\.\d)?%$"))
    expect(tile(page, "Get, p99")).to_have_text(re.compile(r"^[\d.,]+ (µs|ms|s)$"))
    # Each reads from the two others.
    matrix = page.get_by_role("table", name=re.compile("^Bytes per second"))
    expect(matrix.locator("tbody tr")).to_have_count(3)
    expect(matrix.locator(".heat")).to_have_count(6)
    expect(page.locator("#transport")).to_have_text("TCP")
    expect(page.locator("#events")).to_contain_text("joined")


def test_has_the_past_when_it_is_opened_first(nodes: Nodes, look: Open) -> None:
    page = look(nodes.host)
    expect(page.locator("#tiers tbody tr")).not_to_have_count(0, timeout=60_000)
    again = look(nodes.host)
    expect(again.locator("#figure-rates svg path")).to_have_count(3)
    assert points(again, "figure-rates") >= 1
    expect(again.locator("#reasons")).to_contain_text("absent")
    expect(again.locator("#hour-span")).to_contain_text("this member hosts discovery")


def test_follows_the_load(nodes: Nodes, look: Open) -> None:
    page = look(nodes.host)
    seen = set()
    for _ in range(10):
        seen.add(tile(page, "Read").text_content())
        page.wait_for_timeout(PERIOD_MS)
        if len(seen) > 2:
            break
    assert len(seen) > 2, seen


def test_shows_a_node_that_hosts_no_discovery(nodes: Nodes, look: Open) -> None:
    page = look(nodes.other)
    expect(page.locator("#who")).to_have_text("gpu-1.numa1")
    expect(page.locator("#scope")).to_be_hidden()
    expect(tile(page, "Engines")).to_have_text("1")
    engines = page.get_by_role("table", name="Engines attached to this member")
    expect(engines).to_contain_text("engine-1")
    expect(page.locator("#reads .heat")).to_have_count(2)
    # It knows neither traffic nor pools of others, so no colour has a meaning.
    expect(page.locator("#strip-legend")).to_have_text("active 3")


def test_the_scope_is_chosen_by_the_keyboard(nodes: Nodes, look: Open) -> None:
    page = look(nodes.host)
    cluster = page.get_by_role("radio", name="Cluster")
    expect(cluster).to_be_visible()
    cluster.focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("radio", name="This member")).to_be_checked()
    expect(tile(page, "Engines")).to_have_text("1")
    expect(page.locator("#memory-of")).to_contain_text("of this member's pool")
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#memory-of")).to_contain_text("of all pools")


def test_names_of_a_hostile_member_are_text(nodes: Nodes, look: Open) -> None:
    hostile = rogue.Rogue(nodes.host.peer_port, read_from=0)
    try:
        for node in (nodes.host, nodes.other):
            page = look(node)
            expect(page.locator("h4").filter(has_text=rogue.NAME)).to_have_count(1)
            expect(page.locator("#events")).to_contain_text(rogue.NAME)
            expect(page.locator("main img, main script, main svg[onload]")).to_have_count(0)
            assert page.title() == f"PeerCache {node.name}"
        page = look(nodes.host)
        for name in (rogue.GROUP, rogue.RAIL):
            expect(page.locator("#machines")).to_contain_text(name)
        # A name of a member is an attribute of its cell, too.
        expect(page.locator("#strip .cell[title*='<img/src=x']")).to_have_count(1)
    finally:
        hostile.end()
    # It has stopped without leaving.
    issue = page.locator("#attention-list li").filter(has_text=f"{rogue.NAME} failed")
    expect(issue).to_have_count(1, timeout=60_000)
    expect(issue.locator("code")).to_have_text("peercached doctor")
    expect(page.locator("main img, main script")).to_have_count(0)


def test_works_below_a_prefix(nodes: Nodes, look: Open) -> None:
    asked: list[str] = []
    with prefixed(nodes.host.http_port, forwards=False) as address:
        page = look("about:blank")
        page.on("request", lambda request: asked.append(request.url))
        page.goto(address)
        expect(page.locator("h4")).to_have_count(3)
        expect(page.locator("#events")).to_contain_text("joined")
        expect(page.locator("#figure-rates svg")).to_have_count(1)
        page.close()
    assert len(asked) > 8
    assert [url for url in asked if not url.startswith(address)] == []


def test_strangers_see_numbers_and_are_told_so(nodes: Nodes, look: Open) -> None:
    with prefixed(nodes.host.http_port, forwards=True) as address:
        page = look(address)
        expect(page.locator("#stranger")).to_be_visible()
        expect(page.locator("h4")).to_have_count(3)
        expect(tile(page, "Read")).to_have_text(AMOUNT)
        for hidden in ("#reads-section", "#events-section"):
            expect(page.locator(hidden)).to_be_hidden()
        expect(page.locator(".machine h3")).to_have_text("All members")
        expect(page.locator("#machines")).to_contain_text("hits, last minute")
        expect(page.locator("#machines")).not_to_contain_text("serves others")
        expect(page.locator("#engines")).not_to_contain_text("engine-0")
        page.close()


def test_asks_nothing_while_nobody_looks(nodes: Nodes, look: Open) -> None:
    page = look(nodes.host)
    expect(page.locator("h4")).to_have_count(3)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    hide = (
        "value => { Object.defineProperty(document, 'hidden', {value, configurable: true});"
        " document.dispatchEvent(new Event('visibilitychange')); }"
    )
    page.evaluate(hide, True)
    page.wait_for_timeout(PERIOD_MS)  # what was under way ends
    asked.clear()
    page.wait_for_timeout(3 * PERIOD_MS)
    assert asked == []
    with page.expect_request("**/v1/status", timeout=WAIT_MS):
        page.evaluate(hide, False)
    page.get_by_role("button", name="Pause").press("Enter")
    expect(page.get_by_role("button", name="Pause")).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#state")).to_have_text("Paused")


def test_says_that_the_node_does_not_answer(nodes: Nodes, look: Open) -> None:
    page = look(nodes.host)
    expect(page.locator("h4")).to_have_count(3)
    page.route("**/v1/status", lambda route: route.fulfill(status=200, body="{"))
    expect(page.locator("#state")).to_contain_text("No answer from the member")
    expect(page.locator("h4")).to_have_count(3)
    page.unroute_all()
    expect(page.locator("#state")).to_contain_text("Live")

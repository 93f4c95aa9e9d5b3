"""The parts of the dashboard: what each shows, of real members and of clusters that are larger."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from ..fleet.nodes import EngineProcess
from .conftest import Nodes, Open
from .crowd import Status, changed, grow
from .test_dashboard import tile
from .test_for_everybody import LOW_CONTRAST

pytestmark = pytest.mark.node

PARTS = [
    "Status",
    "Worth",
    "Capacity",
    "Looked up, found, delivered",
    "Latency",
    "Members",
    "Rails and network",
    "Events",
]
HEALTHY = {"reachable": True, "breaker": "closed", "state": "active"}


def opened(look: Open, nodes: Nodes, change: object, **options: object) -> Page:
    """The page of the host, whose answers are changed from the first one on."""
    page = look("about:blank", **options)
    changed(page, change)  # type: ignore[arg-type]
    page.goto(f"http://127.0.0.1:{nodes.host.http_port}/")
    expect(page.locator("h4")).not_to_have_count(0)
    return page


def test_parts_come_in_the_order_of_a_reader_in_a_hurry(nodes: Nodes, look: Open) -> None:
    page = look(nodes.host)
    expect(page.locator("h4")).to_have_count(3)
    titles = page.locator("main h2").evaluate_all("all => all.map((e) => e.firstChild.data.trim())")
    assert titles == PARTS


def test_says_what_it_is_worth_once_an_engine_has_reported_its_rate(
    nodes: Nodes, engines: list[EngineProcess], look: Open
) -> None:
    page = look(nodes.host)
    expect(tile(page, "Tokens from cache")).to_have_text(re.compile(r"^[\d.]+ k?/s$"))
    expect(tile(page, "Worth about")).to_have_text(re.compile(r"^\W$"))
    expect(page.locator("#tiles-worth")).to_contain_text("no engine has reported its rate yet")
    engines[0].ask("prefill", tokens_per_second=9000)
    try:
        expect(tile(page, "Worth about")).to_have_text(re.compile(r"^[\d.]+ GPUs$"))
        expect(page.locator("#tiles-worth")).to_contain_text("would compute 9 k tokens/s each")
        expect(page.locator("#tiles-worth")).to_contain_text("times as long")
        assumed = page.locator("#assumption")
        expect(assumed).to_contain_text("a page has 64 tokens")
        expect(assumed).to_contain_text("taken for all members")
    finally:
        engines[0].ask("prefill", tokens_per_second=0)


def test_the_funnel_narrows(nodes: Nodes, look: Open) -> None:
    page = look(nodes.host)
    shares = page.locator("#funnel tbody td:last-child")
    expect(shares).to_have_count(3, timeout=60_000)
    asked, found, delivered = (float(text.rstrip("%")) for text in shares.all_text_contents())
    assert asked == 100
    assert asked > found >= delivered > 0


def test_stages_are_of_calls_that_were_made(nodes: Nodes, look: Open) -> None:
    page = look(nodes.host)
    for stage in ("get in all", "get lookup", "get read"):
        row = page.locator("#stages tbody tr").filter(has_text=stage)
        expect(row.locator("td").nth(1)).to_have_text(re.compile(r"^[\d.,]+ (µs|ms|s)$"))
    expect(page.locator("#stages caption")).to_contain_text("since it started")
    expect(page.locator("#stages caption")).to_contain_text("in the last", timeout=60_000)


def test_a_page_stays_as_long_as_evictions_leave_it(nodes: Nodes, look: Open) -> None:
    def full(status: Status) -> None:
        status["fleet"]["pool"] = {"used_bytes": 9 << 40, "capacity_bytes": 10 << 40}
        status["fleet"]["disks"] |= {
            "total": 8, "on": 8, "used_bytes": 1 << 40, "capacity_bytes": 4 << 40,
            "budget_bytes_a_day": 100 << 30, "budget_left_bytes": 25 << 30,
        }  # fmt: skip

    page = opened(look, nodes, full)
    expect(tile(page, "Memory")).to_have_text("90.0%")
    expect(tile(page, "Drives")).to_have_text("8 of 8 on")
    expect(tile(page, "Write budget left")).to_have_text("25.0%")
    expect(tile(page, "A page stays")).to_have_text(re.compile("^(> .*|about .*)$"), timeout=60_000)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1600])
@pytest.mark.parametrize("members", [80, 1000])
def test_holds_many_members(
    nodes: Nodes, look: Open, members: int, width: int, scheme: str
) -> None:
    page = opened(
        look,
        nodes,
        lambda status: grow(status, members),
        viewport={"width": width, "height": 900},
        color_scheme=scheme,
    )
    cells = page.locator("#strip .cell")
    expect(cells).to_have_count(members)
    expect(page.locator("h4")).to_have_count(12)
    # Those with trouble come first, and have a mark beside their colour.
    expect(cells.first).to_have_text("✕")
    expect(cells.first).to_have_accessible_name(re.compile(r"^gpu-\d+\.numa\d: unreachable"))
    expect(cells.nth(1)).to_have_text("→")
    expect(cells.nth(2)).to_have_text("")
    expect(page.locator("#strip-legend")).to_contain_text(f"active {members - 2:,}")
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    assert page.evaluate(LOW_CONTRAST) == []


def test_a_member_is_chosen_by_the_keyboard_and_stays_chosen(nodes: Nodes, look: Open) -> None:
    page = opened(look, nodes, lambda status: grow(status, 80))
    expect(page.locator("#strip .cell")).to_have_count(80)
    assert page.locator("#strip .cell[tabindex='0']").count() == 1, "one stop for Tab"
    page.locator("#strip .cell").first.focus()
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    name = page.evaluate("() => document.activeElement.getAttribute('aria-label')").split(":")[0]
    page.keyboard.press("Enter")
    expect(page.locator(".card.chosen h4")).to_contain_text(name)
    with page.expect_response("**/v1/status"):
        pass
    page.wait_for_timeout(200)
    expect(page.locator(".card.chosen h4")).to_contain_text(name)
    focused = page.evaluate("() => document.activeElement.getAttribute('aria-label')")
    assert focused.startswith(f"{name}:"), "new figures leave the focus where it is"


def test_an_issue_has_an_impact_and_one_command(nodes: Nodes, look: Open) -> None:
    def troubled(status: Status) -> None:
        status["config"]["discovery-addr"] = "kv-discovery.inference.svc:31998"
        status["members"][1]["reachable"] = False
        lost = {"seconds_ago": 130.0, "what": "lost", "whom": "gpu-9.default"}
        status["events"] = [lost]

    page = opened(look, nodes, troubled)
    expect(page.locator("#headline")).to_have_text("2 issues")
    expect(page.locator("#state")).to_have_text("Live: 2 issues")
    expect(page.locator("#serving")).to_have_text("2 of 4 members serve pages.")
    issues = page.locator("#attention-list li")
    failed = issues.filter(has_text="gpu-9.default failed 2 min ago and is not back")
    expect(failed.locator(".impact")).to_contain_text("No errors, no wrong answers")
    expect(failed.locator("code")).to_have_text("kubectl peercache members kv -n inference")
    unreachable = issues.filter(has_text="One member that most others cannot reach: gpu-1.numa1")
    expect(unreachable.locator("code")).to_have_text("kubectl peercache doctor kv -n inference")
    # A command can be selected and copied: new figures leave the list as it is.
    page.evaluate("() => { document.querySelector('#attention-list li').dataset.kept = 'yes'; }")
    with page.expect_response("**/v1/status"):
        pass
    page.wait_for_timeout(200)
    expect(page.locator("#attention-list li[data-kept]")).to_have_count(1)
    assert page.evaluate(LOW_CONTRAST) == []


def test_without_issues_it_says_so(nodes: Nodes, look: Open) -> None:
    def well(status: Status) -> None:
        status["events"] = [e for e in status["events"] if e["what"] == "joined"]
        for member in status["members"]:
            member.update(HEALTHY)

    page = opened(look, nodes, well)
    expect(page.locator("#headline")).to_have_text("No issues")
    expect(page.locator("#serving")).to_contain_text("3 of 3 members serve pages")
    expect(page.locator("#attention-list li")).to_have_count(0)


def test_rails_show_their_share_of_line_rate_and_what_fell_back(nodes: Nodes, look: Open) -> None:
    def railed(status: Status) -> None:
        rail = {
            "name": "mlx5_0:1", "up": True, "why": "", "numa_node": 0, "queue_pair_failures": 0,
            "line_rate_bytes_per_second": 50e9,
        }  # fmt: skip
        down = {**rail, "name": "mlx5_1:1", "up": False, "why": "its port is down"}
        status["transport"] |= {"kind": "rdma", "rails": [rail, down]}
        status["fleet"]["rails"] |= {"total": 2, "up": 1}
        if "activity" in status:
            status["activity"]["rails"] = [
                {"name": "mlx5_0:1", "up": True, "read_bytes_per_second": 20e9}
            ]
        status["fleet"]["activity"]["delivered"] |= {"tcp": 10, "rdma": 90}

    page = opened(look, nodes, railed)
    rows = page.locator("#rails tbody tr")
    expect(rows.first).to_contain_text("40.0% of 50 GB/s")
    expect(rows.nth(1)).to_contain_text("down: its port is down")
    expect(tile(page, "TCP instead of rails")).to_have_text("10.0%")


def test_events_are_folded_and_the_last_one_is_seen(nodes: Nodes, look: Open) -> None:
    page = look(nodes.host)
    expect(page.locator("#events-last")).to_contain_text("the last: ")
    expect(page.locator("#events")).to_be_hidden()
    page.locator("#events-section summary").press("Enter")
    expect(page.locator("#events")).to_be_visible()

"""What the members that stay still find of a member's pages after it has left, by drain-budget."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from ..patience import HANG_SECONDS
from . import pages
from .conftest import Report
from .network import loopback
from .nodes import Fleet

EACH = 600
# The first pages of the member are read more often than its others.
OFTEN = 200
PAGES_OFTEN = OFTEN * pages.PAGE_BYTES
HEADER = f"{'drain-budget':<22} {'read often':>11} {'the others':>11} {'seconds to leave':>17}"


@pytest.mark.node
@pytest.mark.parametrize(
    ("budget", "often", "others"),
    [(0, 0, 0), (PAGES_OFTEN, 1, 0), (EACH * pages.PAGE_BYTES, 1, 1)],
    ids=["nothing", "what is read often", "all"],
)
def test_a_member_leaves_what_is_read_most_to_the_others(
    tmp_path: Path, report: Report, budget: int, often: float, others: float
) -> None:
    fleet = Fleet(tmp_path, None, loopback(3), EACH, drain_budget=str(budget))
    try:
        fleet.start()
        fleet.wait_full()  # each page was read as often by then
        reader = fleet.engines[0]
        for _ in range(5):
            fleet.engines[2].ask("get", first=2 * pages.HOLDER_STRIDE, count=OFTEN)
        leaver = fleet.nodes.pop(2)
        fleet.engines.pop(2).kill()
        begun = time.monotonic()
        leaver.signal(signal.SIGTERM)
        assert leaver.popen.wait(HANG_SECONDS) == 0, leaver.output()
        took = time.monotonic() - begun

        def share(first: int, count: int) -> float:
            return reader.hits(2 * pages.HOLDER_STRIDE + first, count) / count

        hot, cold = share(0, OFTEN), share(OFTEN, EACH - OFTEN)
        name = f"{budget / 2**20:.1f} MiB of {EACH * pages.PAGE_BYTES / 2**20:.1f}"
        report.add(HEADER, f"{name:<22} {hot:>11.2f} {cold:>11.2f} {took:>17.1f}")
        assert abs(hot - often) <= 0.05
        assert abs(cold - others) <= 0.05
    finally:
        fleet.stop()

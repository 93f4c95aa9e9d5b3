"""Large clusters and rare troubles for the page: what a real member answers, changed on its way."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Page, Route

Status = dict[str, Any]
Change = Callable[[Status], None]


def changed(page: Page, change: Change) -> None:
    """From now on the page gets statuses with ``change``."""

    def handle(route: Route) -> None:
        answer = route.fetch()
        status = answer.json()
        change(status)
        route.fulfill(response=answer, body=json.dumps(status))

    page.unroute_all()
    page.route("**/v1/status", handle)


def grow(status: Status, members: int) -> None:
    """More members, eight to a machine, like the real ones; one is unreachable, one drains."""
    real = status["members"]
    for number in range(len(real), members):
        member = copy.deepcopy(real[number % len(real)])
        member["id"] = f"gpu-{number // 8 + 1:03}.numa{number % 8}"
        if activity := member.get("health", {}).get("activity"):
            activity["machine"] = f"{number // 8 + 1000:08x}"
            activity["read_bytes_per_second"] *= (number % 97) / 50
        real.append(member)
    real[-1]["reachable"] = False
    real[-2]["state"] = "draining"
    status["fleet"]["members"] = members
    status["fleet"]["states"]["active"] = members

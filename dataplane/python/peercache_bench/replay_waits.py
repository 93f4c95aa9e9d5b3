"""Where the time to a first token went. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from peercache_bench.replay_arm import FROZEN, KILLED, Result
from peercache_bench.replay_client import Answer

Interval = tuple[float, float]


@dataclass(frozen=True)
class Parts:
    """Seconds; together the time to the first token."""

    others: float  # the scheduler computed other prompts and tokens
    pages: float  # it had nothing to compute, and waited for pages of L3
    own: float  # the prefill of the prompt
    rest: float  # HTTP, the scheduler itself, and processors that are late


def overlap(one: Interval, passes: Sequence[Interval]) -> float:
    """Seconds of ``one`` that the passes cover, which do not overlap each other."""
    return sum(max(0.0, min(one[1], end) - max(one[0], start)) for start, end in passes)


def passes(reports: Sequence[dict[str, float]]) -> list[Interval]:
    """Forward passes of one server."""
    return [(line["at"], line["at"] + line["took"]) for line in reports if "took" in line]


def parts(answer: Answer, forwards: Sequence[Interval]) -> Parts:
    """``forwards``: of the server that answered."""
    sent = answer.span.sent
    taken = sent + answer.before_queue
    begun = taken + answer.queued
    others = overlap((sent, begun), forwards)
    pages = answer.waited - overlap((taken, taken + answer.waited), forwards)
    return Parts(
        others, max(0.0, pages), answer.computed, answer.ttft - others - pages - answer.computed
    )


def slowest(result: Result, servers: Sequence[int], share: float) -> list[tuple[int, Parts]]:
    """The slowest requests, by number, with the parts of their times. ``servers``: of each."""
    forwards = [passes(reports) for reports in result.reports]
    order = sorted(range(len(servers)), key=lambda i: result.answers[i].ttft)
    chosen = order[-max(1, round(share * len(order))) :]
    return [(i, parts(result.answers[i], forwards[servers[i]])) for i in chosen]


def by_fault(result: Result, servers: Sequence[int]) -> dict[str, list[Answer]]:
    """Requests that were sent while a member was frozen, by the fate of their server's member."""
    names = {KILLED: "killed", FROZEN: "frozen"}
    count = len(result.reports)
    of = {(count + place): name for place, name in names.items()}
    found: dict[str, list[Answer]] = {}
    began, ended = result.frozen
    for answer, server in zip(result.answers, servers, strict=True):
        if began <= answer.span.sent < ended:
            found.setdefault(of.get(server, "neither"), []).append(answer)
    return found

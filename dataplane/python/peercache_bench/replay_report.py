"""What a replay shows: a table, the chart of TTFT, and where the slowest requests waited. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from peercache_bench import tables
from peercache_bench.charts import Chart, Line
from peercache_bench.errors import BenchError
from peercache_bench.replay_arm import ARMS, Result, Setup
from peercache_bench.replay_client import digest
from peercache_bench.replay_requests import Request, oracle
from peercache_bench.replay_servers import L2_RATIO, PAGE_TOKENS
from peercache_bench.replay_waits import by_fault, slowest
from peercache_bench.units import KIB

TITLE = "modelled forward, measured cache"
# A sleep that is late by more than this share, or processors with less rest: the CPU binds.
LATE, BUSY = 0.05, 0.85
SLOWEST = 0.02  # of the requests, whose times are taken apart
_PARTS = ("others", "pages", "own", "rest")


def quantile(values: Sequence[float], share: float) -> float:
    """By nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def prefills(result: Result) -> list[dict[str, float]]:
    return [line for lines in result.reports for line in lines if line.get("prefill")]


def gets(result: Result) -> list[dict[str, float]]:
    return [line for lines in result.reports for line in lines if "slept" in line]


def late(result: Result) -> float:
    """Share by which prefills took longer than was modelled."""
    found = prefills(result)
    return sum(p["took"] for p in found) / max(1e-9, sum(p["seconds"] for p in found)) - 1


def checked(result: Result) -> int:
    """Rows of cached tokens that were compared."""
    return int(sum(p["checked"] for p in prefills(result)))


def summary(result: Result) -> str:
    ttft = [a.ttft for a in result.answers]
    return (
        f"{result.arm}: TTFT p50 {1e3 * quantile(ttft, 0.5):.0f}, "
        f"p99 {1e3 * quantile(ttft, 0.99):.0f} ms; {checked(result)} cached rows, 0 wrong"
    )


def same_outputs(results: Sequence[Result]) -> str:
    """The digest that all arms have. Raises BenchError: wrong KV shows there."""
    found = {result.arm: digest(result.answers) for result in results}
    if len(set(found.values())) != 1:
        raise BenchError(f"WRONG BYTES: outputs of arms differ: {found}")
    return next(iter(found.values()))


def warnings(results: Sequence[Result]) -> list[str]:
    return [
        f"{r.arm}: the CPU binds: processors were busy for {100 * r.busy:.0f} % of the time, and "
        f"prefills took {100 * late(r):.1f} % longer than modelled. Use fewer servers, or a lower "
        "--speed"
        for r in results
        if late(r) > LATE or r.busy > BUSY
    ]


def document(
    made: Sequence[Request], results: Sequence[Result], setup: Setup, model: Mapping[str, float]
) -> str:
    tokens = sum(request.prompt.tokens for request in made)
    lines = [
        f"# TTFT by cache: {TITLE}", "",
        f"{len(made)} requests in {made[-1].at:.0f} s, {tokens / 1e6:.2f} M tokens, to "
        f"{setup.servers} servers by chance. Each has a GPU pool of {setup.own_tokens} tokens "
        f"and an L2 of {L2_RATIO * setup.own_tokens}.",
        "",
        f"Modelled: a prefill takes {model['constant']:.3g} s + {1e6 * model['linear']:.3g} us x "
        f"new + {1e12 * model['quadratic']:.3g} ps x new x (new + 2 x prefix). Pages of L3 take "
        f"{model['bytes_per_token'] / KIB:.0f} KiB a token at {model['link'] / 1e9:.3g} GB/s for "
        "each server, after the real read of a smaller model.",
        "",
        _ttft(results, tokens), "",
        f"## The slowest {100 * SLOWEST:.0f} %", "", _slowest(made, results), "",
        *_faults(made, results),
        "## What was checked", "",
        *(f"- {text}" for text in _facts(made, results, setup, tokens)),
        *(f"- Warning: {text}." for text in warnings(results)),
    ]  # fmt: skip
    return "\n".join(lines)


def _ttft(results: Sequence[Result], tokens: int) -> str:
    rows = []
    for r in results:
        ttft = [1e3 * a.ttft for a in r.answers]
        cached = sum(a.cached for a in r.answers)
        host, stored = sum(a.host for a in r.answers), sum(a.stored for a in r.answers)
        shares = (cached, cached - host - stored, host, stored)
        rows.append([
            ARMS[r.arm], f"{sum(ttft) / len(ttft):.0f}",
            *(f"{quantile(ttft, share):.0f}" for share in (0.5, 0.9, 0.99)),
            *(f"{100 * n / tokens:.1f} %" for n in shares),
            f"{sum(p['seconds'] for p in prefills(r)):.0f} s",
        ])  # fmt: skip
    header = [
        "caches", "TTFT mean, ms", "p50", "p90", "p99", "cached", "GPU", "L2", "PeerCache",
        "prefill, all servers",
    ]  # fmt: skip
    return tables.markdown(header, rows)


def _slowest(made: Sequence[Request], results: Sequence[Result]) -> str:
    rows = []
    for r in results:
        slow = slowest(r, [request.server for request in made], SLOWEST)
        ttft = [r.answers[i].ttft for i, _ in slow]
        new = [made[i].prompt.tokens - r.answers[i].cached for i, _ in slow]
        means = [
            _mean(ttft), *(_mean([getattr(parts, name) for _, parts in slow]) for name in _PARTS)
        ]  # fmt: skip
        rows.append([ARMS[r.arm], *(f"{1e3 * mean:.0f}" for mean in means), f"{_mean(new):.0f}"])
    header = [
        "caches", "TTFT mean, ms", "other requests computed", "waited for pages, else idle",
        "own prefill", "rest", "tokens computed",
    ]  # fmt: skip
    return tables.markdown(header, rows)


def _faults(made: Sequence[Request], results: Sequence[Result]) -> list[str]:
    found = [
        (name, answers)
        for r in results
        for name, answers in sorted(by_fault(r, [request.server for request in made]).items())
    ]
    if not found:
        return []
    rows = []
    for name, answers in found:
        waited = [1e3 * a.waited for a in answers]
        ttft = [1e3 * a.ttft for a in answers]
        rows.append([
            name, str(len(answers)), f"{quantile(waited, 0.5):.0f}", f"{max(waited):.0f}",
            f"{quantile(ttft, 0.5):.0f}", f"{max(ttft):.0f}",
            f"{sum(a.stored for a in answers)}",
        ])  # fmt: skip
    header = [
        "member of the server", "requests", "wait for pages p50, ms", "longest", "TTFT p50",
        "longest", "tokens from PeerCache",
    ]  # fmt: skip
    return ["## While a member is frozen", "", tables.markdown(header, rows), ""]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _facts(
    made: Sequence[Request], results: Sequence[Result], setup: Setup, tokens: int
) -> list[str]:
    facts = [f"Outputs of all arms are the same: {same_outputs(results)}."]
    for r in results:
        slept = sum(line["slept"] for line in gets(r))
        real = [line["real"] for line in gets(r)]
        text = (
            f"{r.arm}: {checked(r)} cached rows compared, 0 wrong; processors busy "
            f"{100 * r.busy:.0f} %, prefills {100 * late(r):.1f} % late"
        )
        if slept:
            text += (
                f"; {len(real)} reads took {1e3 * quantile(real, 0.5):.1f} ms at p50 and "
                f"{1e3 * quantile(real, 0.99):.0f} at p99, and bytes of the real model took "
                f"{slept:.1f} s in all"
            )
        if r.arm == "peercache":
            want = _oracle(made, r, setup)
            got = sum(a.cached for a in r.answers)
            text += (
                f"; {100 * got / tokens:.1f} % cached, where a cache without bounds has "
                f"{100 * want / tokens:.1f} %; {r.evictions} pages evicted"
            )
        missed = {reason: pages for reason, pages in sorted(r.missed.items()) if pages}
        if missed:
            text += "; pages missed: " + ", ".join(f"{n} {name}" for name, n in missed.items())
        facts.append(text + ".")
    return facts


def _oracle(made: Sequence[Request], result: Result, setup: Setup) -> int:
    spans = [answer.span for answer in result.answers]
    return oracle(made, spans, setup.block_tokens, PAGE_TOKENS)


def picture(results: Sequence[Result]) -> Chart:
    """Share of requests that had their first token after so long."""
    lines = []
    for r in results:
        ordered = sorted(1e3 * a.ttft for a in r.answers)
        points = [(ms, 100 * (i + 1) / len(ordered)) for i, ms in enumerate(ordered)]
        lines.append(Line(ARMS[r.arm], points))
    return Chart(
        "ttft", f"Time to first token ({TITLE})", "ms", "% of requests", tuple(lines), log_x=True
    )


def values(
    made: Sequence[Request], results: Sequence[Result], setup: Setup, model: Mapping[str, float]
) -> dict[str, Any]:
    return {
        "schema": 1,
        "title": TITLE,
        "setup": {**asdict(setup), "build": str(setup.build)},
        "model": dict(model),
        "outputs": same_outputs(results),
        "arms": [
            {
                "arm": r.arm, "busy": r.busy, "late": late(r), "checked_rows": checked(r),
                "oracle": _oracle(made, r, setup), "evictions": r.evictions,
                "missed": r.missed,
                "requests": [
                    {"at": request.at, "server": request.server, "tokens": request.prompt.tokens,
                     **asdict(answer)}
                    for request, answer in zip(made, r.answers, strict=True)
                ],
            }
            for r in results
        ],
    }  # fmt: skip

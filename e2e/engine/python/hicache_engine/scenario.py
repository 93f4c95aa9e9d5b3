"""Scenarios: what a test asks of an engine, as one JSON object in and one out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hicache_engine.cache import Cache
from hicache_engine.flags import Flags

# Rounds of a load that are reported: of equal ones in a row the first. The totals count all.
_MAX_ROUNDS = 500
# Wrong pages of a load that are named.
_MAX_WRONG = 5

# How often loads were stopped: a load goes on while it is what it was at its begin.
_stops = 0


@dataclass(frozen=True)
class Request:
    kind: str
    layout: str
    v1: bool
    seed: int
    pages: int
    seconds: float
    sha256s: list[str]

    @classmethod
    def parse(cls, body: Mapping[str, Any]) -> Request:
        known = {"kind", "layout", "v1", "seed", "pages", "seconds", "sha256s"}
        unknown = sorted(set(body) - known)
        if unknown:
            raise ValueError(f"unknown keys {unknown}; known: {sorted(known)}")
        return cls(
            kind=str(body.get("kind", "mha")),
            layout=str(body.get("layout", "page_first")),
            v1=bool(body.get("v1", True)),
            seed=int(body.get("seed", 1)),
            pages=int(body.get("pages", 300)),
            seconds=float(body.get("seconds", 5)),
            sha256s=list(body.get("sha256s", [])),
        )


def write(flags: Flags, request: Request) -> dict[str, Any]:
    """Backs pages up: {backup, sha256s, seconds, ...}."""
    with _cache(flags, request) as cache:
        started = time.perf_counter()
        done = cache.backup(request.seed, request.pages)
        return {
            "backup": done.prefetched,
            "sha256s": done.sha256s,
            "seconds": time.perf_counter() - started,
            **_common(cache),
        }


def read(flags: Flags, request: Request) -> dict[str, Any]:
    """Prefetches pages: {hit, prefetched, sha256s, seconds, ...}."""
    with _cache(flags, request) as cache:
        cache.scribble()
        started = time.perf_counter()
        done = cache.prefetch(request.seed, request.pages)
        return {
            "hit": done.hit,
            "prefetched": done.prefetched,
            "sha256s": done.sha256s,
            "seconds": time.perf_counter() - started,
            **_common(cache),
        }


def clear(flags: Flags, request: Request) -> dict[str, Any]:
    """Drops the pages of the model and tag: {cleared}."""
    with _cache(flags, request) as cache:
        cleared = cache.controller.storage_backend.clear()
        return {"cleared": bool(cleared), **_common(cache)}


def load(flags: Flags, request: Request) -> dict[str, Any]:
    """Reads the same pages for ``seconds`` and checks every byte against ``sha256s``.

    Whoever asked reports what is wrong: {wrong, wrong_pages: [{page, got, want}, ...]}.
    """
    expected = request.sha256s
    wrong_pages: list[dict[str, Any]] = []

    def one(cache: Cache) -> dict[str, int]:
        cache.scribble()
        done = cache.prefetch(request.seed, request.pages)
        wrong = [
            {"page": page, "got": got, "want": want}
            for page, (got, want) in enumerate(zip(done.sha256s, expected, strict=False))
            if got != want
        ]
        wrong_pages.extend(wrong[: _MAX_WRONG - len(wrong_pages)])
        return {"pages": len(done.sha256s), "wrong": len(wrong)}

    if len(expected) != request.pages:
        raise ValueError(f"{len(expected)} sha256s for {request.pages} pages: pass those of /write")
    return {**_repeat(flags, request, one), "wrong_pages": wrong_pages}


def load_write(flags: Flags, request: Request) -> dict[str, Any]:
    """Writes fresh pages for ``seconds``: seeds follow ``seed``."""
    seed = request.seed

    def one(cache: Cache) -> dict[str, int]:
        nonlocal seed
        seed += 1
        done = cache.backup(seed, request.pages)
        return {"pages": done.prefetched // flags.page_size, "wrong": 0}

    return _repeat(flags, request, one)


def stop(_flags: Flags, _request: Request) -> dict[str, Any]:
    """Ends the loads that run now, after the round that they are in: {stops}."""
    global _stops
    _stops += 1
    return {"stops": _stops}


def _repeat(
    flags: Flags, request: Request, one: Callable[[Cache], dict[str, int]]
) -> dict[str, Any]:
    rounds: list[dict[str, float]] = []
    totals = {"rounds": 0, "pages": 0, "wrong": 0, "empty_rounds": 0, "full_rounds": 0}
    stops = _stops
    with _cache(flags, request) as cache:
        begin = time.monotonic()
        while (now := time.monotonic() - begin) < request.seconds and stops == _stops:
            result = one(cache)
            totals["rounds"] += 1
            totals["pages"] += result["pages"]
            totals["wrong"] += result["wrong"]
            totals["empty_rounds"] += result["pages"] == 0
            totals["full_rounds"] += result["pages"] == request.pages
            rounds.append({"at": round(now, 3), **result})
        return {
            **totals,
            "last": rounds[-1] if rounds else None,
            "timeline": timeline(rounds),
            **_common(cache),
        }


def timeline(rounds: list[dict[str, float]]) -> list[dict[str, float]]:
    """The rounds that differ from the one before, and the last one, which says when it ended.

    A call that times out is one slow round among many fast ones, and would be lost in a sample.
    """
    kept = [
        each
        for at, each in enumerate(rounds)
        if at in (0, len(rounds) - 1) or each["pages"] != rounds[at - 1]["pages"]
    ]
    step = max(1, -(-len(kept) // _MAX_ROUNDS))
    return kept[:-1:step] + kept[-1:]


def _cache(flags: Flags, request: Request) -> Cache:
    return Cache(flags, request.kind, request.layout, request.v1, request.pages + 1)


def _common(cache: Cache) -> dict[str, Any]:
    return {
        "calls": cache.calls,
        "max_call_seconds": round(cache.max_call_seconds, 4),
        "shared_memory": cache.pool.fd is not None,
        "stats": cache.stats(),
    }

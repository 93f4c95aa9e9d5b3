"""An engine for these tests: many calls, every byte of every hit checked, every call logged.

    python -m tests.fleet.engine EXTENSION_FOLDER SOCKET NAME

Reads one JSON command per line on stdin and answers each with one line:

    {"do": "set", "first": 0, "count": 100}           {"stored": 100}
    {"do": "get", "first": 0, "count": 100}           {"hits": 100, "wrong": 0}
    {"do": "exists", "first": 0, "count": 100}        {"found": 100}
    {"do": "turns", "first": 0, "turns": 9}           {"set": [0.001, ...], "get": [...], ...}
        a set of new pages and a get of them, again and again; the seconds that each call took
    {"do": "prefill", "tokens_per_second": 9000}      {}
    {"do": "prompts", "first": 0, "prompts": 9}
        {"seconds": 1.5, "waited": [0.001, ...], "found": 90, "hits": 80, "wrong": 0}
        each looks its BATCH pages up, gets what was found and computes the rest, which takes time
    {"do": "clear"}                                   {"reason": ""}   or who has not heard
    {"do": "load", "holders": [[0, 100], ...], ...}   {}   calls until "stop", in threads:
        "refill": pages that missed are set; "anywhere": sets are of the pages that all read
    {"do": "stop", "log": "file.npy"}                 {"calls": 12345}

Ends with its stdin.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import mmap
import os
import random
import sys
import threading
import time
from typing import Any

import numpy as np

from . import calls, pages

NAMESPACE = hashlib.sha256(b"fault tests").digest()
TAG = 1
BATCH = 16
# The default of SGLang's engines, above the node's peer-timeout-ms: a peer that is slow must not
# look like an own node that does not answer.
TIMEOUT_MS = 1500
# Of own pages that each thread sets during a load, round and round.
FRESH_PAGES = 64
FRESH_OFFSET = 500_000
# Prompts have so many tokens a page, which this engine takes so long to compute.
PAGE_TOKENS = 64
PAGE_SECONDS = 0.02
DETAILS_PRINTED = 20
MOST_SEARCHED = 10_000  # pages, for the one that wrong bytes are of


class Buffer:
    """Pages of shared memory that the node reads and writes."""

    def __init__(self, client: Any, count: int) -> None:
        size = count * pages.PAGE_BYTES
        fd = os.memfd_create("engine")
        os.ftruncate(fd, size)
        memory = mmap.mmap(fd, size)
        base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        self.words = np.frombuffer(memory, dtype=np.uint64).reshape(count, pages.WORDS)
        reason = client.register_region(fd, base, size)
        if reason:
            raise SystemExit(f"register_region: {reason}")
        os.close(fd)
        self._starts = [base + i * pages.PAGE_BYTES for i in range(count)]

    def pointers(self, count: int) -> tuple[list[int], list[int]]:
        first = pages.SEGMENTS[0]
        starts = [(start, start + first) for start in self._starts[:count]]
        return [p for pair in starts for p in pair], list(pages.SEGMENTS) * count


class Caller:
    """One thread's buffer, and checked calls with it."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.buffer = Buffer(client, BATCH)
        self.details = 0
        self.spare = Buffer(client, 1)  # for what is read again
        self.before = "nothing"  # the call before the present one
        self.took = 0.0  # by that

    def set(self, numbers: list[int]) -> list[bool]:
        for i, number in enumerate(numbers):
            self.buffer.words[i] = pages.content(number)
        pointers, sizes = self.buffer.pointers(len(numbers))
        keys = [pages.key(n) for n in numbers]
        start = time.monotonic()
        stored = list(self.client.set(NAMESPACE, TAG, keys, pointers, sizes))
        self._done("set", numbers, stored, time.monotonic() - start)
        return stored

    def get(self, numbers: list[int]) -> tuple[list[bool], int, float]:
        """Which were hits, how many of them had wrong bytes, and the seconds the call took."""
        self.buffer.words[: len(numbers)] = pages.POISON
        pointers, sizes = self.buffer.pointers(len(numbers))
        keys = [pages.key(n) for n in numbers]
        start = time.monotonic()
        found = list(self.client.get(NAMESPACE, keys, pointers, sizes, PAGE_TOKENS))
        took = time.monotonic() - start
        wrong = 0
        for i, number in enumerate(numbers):
            if found[i] and not pages.matches(self.buffer.words[i], number):
                wrong += 1
                self._print(i, numbers, found, start, took)
        self._done("get", numbers, found, took)
        return found, wrong, took

    def _done(self, what: str, numbers: list[int], ok: list[bool], took: float) -> None:
        self.took = took
        calls = [f"{number}{'' if good else '-'}" for number, good in zip(numbers, ok, strict=True)]
        self.before = f"{what} in {took * 1e3:.1f} ms of {' '.join(calls)}"

    def _print(
        self, i: int, numbers: list[int], found: list[bool], start: float, took: float
    ) -> None:
        """What was wrong, and all that may tell why."""
        self.details += 1
        if self.details > DETAILS_PRINTED:
            return
        words = self.buffer.words[i].copy()
        first = numbers[i] - numbers[i] % pages.HOLDER_STRIDE
        before = self.before
        self._done("get", numbers, found, took)
        later = []
        for _ in range(3):
            pointers, sizes = self.spare.pointers(1)
            self.spare.words[0] = pages.POISON
            again = self.client.get(NAMESPACE, [pages.key(numbers[i])], pointers, sizes)
            right = pages.matches(self.spare.words[0], numbers[i])
            later.append("a miss" if not again[0] else "right" if right else "wrong")
        print(
            f"{pages.describe(words, numbers[i], range(first, first + MOST_SEARCHED))}\n"
            f"  at {start:.4f}, page {i} of a {self.before}\n  before it: {before}\n"
            f"  then it was {', '.join(later)}; still wrong here: "
            f"{not pages.matches(self.buffer.words[i], numbers[i])}",
            file=sys.stderr,
            flush=True,
        )


class Load(threading.Thread):
    """Calls until it is told to stop."""

    def __init__(self, client: Any, number: int, command: dict[str, Any]) -> None:
        super().__init__(daemon=True)
        self.caller = Caller(client)
        self.holders: list[tuple[int, int]] = [tuple(pair) for pair in command["holders"]]
        self.pause = float(command.get("pause", 0.002))
        self.writes = float(command.get("writes", 0.1))
        self.exists = float(command.get("exists", 0.1))
        own = int(command.get("own", 0))
        self.fresh = own * pages.HOLDER_STRIDE + FRESH_OFFSET + number * FRESH_PAGES
        self.own = own
        self.refill = bool(command.get("refill", False))
        self.anywhere = bool(command.get("anywhere", False))
        self.random = random.Random(f"{command.get('seed', own)} {number}")
        self.log = calls.Log()
        self.stopping = threading.Event()

    def run(self) -> None:
        while not self.stopping.wait(self.pause):
            choice = self.random.random()
            if choice < self.writes:
                self._set()
            elif choice < self.writes + self.exists:
                self._exists()
            else:
                self._get()

    def _pick(self) -> tuple[list[int], list[int]]:
        holders = [self.random.randrange(len(self.holders)) for _ in range(BATCH)]
        numbers = [
            holder * pages.HOLDER_STRIDE + self.holders[holder][0]
            + self.random.randrange(self.holders[holder][1])
            for holder in holders
        ]  # fmt: skip
        return holders, numbers

    def _get(self) -> None:
        holders, numbers = self._pick()
        start = time.monotonic()
        found, wrong, took = self.caller.get(numbers)
        asked, hits = [0] * calls.MOST_HOLDERS, [0] * calls.MOST_HOLDERS
        for holder, hit in zip(holders, found, strict=True):
            asked[holder] += 1
            hits[holder] += hit
        self.log.append((start, took, calls.GET, asked, hits, wrong))
        missed = [number for number, hit in zip(numbers, found, strict=True) if not hit]
        if self.refill and missed:
            start = time.monotonic()
            self._note(start, calls.SET, len(missed), sum(self.caller.set(missed)))

    def _exists(self) -> None:
        _, numbers = self._pick()
        start = time.monotonic()
        found = self.caller.client.exists(NAMESPACE, [pages.key(n) for n in numbers])
        self._note(start, calls.EXISTS, len(numbers), found)

    def _set(self) -> None:
        if self.anywhere:
            numbers = self._pick()[1]
        else:
            numbers = [self.fresh + self.random.randrange(FRESH_PAGES) for _ in range(4)]
        start = time.monotonic()
        stored = self.caller.set(numbers)
        self._note(start, calls.SET, len(numbers), sum(stored))

    def _note(self, start: float, op: int, asked: int, hits: int) -> None:
        took = time.monotonic() - start
        counts = [[0] * calls.MOST_HOLDERS, [0] * calls.MOST_HOLDERS]
        counts[0][self.own], counts[1][self.own] = asked, hits
        self.log.append((start, took, op, counts[0], counts[1], 0))


class Engine:
    """Carries out commands."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.caller = Caller(client)
        self.threads: list[Load] = []

    def set(self, command: dict[str, Any]) -> dict[str, Any]:
        return {"stored": sum(sum(self.caller.set(part)) for part in _batches(command))}

    def get(self, command: dict[str, Any]) -> dict[str, Any]:
        hits = wrong = 0
        for part in _batches(command):
            found, bad, _ = self.caller.get(part)
            hits += sum(found)
            wrong += bad
        return {"hits": hits, "wrong": wrong}

    def exists(self, command: dict[str, Any]) -> dict[str, Any]:
        found = 0
        for part in _batches(command):
            found += self.client.exists(NAMESPACE, [pages.key(n) for n in part])
        return {"found": found}

    def turns(self, command: dict[str, Any]) -> dict[str, Any]:
        took: dict[str, list[float]] = {"set": [], "get": []}
        stored = hits = wrong = 0
        for turn in range(command["turns"]):
            first = command["first"] + turn * BATCH
            numbers = list(range(first, first + BATCH))
            stored += sum(self.caller.set(numbers))
            took["set"].append(self.caller.took)
            found, bad, _ = self.caller.get(numbers)
            took["get"].append(self.caller.took)
            hits += sum(found)
            wrong += bad
        return {**took, "stored": stored, "hits": hits, "wrong": wrong}

    def prefill(self, command: dict[str, Any]) -> dict[str, Any]:
        self.client.set_prefill(command["tokens_per_second"])
        return {}

    def prompts(self, command: dict[str, Any]) -> dict[str, Any]:
        found = hits = wrong = 0
        waited: list[float] = []
        start = time.monotonic()
        for prompt in range(command["prompts"]):
            first = command["first"] + prompt * BATCH
            numbers = list(range(first, first + BATCH))
            asked = time.monotonic()
            keys = [pages.key(n) for n in numbers]
            there = self.client.exists(NAMESPACE, keys, PAGE_TOKENS)
            got, bad, _ = self.caller.get(numbers[:there]) if there else ([], 0, 0.0)
            waited.append(time.monotonic() - asked)
            # KV is computed from the first page that is not there.
            usable = next((i for i, ok in enumerate(got) if not ok), len(got))
            time.sleep((BATCH - usable) * PAGE_SECONDS)
            found, hits, wrong = found + there, hits + usable, wrong + bad
        seconds = time.monotonic() - start
        return {"seconds": seconds, "waited": waited, "found": found, "hits": hits, "wrong": wrong}

    def clear(self, command: dict[str, Any]) -> dict[str, Any]:
        return {"reason": self.client.clear(TAG)}

    def load(self, command: dict[str, Any]) -> dict[str, Any]:
        self.threads = [
            Load(self.client, number, command) for number in range(command.get("threads", 3))
        ]
        for thread in self.threads:
            thread.start()
        return {}

    def stop(self, command: dict[str, Any]) -> dict[str, Any]:
        for thread in self.threads:
            thread.stopping.set()
        for thread in self.threads:
            thread.join()
        log = np.concatenate([thread.log.calls() for thread in self.threads])
        np.save(command["log"], log)
        self.threads = []
        return {"calls": len(log)}


def _batches(command: dict[str, Any]) -> list[list[int]]:
    first, count = command["first"], command["count"]
    numbers = list(range(first, first + count))
    return [numbers[at : at + BATCH] for at in range(0, count, BATCH)]


def main() -> None:
    folder, socket, name, timeout_ms = sys.argv[1:5]
    sys.path.insert(0, folder)
    import _peercache

    client, reason = _peercache.connect(socket, name, int(timeout_ms), 4 << 20)
    if client is None:
        raise SystemExit(f"connect: {reason}")
    engine = Engine(client)
    print(json.dumps({}), flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        print(json.dumps(getattr(engine, command["do"])(command)), flush=True)


if __name__ == "__main__":
    main()

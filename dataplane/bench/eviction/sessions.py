#!/usr/bin/env python3
"""Writes a trace of prefix-shared sessions: what a pool of KV pages is asked for by a busy service.

    sessions.py --requests 16000 --seed 1 > sessions.trace
    sessions.py --requests 16000 --seed 1 --documents 0.12 > documents.trace

Tenants of Zipf popularity each have a system prompt, which all their sessions begin with. A session
is a conversation of several turns: every request repeats the whole conversation so far, so that its
pages are a growing prefix. Users think for a while between turns; some come back much later.
Documents are long prompts that are asked about once, seldom twice, and come in jobs of many: a
scan, as caches call it.

The same arguments give the same trace on every machine. A trace is text:

    # comment
    KIND FIRST:COUNT [FIRST:COUNT...] [+FIRST:COUNT]

One line per request in order of time. KIND is c (conversation) or d (document). FIRST:COUNT are the
numbers of consecutive pages; all together are the prompt. +FIRST:COUNT are the pages of the answer,
which are stored but not asked for by this request.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import math
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass

PAGE_TOKENS = 64  # SGLang's page size with HiCache

TENANTS = 1500
ZIPF_EXPONENT = 1.0
ANOTHER_TURN = 0.8  # probability: five turns on average
THINKING = 60.0  # seconds between answer and next question, on average
COMES_BACK = 0.15  # of the pauses are long:
LONG_PAUSE = 1800.0
SESSIONS_PER_SECOND = 1.0
DOCUMENTS_PER_JOB = 40.0
DOCUMENTS_PER_SECOND = 5.0  # within a job
ASKED_AGAIN = 0.15  # of the documents, soon after

# Tokens: (median, sigma) of log-normal distributions.
SYSTEM_PROMPT = (3000, 0.8)  # with tools and examples
QUESTION = (150, 1.1)
ANSWER = (300, 0.8)
DOCUMENT = (30_000, 0.5)
MOST_TOKENS = 128_000


@dataclass
class Session:
    """One conversation, or one document and the questions about it."""

    kind: str
    system: tuple[int, int]  # first page and number of pages
    first: int  # page
    tokens: int = 0  # of the conversation so far


def zipf_weights(count: int, exponent: float) -> list[float]:
    return list(itertools.accumulate(1 / rank**exponent for rank in range(1, count + 1)))


class Generator:
    def __init__(self, seed: int, documents: float) -> None:
        self.random = random.Random(seed)
        self.next_page = 0
        self.documents = documents
        self.tenants = [self.take(self.pages(self.length(SYSTEM_PROMPT))) for _ in range(TENANTS)]
        self.weights = zipf_weights(TENANTS, ZIPF_EXPONENT)

    def take(self, count: int) -> tuple[int, int]:
        first = self.next_page
        self.next_page += count
        return first, count

    def length(self, distribution: tuple[float, float]) -> int:
        median, sigma = distribution
        tokens = median * math.exp(self.random.gauss(0, sigma))
        return int(min(max(tokens, 1), MOST_TOKENS))

    @staticmethod
    def pages(tokens: int) -> int:
        return tokens // PAGE_TOKENS

    def tenant(self) -> tuple[int, int]:
        return self.random.choices(self.tenants, cum_weights=self.weights)[0]

    def start(self, kind: str) -> Session:
        # Numbers are set aside for the longest session, so that its pages are consecutive.
        first, _ = self.take(self.pages(MOST_TOKENS))
        return Session(kind, self.tenant(), first)

    def turn(self, session: Session) -> str:
        """The line of the session's next request."""
        grown = self.length(DOCUMENT if session.kind == "d" and session.tokens == 0 else QUESTION)
        session.tokens = min(session.tokens + grown, MOST_TOKENS)
        prompt = self.pages(session.tokens)
        session.tokens = min(session.tokens + self.length(ANSWER), MOST_TOKENS)
        answer = self.pages(session.tokens) - prompt
        runs = [session.system, (session.first, prompt)]
        line = " ".join(f"{first}:{count}" for first, count in runs if count > 0)
        if answer > 0:
            line += f" +{session.first + prompt}:{answer}"
        return f"{session.kind} {line}"

    def pause(self, session: Session) -> float | None:
        """Seconds until the session's next request, or none."""
        if self.random.random() >= (ASKED_AGAIN if session.kind == "d" else ANOTHER_TURN):
            return None
        long = session.kind == "c" and self.random.random() < COMES_BACK
        return self.random.expovariate(1 / (LONG_PAUSE if long else THINKING))

    def conversations(self) -> Iterator[tuple[float, Session]]:
        now = 0.0
        while True:
            yield now, self.start("c")
            now += self.random.expovariate(SESSIONS_PER_SECOND)

    def jobs(self) -> Iterator[tuple[float, Session]]:
        """Documents, so many that they make up their share of all requests."""
        if self.documents == 0:
            return
        conversing = SESSIONS_PER_SECOND / (1 - ANOTHER_TURN)  # requests per second
        documents = conversing * self.documents / (1 - self.documents) / (1 + ASKED_AGAIN)
        now = 0.0
        while True:
            now += self.random.expovariate(documents / DOCUMENTS_PER_JOB)
            at = now
            for _ in range(1 + int(self.random.expovariate(1 / DOCUMENTS_PER_JOB))):
                yield at, self.start("d")
                at += self.random.expovariate(DOCUMENTS_PER_SECOND)

    def requests(self, count: int) -> Iterator[str]:
        number = itertools.count()  # breaks ties, so that sessions are never compared
        waiting: list[tuple[float, int, Session]] = []
        # The next of each source; jobs may overlap, so their documents are only nearly in order.
        sources = [self.conversations(), self.jobs()]
        arriving = [next(source, None) for source in sources]
        for _ in range(count):
            while True:
                due = [(item[0], index) for index, item in enumerate(arriving) if item is not None]
                at, index = min(due)
                if waiting and waiting[0][0] <= at:
                    break
                item = arriving[index]
                assert item is not None
                heapq.heappush(waiting, (at, next(number), item[1]))
                arriving[index] = next(sources[index], None)
            now, _, session = heapq.heappop(waiting)
            yield self.turn(session)
            pause = self.pause(session)
            if pause is not None:
                heapq.heappush(waiting, (now + pause, next(number), session))


def main() -> None:
    parser = argparse.ArgumentParser(description="Writes a trace of prefix-shared sessions.")
    parser.add_argument("--requests", type=int, default=16_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--documents", type=float, default=0.0, help="share of requests that bring a long document"
    )
    arguments = parser.parse_args()
    if not 0 <= arguments.documents < 1:
        parser.error(f"--documents {arguments.documents} is not a share from 0 to below 1")
    print(
        f"# sessions.py --requests {arguments.requests} --seed {arguments.seed}"
        f" --documents {arguments.documents}"
    )
    for line in Generator(arguments.seed, arguments.documents).requests(arguments.requests):
        sys.stdout.write(line + "\n")


if __name__ == "__main__":
    main()

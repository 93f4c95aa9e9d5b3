"""Sends the requests of a replay to servers when they are due, and measures the answers."""

from __future__ import annotations

import hashlib
import http.client
import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from peercache_bench.replay_requests import Request, Span, tokens_of

NEW_TOKENS = 4
_TIMEOUT_SECONDS = 120


@dataclass(frozen=True)
class Answer:
    """Times in seconds."""

    span: Span
    ttft: float
    late: float  # that it was sent after it was due
    before_queue: float  # until the scheduler took it, which computes another prompt meanwhile
    queued: float  # in the scheduler's queue, the wait for pages included
    waited: float  # of it, for pages of L3
    computed: float  # its prefill
    cached: int  # tokens of the prompt
    host: int  # of these, from L2
    stored: int  # of these, from PeerCache
    output: tuple[int, ...]


def ask(port: int, body: bytes, due: float) -> Answer:
    """Raises OSError, http.client.HTTPException or ValueError."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT_SECONDS)
    wall, sent = time.time(), time.monotonic()
    first, last = 0.0, b""
    try:
        connection.request("POST", "/generate", body, {"Content-Type": "application/json"})
        for line in connection.getresponse():
            if line.startswith(b"data: {"):
                first = first or time.monotonic()
                last = line
    finally:
        connection.close()
    if not last:
        raise ValueError("the answer has no token")
    answer: dict[str, Any] = json.loads(last.removeprefix(b"data: "))
    if "error" in answer:
        raise ValueError(answer["error"])
    facts = answer["meta_info"]
    details = facts.get("cached_tokens_details") or {}
    queued = facts["queue_time"]
    return Answer(
        span=Span(sent, first),
        ttft=first - sent,
        late=sent - due,
        before_queue=facts["forward_entry_time"] - queued - wall,
        queued=queued,
        waited=facts.get("storage_prefetch_wait", 0.0),
        computed=facts["prefill_finished_time"] - facts["forward_entry_time"],
        cached=facts["cached_tokens"],
        host=details.get("host", 0),
        stored=details.get("storage", 0),
        output=tuple(answer["output_ids"]),
    )


def body(request: Request, block_tokens: int) -> bytes:
    sampling = {"max_new_tokens": NEW_TOKENS, "temperature": 0, "ignore_eos": True}
    ids = tokens_of(request.prompt, block_tokens)
    return json.dumps({"input_ids": ids, "stream": True, "sampling_params": sampling}).encode()


class Unanswered(Exception):
    """A request got no answer of this server."""

    def __init__(self, server: int, why: str) -> None:
        super().__init__(why)
        self.server = server


def send_all(
    made: Sequence[Request],
    ports: Sequence[int],
    block_tokens: int,
    progress: Callable[[int], None],
) -> list[Answer]:
    """The answers, in the order of the requests. ``progress`` gets the number that are sent. Raises
    Unanswered."""
    answers: dict[int, Answer] = {}
    failed: list[Unanswered] = []

    def one(i: int, content: bytes, due: float) -> None:
        request = made[i]
        try:
            answers[i] = ask(ports[request.server], content, due)
        except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
            why = f"request {i} of {request.prompt.tokens} tokens got no answer: {error!r}"
            failed.append(Unanswered(request.server, why))

    threads = []
    start = time.monotonic()
    for i, request in enumerate(made):
        content = body(request, block_tokens)  # before it is due
        due = start + request.at
        time.sleep(max(0.0, due - time.monotonic()))
        thread = threading.Thread(target=one, args=(i, content, due), daemon=True)
        thread.start()
        threads.append(thread)
        progress(i + 1)
        if failed:
            break
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return [answers[i] for i in range(len(made))]


def digest(answers: Sequence[Answer]) -> str:
    """Of all outputs, in the order of the requests."""
    outputs = json.dumps([answer.output for answer in answers])
    return hashlib.sha256(outputs.encode()).hexdigest()[:12]

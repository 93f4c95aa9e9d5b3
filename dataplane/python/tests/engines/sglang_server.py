"""SGLang's own server on a CPU, on a member of PeerCache or without a cache."""

from __future__ import annotations

import json
import os
import signal
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peercache_bench.replay_servers import shared_memory

from ..integration.processes import free_port, http
from ..patience import HANG_SECONDS
from .conftest import SGLang

PAGE = 16  # tokens
CALL_MS = 1500  # the longest stall of a call: timeout_ms, as it is without a word


@dataclass(frozen=True)
class Answer:
    """To one prompt. Compare ``computed``: wrong KV shows in log-probabilities first."""

    cached: int  # tokens
    stored: int  # of these, from PeerCache
    computed: tuple[Any, ...]
    first_token_seconds: float


class Server:
    """Starts at once; ``wait`` returns when it serves."""

    def __init__(
        self,
        name: str,
        sglang: SGLang,
        model: Path,
        socket: str | None = None,
        flags: tuple[str, ...] = (),
        env: dict[str, str] | None = None,
    ) -> None:
        self.name = name
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        arguments = [
            *("--model-path", str(model), "--skip-tokenizer-init", "--device", "cpu"),
            *("--host", "127.0.0.1", "--port", str(port), "--nccl-port", str(free_port())),
            *("--max-total-tokens", "16384", "--max-running-requests", "4"),
            *("--chunked-prefill-size", "4096", "--disable-cuda-graph"),
            *("--skip-server-warmup", "--sleep-on-idle", "--page-size", str(PAGE)),
            *(cache(socket) if socket else ("--disable-radix-cache",)),
            *flags,
        ]
        self.group, self.log = sglang.serve(name, arguments, env or {})

    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def wait(self) -> Server:
        deadline = time.monotonic() + HANG_SECONDS
        while True:
            assert Path(f"/proc/{self.group}").exists(), f"{self.name} ended:\n{self.output()}"
            try:
                http(f"{self.url}/health", timeout=5)
            except OSError:
                assert time.monotonic() < deadline, f"{self.name}:\n{self.output()}"
                time.sleep(0.05)
            else:
                return self

    def ask(self, prompt: list[int]) -> Answer:
        request = {
            "input_ids": prompt,
            "stream": True,
            "return_logprob": True,
            "top_logprobs_num": 5,
            "sampling_params": {"max_new_tokens": 8, "temperature": 0, "ignore_eos": True},
        }
        began = time.monotonic()
        first = None
        last: dict[str, Any] = {}
        with urllib.request.urlopen(
            urllib.request.Request(
                f"{self.url}/generate",
                json.dumps(request).encode(),
                {"Content-Type": "application/json"},
            ),
            timeout=HANG_SECONDS,
        ) as answer:
            for line in answer:
                if line.startswith(b"data: {"):
                    first = first or time.monotonic() - began
                    last = json.loads(line.removeprefix(b"data: "))
        assert first is not None, f"{self.name} answered nothing:\n{self.output()}"
        facts = last["meta_info"]
        tops = [[entry[:2] for entry in top] for top in facts["output_top_logprobs"]]
        return Answer(
            cached=facts["cached_tokens"],
            stored=(facts.get("cached_tokens_details") or {}).get("storage", 0),
            computed=(last["output_ids"], tops),
            first_token_seconds=first,
        )

    def clear(self) -> None:
        """Clears what members have."""
        http(f"{self.url}/hicache/storage-backend/clear", {})

    def stop(self) -> None:
        """Of all its processes."""
        left = shared_memory(self.group)
        try:
            os.killpg(self.group, signal.SIGKILL)
        except ProcessLookupError:
            return
        deadline = time.monotonic() + HANG_SECONDS
        while Path(f"/proc/{self.group}").exists():
            assert time.monotonic() < deadline, f"{self.name} does not end"
            time.sleep(0.01)
        for file in left:
            file.unlink(missing_ok=True)


def cache(socket: str) -> tuple[str, ...]:
    backend = {
        "backend_name": "peercache",
        "module_path": "peercache.store",
        "class_name": "PeerCacheStore",
        "interface_v1": 1,
        "allocator": "shm",
        "socket": socket,
        "timeout_ms": CALL_MS,
    }
    return (
        *("--enable-hierarchical-cache", "--hicache-ratio", "2"),
        # So a request waits for its pages as long as PeerCache takes, which is to be bounded.
        *("--hicache-storage-prefetch-policy", "wait_complete"),
        *("--hicache-storage-backend", "dynamic"),
        *("--hicache-storage-backend-extra-config", json.dumps(backend)),
    )

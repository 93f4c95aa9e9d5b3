"""A modelled forward pass: a sleep as long as a GPU would compute, and KV rows that can be checked.

The rows of a token are a pattern of its whole prefix. So each row of a cached prefix is checked
before each prefill, and the next token follows from the prefix alone. The model's own weights are
not used. Batches take the sum of what their prompts take.

SGLang has to run with --disable-overlap-schedule: the next step needs the tokens of this one.
"""

from __future__ import annotations

import importlib
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from peercache_bench.capacity_model import Prefill

# Of each server: the file that gets a line of JSON for each forward pass and each get.
REPORT = "PEERCACHE_MODELLED_REPORT"
WRONG = "WRONG BYTES"

_MODULUS = 1_000_003
_STEP = 48_271
_LOGIT = 10.0


@dataclass(frozen=True)
class Model:
    """What a server takes, in seconds and bytes of the real model."""

    constant: float
    linear: float
    quadratic: float
    decode: float  # of a step
    bytes_per_token: float
    link: float  # bytes/s

    @property
    def prefill(self) -> Prefill:
        return Prefill(self.constant, self.linear, self.quadratic)


class Link:
    """What pages of the real model take to come, at most so many bytes/s. Of one thread alone."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._free = 0.0  # when the link has carried all bytes so far

    def take(self, size: float, now: float) -> float:
        """Seconds from now on until the link has carried so many bytes more."""
        self._free = max(self._free, now) + size / self._rate
        return self._free - now


def report(**values: object) -> None:
    """Thread-safe: a line is one write."""
    with open(os.environ[REPORT], "ab", buffering=0) as file:
        file.write(json.dumps(values).encode() + b"\n")


def pattern(tokens: list[int]) -> torch.Tensor:
    """A number for each token, which follows from all tokens up to it."""
    ids = torch.tensor(tokens, dtype=torch.int64)
    places = torch.arange(1, len(ids) + 1, dtype=torch.int64) * _STEP % _MODULUS
    return (((ids + 1) * places).cumsum(0) % _MODULUS).to(torch.int32)


def _buffers(pool: Any) -> Iterator[tuple[torch.Tensor, int]]:
    """Rows of 32-bit numbers, and what is added to the pattern there. Waits for HiCache's loads."""
    for layer in range(pool.layer_num):
        for salt, buffer in enumerate((pool.get_key_buffer(layer), pool.get_value_buffer(layer))):
            yield buffer.view(torch.int32).view(len(buffer), -1), 2 * layer + salt


class Forward:
    """Replaces ModelRunner's forward. Of the scheduler's thread alone."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._batch: Any = None  # SGLang's ScheduleBatch of this forward

    def remember(self, generate: Any, worker: Any, batch: Any, *args: Any, **kwargs: Any) -> Any:
        self._batch = batch
        return generate(worker, batch, *args, **kwargs)

    def __call__(self, _: Any, runner: Any, forward: Any, *args: Any, **kwargs: Any) -> Any:
        began = time.monotonic()
        requests, prefill = self._batch.reqs, forward.forward_mode.is_extend()
        table = runner.req_to_token_pool.req_to_token
        logits = torch.zeros(len(requests), runner.model_config.vocab_size)
        seconds, checked = self._model.decode, 0
        if prefill:
            seconds = self._model.constant
        for i, request in enumerate(requests):
            end = int(forward.seq_lens[i])
            start = int(forward.extend_prefix_lens_cpu[i]) if prefill else end - 1
            numbers = pattern([*request.origin_input_ids, *request.output_ids][:end])
            rows = table[int(forward.req_pool_indices[i]), :end].long()
            for buffer, salt in _buffers(runner.token_to_kv_pool):
                buffer[rows[start:]] = (numbers[start:] + salt)[:, None]
                if prefill and start:
                    check(buffer[rows[:start]], numbers[:start] + salt, request.rid)
            logits[i, int(numbers[-1]) % logits.shape[1]] = _LOGIT
            if prefill:
                seconds += self._model.prefill.seconds(end - start, start) - self._model.constant
                checked += start
        time.sleep(max(0.0, began + seconds - time.monotonic()))
        took = time.monotonic() - began
        report(at=began, took=took, seconds=seconds, checked=checked, prefill=prefill)
        output = importlib.import_module("sglang.srt.layers.logits_processor")
        module = importlib.import_module("sglang.srt.model_executor.model_runner")
        return module.ModelRunnerOutput(
            logits_output=output.LogitsProcessorOutput(next_token_logits=logits),
            can_run_graph=False,
        )


def check(rows: torch.Tensor, numbers: torch.Tensor, request: str) -> None:
    """Raises RuntimeError, which ends the server, if a row is not its number all over."""
    wrong = int((rows != numbers[:, None]).any(1).sum())
    if wrong:
        what = f"{WRONG}: {wrong} of {len(rows)} cached rows of request {request}"
        report(wrong=what)
        raise RuntimeError(what)


class Pages:
    """Pages of L3 take what their bytes in the real model take, after the real get. Of HiCache's
    one thread for gets alone."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._link = Link(model.link)

    def __call__(self, read: Any, controller: Any, *args: Any, **kwargs: Any) -> int:
        began = time.monotonic()
        pages = int(read(controller, *args, **kwargs))
        tokens = pages * controller.page_size
        came = time.monotonic()
        time.sleep(self._link.take(tokens * self._model.bytes_per_token, came))
        report(loaded=tokens, real=came - began, slept=time.monotonic() - came)
        return pages


def register(values: str) -> None:
    """``values``: JSON of Model. Servers are forks, which have all this to themselves."""
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    model = Model(**json.loads(values))
    forward = Forward(model)
    around: dict[str, Callable[..., Any]] = {
        "managers.tp_worker.TpModelWorker.forward_batch_generation": forward.remember,
        "model_executor.model_runner.ModelRunner.forward": forward,
        "managers.cache_controller.HiCacheController._page_get_zero_copy": Pages(model),
    }
    for name, hook in around.items():
        HookRegistry.register(f"sglang.srt.{name}", _function(hook), HookType.AROUND)


def _function(hook: Callable[..., Any]) -> Callable[..., Any]:
    """SGLang wraps functions alone."""
    return lambda *args, **kwargs: hook(*args, **kwargs)

"""Flags of plan and replay: the trace, the model, and how fast a server computes."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path

from peercache_bench import capacity_trace
from peercache_bench.capacity_model import bytes_per_token
from peercache_bench.errors import BenchError
from peercache_bench.units import count, seconds, size

GENERATED = "chat"
# An example of a GPU's tokens/s, by length of the prompt.
PREFILL = "4k=20000,32k=12000"


def add_trace(sub: argparse.ArgumentParser, default: str | None = None) -> None:
    """``default``: the trace; without it one has to be given."""
    add = sub.add_argument
    add(
        "--trace",
        default=default,
        required=default is None,
        metavar="FILE",
        help="JSON lines with timestamp, input_length, hash_ids; or chat: generated conversations",
    )
    add(
        "--block-tokens",
        type=count,
        default=512,
        metavar="N",
        help="tokens of a hash of the trace (default: 512, as Mooncake's)",
    )
    add("--time-unit", choices=("ms", "s"), default="ms", help="of timestamp (default: ms)")
    add("--requests", type=count, default=4000, metavar="N", help="of a generated trace")
    add("--rate", type=float, default=4.0, metavar="R", help="requests a second of it (default: 4)")
    add("--seed", type=int, default=1, metavar="N", help="of a generated trace (default: 1)")


def add_bytes(sub: argparse.ArgumentParser) -> None:
    add = sub.add_argument
    add("--model-config", type=Path, metavar="FILE", help="the model's config.json")
    add("--element-bytes", type=count, default=2, metavar="N", help="of KV (default: 2; FP8: 1)")
    add("--bytes-per-token", type=size, metavar="SIZE", help="instead of --model-config, as 70k")


def add_times(sub: argparse.ArgumentParser, prefill: str | None = None) -> None:
    """``prefill``: the default; without it --prefill has to be given."""
    add = sub.add_argument
    add(
        "--prefill",
        type=rates,
        default=prefill,
        required=prefill is None,
        metavar="TOKENS=RATE[,TOKENS=RATE]",
        help="tokens a second that one server computes of a prompt of so many tokens, as "
        + PREFILL,
    )
    add("--overhead", type=seconds, default=0.03, metavar="S", help="of a prompt (default: 0.03)")
    add(
        "--link",
        type=float,
        default=10.0,
        metavar="GB/S",
        help="that one server reads from the shared cache (default: 10)",
    )


def trace(arguments: argparse.Namespace) -> capacity_trace.Trace:
    """Raises BenchError."""
    block = arguments.block_tokens
    if arguments.trace == GENERATED:
        rate = positive("--rate", arguments.rate)
        return capacity_trace.chats(arguments.requests, rate, arguments.seed, block)
    try:
        with Path(arguments.trace).open() as lines:
            return capacity_trace.parse(
                lines, block, 1000.0 if arguments.time_unit == "ms" else 1.0
            )
    except OSError as error:
        raise BenchError(f"--trace {arguments.trace} cannot be read: {error.strerror}") from None


def bytes_of(arguments: argparse.Namespace, default: int | None = None) -> int:
    """Of KV for each token; ``default`` where no flag names it. Raises BenchError."""
    if arguments.bytes_per_token:
        return int(arguments.bytes_per_token)
    if arguments.model_config is None and default:
        return default
    if arguments.model_config is None:
        raise BenchError("give --model-config, or --bytes-per-token (docs/sizing.md has a table)")
    try:
        config = json.loads(arguments.model_config.read_text())
    except (OSError, ValueError) as error:
        raise BenchError(
            f"--model-config {arguments.model_config} cannot be read: {error}"
        ) from None
    if not isinstance(config, dict):
        raise BenchError(f"--model-config {arguments.model_config} is not a JSON object")
    return bytes_per_token(config, arguments.element_bytes)


def positive(name: str, value: float) -> float:
    """The value of the flag; raises BenchError."""
    if not value > 0:
        raise BenchError(f"{name} {value:g} must be above 0")
    return value


def tokens(text: str) -> int:
    """256k, 1.5m or 4096; powers of 1000."""
    factor = {"k": 1000, "m": 1_000_000}.get(text[-1:].lower(), 1)
    try:
        value = float(text[:-1] if factor > 1 else text) * factor
    except ValueError:
        value = -1
    if value < 0 or value != int(value):
        raise argparse.ArgumentTypeError(f'"{text}" is not a number of tokens; write 256k or 4096')
    return int(value)


def rates(text: str) -> list[tuple[int, float]]:
    """4k=20000,32k=12000."""
    points: Iterable[list[str]] = (part.split("=") for part in text.split(","))
    try:
        found = [(tokens(n), float(rate)) for n, rate in points]
    except ValueError:
        found = []
    if not 1 <= len(found) <= 2 or any(n < 1 or rate <= 0 for n, rate in found):
        raise argparse.ArgumentTypeError(
            f'"{text}" is not one or two TOKENS=RATE; write 4k=20000 or 4k=20000,32k=12000'
        )
    return found

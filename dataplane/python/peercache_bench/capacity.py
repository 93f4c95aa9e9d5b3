"""plan: what a shared cache would save on a trace, how much memory that takes, and when not to."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from peercache_bench import capacity_advice, capacity_trace
from peercache_bench.capacity_cluster import Cluster
from peercache_bench.capacity_model import Prefill, bytes_per_token
from peercache_bench.errors import BenchError
from peercache_bench.output import write_files
from peercache_bench.units import GIB, count, seconds, size

NOT_WORTH_IT = 3  # the exit status
GENERATED = "chat"
_SIZES = 8  # of the shared cache, where none is given


def add_command(commands: Any) -> None:
    sub = commands.add_parser(
        "plan", help="what a shared cache saves on a trace, and how much memory it takes",
        description="Simulates prefill workers on a trace, without and with shared caches of "
        "several sizes. Nothing is measured: see docs/planner.md. Exit status 3: not worth it.",
    )  # fmt: skip
    add = sub.add_argument
    add(
        "--trace",
        required=True,
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
    add("--model-config", type=Path, metavar="FILE", help="the model's config.json")
    add("--element-bytes", type=count, default=2, metavar="N", help="of KV (default: 2; FP8: 1)")
    add("--bytes-per-token", type=size, metavar="SIZE", help="instead of --model-config, as 70k")
    add("--workers", type=count, required=True, metavar="N", help="prefill servers")
    add(
        "--own-tokens",
        type=_tokens,
        required=True,
        metavar="N",
        help="that one server caches by itself: GPU and L2, as 256k",
    )
    add(
        "--prefill",
        type=_rates,
        required=True,
        metavar="TOKENS=RATE[,TOKENS=RATE]",
        help="tokens a second that one server computes of a prompt of so many tokens, as 4k=20000",
    )
    add("--overhead", type=seconds, default=0.03, metavar="S", help="of a prompt (default: 0.03)")
    add(
        "--link",
        type=float,
        default=10.0,
        metavar="GB/S",
        help="that one server reads from the shared cache (default: 10)",
    )
    add("--nodes", type=count, metavar="N", help="that give memory (default: --workers)")
    add(
        "--pool",
        type=_pools,
        metavar="SIZE[,SIZE...]",
        help="of each node, as 64g,256g (default: eight sizes, up to all that the trace has)",
    )
    add("--cache-aware", action="store_true", help="the router knows what servers have")
    add("--gpus", type=count, default=1, metavar="N", help="of a server (default: 1)")
    add("--gpu-hour", type=float, default=2.5, metavar="PRICE", help="of one GPU (default: 2.5)")
    add("--out-dir", type=Path, metavar="DIR", help="for plan.html, plan.md, plan.json and charts")
    sub.set_defaults(parser=sub, run=run)


def run(arguments: argparse.Namespace) -> int:
    nodes = arguments.nodes or arguments.workers
    cluster = Cluster(
        workers=arguments.workers,
        own_tokens=arguments.own_tokens,
        shared_tokens=0,
        bytes_per_token=_bytes(arguments),
        link=_positive("--link", arguments.link) * 1e9,
        prefill=Prefill.of_rates(arguments.overhead, arguments.prefill),
        cache_aware=arguments.cache_aware,
    )
    trace = _trace(arguments)
    advice = capacity_advice.advise(trace, cluster, _sizes(arguments, trace, cluster, nodes))
    prices = capacity_advice.Prices(nodes, arguments.gpus, arguments.gpu_hour)
    document = "\n".join((
        f"Simulated: {len(trace.prompts)} requests in {trace.seconds / 60:.0f} minutes, "
        f"{sum(p.tokens for p in trace.prompts) / 1e6:.1f} M tokens, of which "
        f"{trace.distinct_tokens / 1e6:.1f} M differ; "
        f"{cluster.bytes_per_token / 1024:.1f} KiB a token.",
        "",
        capacity_advice.table(trace, cluster, advice, prices),
        "",
        capacity_advice.verdict(cluster, advice),
    ))  # fmt: skip
    print(document)
    if arguments.out_dir:
        values = [
            {"tokens": row.tokens, "hits": row.outcome.hits, "busy_seconds": row.outcome.busy,
             "ttft_p50": row.outcome.quantile(0.5), "ttft_p90": row.outcome.quantile(0.9)}
            for row in advice.rows
        ]  # fmt: skip
        pictures = capacity_advice.pictures(cluster, advice)
        write_files(
            "plan", "peercache-bench plan", arguments.out_dir, values, document, pictures, []
        )
    return NOT_WORTH_IT if advice.reasons else 0


def _trace(arguments: argparse.Namespace) -> capacity_trace.Trace:
    block = arguments.block_tokens
    if arguments.trace == GENERATED:
        rate = _positive("--rate", arguments.rate)
        return capacity_trace.chats(arguments.requests, rate, arguments.seed, block)
    try:
        with Path(arguments.trace).open() as lines:
            return capacity_trace.parse(
                lines, block, 1000.0 if arguments.time_unit == "ms" else 1.0
            )
    except OSError as error:
        raise BenchError(f"--trace {arguments.trace} cannot be read: {error.strerror}") from None


def _bytes(arguments: argparse.Namespace) -> int:
    if arguments.bytes_per_token:
        return int(arguments.bytes_per_token)
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


def _sizes(
    arguments: argparse.Namespace, trace: capacity_trace.Trace, cluster: Cluster, nodes: int
) -> list[int]:
    """In tokens, of all nodes together."""
    if arguments.pool:
        return sorted(
            int(capacity_advice.FILL * pool * nodes / cluster.bytes_per_token)
            for pool in arguments.pool
        )
    most = trace.distinct_tokens
    return sorted({max(trace.block_tokens, most >> shift) for shift in range(_SIZES)})


def _positive(name: str, value: float) -> float:
    if not value > 0:
        raise BenchError(f"{name} {value:g} must be above 0")
    return value


def _pools(text: str) -> tuple[int, ...]:
    return tuple(dict.fromkeys(map(_pool, text.split(","))))


def _pool(text: str) -> int:
    head = text.strip().lower().removesuffix("ib").removesuffix("b")
    return size(head.removesuffix("t")) * 1024 * GIB if head.endswith("t") else size(head)


def _tokens(text: str) -> int:
    """256k, 1.5m or 4096; powers of 1000."""
    factor = {"k": 1000, "m": 1_000_000}.get(text[-1:].lower(), 1)
    try:
        value = float(text[:-1] if factor > 1 else text) * factor
    except ValueError:
        value = -1
    if value < 0 or value != int(value):
        raise argparse.ArgumentTypeError(f'"{text}" is not a number of tokens; write 256k or 4096')
    return int(value)


def _rates(text: str) -> list[tuple[int, float]]:
    """4k=20000,32k=12000."""
    points: Iterable[list[str]] = (part.split("=") for part in text.split(","))
    try:
        rates = [(_tokens(n), float(rate)) for n, rate in points]
    except ValueError:
        rates = []
    if not 1 <= len(rates) <= 2 or any(n < 1 or rate <= 0 for n, rate in rates):
        raise argparse.ArgumentTypeError(
            f'"{text}" is not one or two TOKENS=RATE; write 4k=20000 or 4k=20000,32k=12000'
        )
    return rates

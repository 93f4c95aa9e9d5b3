"""plan: what a shared cache would save on a trace, how much memory that takes, and when not to."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from peercache_bench import capacity_advice, capacity_flags, capacity_trace
from peercache_bench.capacity_cluster import Cluster
from peercache_bench.capacity_model import Prefill
from peercache_bench.output import write_files
from peercache_bench.units import GIB, count, size

NOT_WORTH_IT = 3  # the exit status
_SIZES = 8  # of the shared cache, where none is given


def add_command(commands: Any) -> None:
    sub = commands.add_parser(
        "plan", help="what a shared cache saves on a trace, and how much memory it takes",
        description="Simulates prefill workers on a trace, without and with shared caches of "
        "several sizes. Nothing is measured: see docs/planner.md. Exit status 3: not worth it.",
    )  # fmt: skip
    add = sub.add_argument
    capacity_flags.add_trace(sub)
    capacity_flags.add_bytes(sub)
    add("--workers", type=count, required=True, metavar="N", help="prefill servers")
    add(
        "--own-tokens",
        type=capacity_flags.tokens,
        required=True,
        metavar="N",
        help="that one server caches by itself: GPU and L2, as 256k",
    )
    capacity_flags.add_times(sub)
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
        bytes_per_token=capacity_flags.bytes_of(arguments),
        link=capacity_flags.positive("--link", arguments.link) * 1e9,
        prefill=Prefill.of_rates(arguments.overhead, arguments.prefill),
        cache_aware=arguments.cache_aware,
    )
    trace = capacity_flags.trace(arguments)
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


def _pools(text: str) -> tuple[int, ...]:
    return tuple(dict.fromkeys(map(_pool, text.split(","))))


def _pool(text: str) -> int:
    head = text.strip().lower().removesuffix("ib").removesuffix("b")
    return size(head.removesuffix("t")) * 1024 * GIB if head.endswith("t") else size(head)

"""The subcommands that measure on this machine: each starts its nodes and yields its outcomes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from peercache_bench import plan
from peercache_bench.case import Case
from peercache_bench.errors import BenchError
from peercache_bench.host import available_bytes
from peercache_bench.nodes import loopback_nodes
from peercache_bench.options import Settings
from peercache_bench.outcome import Outcome
from peercache_bench.perf import Perf
from peercache_bench.progress import Progress
from peercache_bench.runner import LEASE_SECONDS, Runner
from peercache_bench.units import MIB

# A reader keeps no pages; this is room for its structures.
READER_POOL = 64 * MIB
LEAST_POOL = 128 * MIB
# Memory to leave free, so that the machine does not swap or kill processes.
SPARE = 512 * MIB


@dataclass(frozen=True)
class Where:
    """The build to measure, and options of its nodes."""

    build: Path | None = None
    node_options: Mapping[str, str] = field(default_factory=dict)
    progress: Progress = field(default_factory=Progress)


@dataclass(frozen=True)
class Command:
    help: str
    operations: tuple[str, ...]
    threads: tuple[int, ...]
    measure: Callable[[Settings, Where], Iterator[Outcome]]
    seconds: float = 5  # of one measurement, by default


def pool_bytes(cases: Sequence[Case]) -> int:
    """Twice the largest working set: half rests in quarantine after a clear."""
    largest = max((case.pages * case.page_bytes for case in cases), default=0)
    return max(2 * largest + READER_POOL, LEAST_POOL)


def needed_bytes(cases: Sequence[Case]) -> int:
    """The holder's pool, and the host pools of engines that set or read all of it."""
    largest = max((case.pages * case.page_bytes for case in cases), default=0)
    return pool_bytes(cases) + 2 * largest + READER_POOL


def node_options(s: Settings, given: Mapping[str, str]) -> dict[str, str]:
    # Replicas would turn remote reads into local ones.
    options = {"promotion-percent": "0"}
    if s.dir_cache_ttl is not None:
        options["dir-cache-ttl-ms"] = str(round(s.dir_cache_ttl * 1000))
    return {**options, **given}


def lease_seconds(given: Mapping[str, str]) -> float:
    return float(given["lease-ms"]) / 1000 if "lease-ms" in given else LEASE_SECONDS


@contextlib.contextmanager
def running(
    s: Settings, where: Where, cases: Sequence[Case], total: int | None = None
) -> Iterator[Runner]:
    """A runner with the nodes that the cases need."""
    needed, there = needed_bytes(cases), available_bytes()
    if there is not None and needed + SPARE > there:
        raise BenchError(
            f"this needs {needed // MIB} MiB of memory, and {there // MIB} MiB are available: "
            "lower --working-set or --max-bytes"
        )
    remote = any(case.op in ("get", "exists") and case.source == "remote" for case in cases)
    pools = {"holder": str(pool_bytes(cases))}
    if remote:
        pools["reader"] = str(READER_POOL)
    progress = where.progress
    progress.expect(total)
    protocol = where.node_options.get("transport", "auto")
    progress.say(f"starting {len(pools)} node{'s' if remote else ''}, {protocol} on this host")
    perf, lease = Perf(where.build), lease_seconds(where.node_options)
    with loopback_nodes(where.build, pools, node_options(s, where.node_options)) as nodes:
        for node in nodes.values():
            node.settle()
        yield Runner(perf, s, progress, nodes["holder"], nodes.get("reader"), lease)


def _each(
    plan_of: Callable[[Settings], list[Case]],
) -> Callable[[Settings, Where], Iterator[Outcome]]:
    """Measures the cases of a plan one after the other."""

    def measure(s: Settings, where: Where) -> Iterator[Outcome]:
        cases = plan_of(s)
        with running(s, where, cases, len(cases)) as runner:
            yield from map(runner.measure, cases)

    return measure


def saturation(s: Settings, where: Where) -> Iterator[Outcome]:
    with running(s, where, [case for case, _ in plan.saturation_starts(s)]) as runner:
        yield from _saturate(runner, s, {})


def lookups(s: Settings, where: Where) -> Iterator[Outcome]:
    """Each way with nodes of its own, which remember no locations unless they are told to."""
    s = replace(s, dir_cache_ttl=s.dir_cache_ttl or 0.0)
    return _by_option("directory-lookups", plan.lookups(s), s, where)


def sweep(s: Settings, where: Where) -> Iterator[Outcome]:
    return _by_option("transport", plan.sweep(s), s, where)


def _by_option(
    option: str, planned: Mapping[str, list[Case]], s: Settings, where: Where
) -> Iterator[Outcome]:
    """The cases of each value of an option, on nodes that have it."""
    total = sum(map(len, planned.values()))
    for value, cases in planned.items():
        options = {**where.node_options, option: value}
        with running(s, replace(where, node_options=options), cases, total) as runner:
            yield from map(runner.measure, cases)


def suite(s: Settings, where: Where) -> Iterator[Outcome]:
    """Latency of one engine, throughput of the threads that were named, and more until the peak."""
    cases = list(dict.fromkeys([*plan.latency(replace(s, threads=(1,))), *plan.throughput(s)]))
    measured: dict[Case, Outcome] = {}
    with running(s, where, cases) as runner:
        for case in cases:
            measured[case] = runner.measure(case)
            yield measured[case]
        yield from _saturate(runner, replace(s, operations=("get",)), measured)


def _saturate(runner: Runner, s: Settings, measured: Mapping[Case, Outcome]) -> Iterator[Outcome]:
    """More and more threads until there is no gain; the peak gets a note.

    Cases that were measured before are yielded once more: the later outcome counts.
    """
    for start, threads in plan.saturation_starts(s):
        steps: list[Outcome] = []
        for n in threads:
            case = replace(start, threads=n)
            steps.append(measured.get(case) or runner.measure(case))
            if plan.saturated([o.figures.rate for o in steps]):
                break
        best = plan.peak([o.figures.rate for o in steps])
        for i, outcome in enumerate(steps):
            yield replace(outcome, notes=(*outcome.notes, "the peak")) if i == best else outcome


COMMANDS: Mapping[str, Command] = {
    "latency": Command(
        "time of a call, of one page and of a batch", ("set", "exists", "get"), (1,),
        _each(plan.latency),
    ),
    "lookups": Command(
        "where pages are: shards asked, or read by RDMA", ("exists", "get"), (1,), lookups,
    ),
    "throughput": Command(
        "bytes and pages a second, by engine threads", ("set", "get"), (1, 2, 4),
        _each(plan.throughput),
    ),
    "saturation": Command(
        "more and more threads and processes until nothing is gained", ("get",), (1,), saturation,
    ),
    "suite": Command(
        "latency, throughput and saturation of set, exists and get", ("set", "exists", "get"),
        (1, 2, 4), suite,
    ),
    "sweep": Command(
        "page sizes from 4 KiB to 16 MiB", ("set", "get"), (1,), sweep,
    ),
    "async": Command(
        "single requests: one by one, submitted together, windowed, as a batch", ("get",), (1,),
        _each(plan.requests), seconds=1,
    ),
    "micro": Command(
        "limits of this machine: memcpy, bare TCP, small requests", (), (1, 2), _each(plan.micro),
    ),
}  # fmt: skip

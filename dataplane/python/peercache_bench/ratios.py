"""Shares of the machine's limits that PeerCache reaches, measured in one run.

Every row is repeated, limit and measurement in turns, so that a machine that slows down slows both.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path

from peercache_bench.engine import Engine
from peercache_bench.errors import BenchError
from peercache_bench.idle import DEFAULT_NS, polling_idle
from peercache_bench.link import limited_link
from peercache_bench.nodes import CLUSTER, BenchNode, Place, loopback_nodes
from peercache_bench.perf import Perf, Result
from peercache_bench.rows import CallRows, Row, turns

KIB, MIB = 1 << 10, 1 << 20
WORKING_SET = 1536 * MIB
# A pool that keeps all of it: up to its low watermark of 75 %, beside a tenth of it in reserve.
POOL = "2560Mi"
# An engine's host pool: several times what caches hold, and small enough to be mapped in a moment.
WINDOW = 256 * MIB
MEMORY_WINDOW = 512 * MIB
# Until slots are free after a clear: the lease, and a little more.
REST_SECONDS = 1.2


Progress = Callable[[str], None]


def measure(
    build: Path, engine: Engine, repetitions: int, seconds: float, progress: Progress
) -> list[Row]:
    """All rows, in some minutes. Raises BenchError when something cannot be measured.

    Most limits never let a processor idle. So idle ones poll meanwhile: what the host of a virtual
    machine takes to wake them would count on one side alone.
    """
    perf = Perf(build)
    rows: list[Row] = []

    def add(measured: Iterator[Row]) -> None:
        for row in measured:
            rows.append(row)
            progress(f"{row.name}: {row.ratio:.2f}")

    with polling_idle() as halt_poll_ns:
        if halt_poll_ns is not None:
            progress(f"idle processors poll for {DEFAULT_NS} ns meanwhile, not {halt_poll_ns}")
        # These come first: once gigabytes have been freed, a guest gives them back to its host for
        # a while, and what waits for a thread to wake up sees it.
        add(_request_rows(build, perf, repetitions, seconds))
        add(_presence_rows(build, perf, repetitions, seconds))
        parts = (_memory_rows, _full_rows, _mapped_rows, _remote_rows, _shared_rows, _link_rows)
        for part in parts:
            add(part(build, perf, repetitions, seconds))
        add(_engine_rows(build, perf, engine, repetitions, seconds))
    return rows


def _sizes() -> tuple[tuple[int, str], ...]:
    return ((128 * KIB, "128 KiB"), (MIB, "1 MiB"))


def _complete(result: Result, what: str) -> Result:
    if result["hits"] != result["pages"]:
        raise BenchError(
            f"{what}: {result['hits']} of {result['pages']} pages; are other loads on this machine?"
        )
    return result


# Pages in one call of SGLang's HiCacheController (its storage_batch_size), and a small call.
CONTROLLER_BATCH = 128
SMALL_BATCH = 32
# Size and pages of a call.
MEMORY_ROWS = (
    (128 * KIB, CONTROLLER_BATCH),
    (128 * KIB, SMALL_BATCH),
    (MIB, SMALL_BATCH),
)

# Promised of a call of CONTROLLER_BATCH pages, beside its copy.
CALL_MICROSECONDS = 250


def _call_rows(name: str, size: int, batch: int, target: float) -> CallRows:
    promised = CALL_MICROSECONDS if batch == CONTROLLER_BATCH else None
    return CallRows(name, size * batch, target, promised)


def _memory_rows(build: Path, perf: Perf, repetitions: int, seconds: float) -> Iterator[Row]:
    """SET and GET of a node's own pool, beside memcpy by as many threads: one.

    A new engine's memory is mapped by the node while its first calls come, so these warm up; what
    is measured then is four times the host pool. Slots have been written before, the host pools
    are the same ones in all repetitions, and the first of these does not count: where the machine
    is itself a guest, the first writes after prefaulting still wait for the host's page tables.
    """
    with loopback_nodes(build, {"own": "6Gi"}, {"copy-threads": "1"}) as nodes:
        node = nodes["own"]
        node.settle()
        # Fast sets fill a pool up to its low watermark, 75 %.
        everything = {"page_bytes": MIB, "pages": 4608, "window": 256, "batch": SMALL_BATCH}
        for _ in range(2):
            _complete(perf("set", socket=node.socket, **everything, seconds=0), "writing the pool")
            _clear(perf, node)
        for size, batch in MEMORY_ROWS:
            count = MEMORY_WINDOW // size
            shape = {"page_bytes": size, "pages": count, "window": count, "batch": batch}
            at = {"socket": node.socket, **shape}
            sets = {**at, "pages": 6 * count, "warm_pages": 2 * count, "seconds": 0}
            pages = f"{dict(_sizes())[size]} x {batch}"
            put = _call_rows(f"SET into the own node, {pages}", size, batch, 0.90)
            get = _call_rows(f"GET from the own node, {pages}", size, batch, 0.90)
            with (
                perf.repeated("memcpy", **shape, seconds=seconds, warmup=0.2) as copied,
                perf.repeated("set", **sets) as stored,
                perf.repeated("get", **at, seconds=seconds, warmup=0.2) as read,
            ):
                for first in (copied, stored, read):
                    first()
                _clear(perf, node)
                for _ in turns([*put.rows(), *get.rows()], repetitions):
                    limit = copied()["gb_per_s"]
                    put.add(limit, _complete(stored(), put.share.name)["gb_per_s"])
                    get.add(limit, _complete(read(), get.share.name)["gb_per_s"])
                    _clear(perf, node)
            yield from (*put.rows(), *get.rows())


# Size and pages of a call: from calls that cost more than their copies to calls that are a
# sixteenth of the pool.
FULL_ROWS = ((16 * KIB, CONTROLLER_BATCH), (128 * KIB, CONTROLLER_BATCH), (MIB, SMALL_BATCH))
FULL_POOL = 512 * MIB


def _full_rows(build: Path, perf: Perf, repetitions: int, _: float) -> Iterator[Row]:
    """SET of unique pages into a full pool, beside the same sets into a pool with room.

    Each repetition sets six times what the full pool holds, so by the time that a key comes again
    its page is long gone: every page takes the place of another. None may be refused.
    """
    options = {"copy-threads": "1"}
    with (
        loopback_nodes(build, {"full": f"{FULL_POOL // MIB}Mi"}, options) as small,
        loopback_nodes(build, {"room": "6Gi"}, options) as large,
    ):
        full, room = small["full"], large["room"]
        everything = {"page_bytes": MIB, "pages": 4608, "window": 256, "batch": SMALL_BATCH}
        for node in (room, full):
            node.settle()
            for _ in range(2):
                perf("set", socket=node.socket, **everything, seconds=0)
                _clear(perf, node)
        for size, batch in FULL_ROWS:
            sizes = {16 * KIB: "16 KiB", **dict(_sizes())}
            name = f"SET into a full pool, {sizes[size]} x {batch}"
            row = Row(name, "GB/s", "with room", 0.70)
            count = FULL_POOL // size
            sets = {"page_bytes": size, "pages": 6 * count, "window": count // 2, "batch": batch}
            sets |= {"warm_pages": 2 * count, "seconds": 0}
            with (
                perf.repeated("set", socket=room.socket, **sets) as stored,
                perf.repeated("set", socket=full.socket, **sets) as replaced,
            ):
                for first in (stored, replaced):
                    first()
                _clear(perf, room)
                for _ in turns([row], repetitions):
                    limit = _complete(stored(), "sets into a pool with room")["gb_per_s"]
                    row.add(limit, _complete(replaced(), name)["gb_per_s"])
                    _clear(perf, room)
            yield row


def _mapped_rows(build: Path, perf: Perf, repetitions: int, seconds: float) -> Iterator[Row]:
    """GET out of the pool of another node on this machine, beside memcpy by as many threads: one.

    Pages are not kept at the reader, so each comes out of the holder's pool every time.
    """
    options = {"copy-threads": "1", "map-pools": "on", "promotion-percent": "0"}
    for size, batch in ((128 * KIB, CONTROLLER_BATCH), (MIB, SMALL_BATCH)):
        with loopback_nodes(build, {"holder": POOL, "reader": "64Mi"}, options) as nodes:
            count = MEMORY_WINDOW // size
            shape = {"page_bytes": size, "pages": count, "window": count, "batch": batch}
            _fill(perf, nodes["holder"], shape)
            at = {"socket": nodes["reader"].socket, **shape}
            name = f"GET from a node of this machine, {dict(_sizes())[size]} x {batch}"
            call = _call_rows(name, size, batch, 0.85)
            with (
                perf.repeated("memcpy", **shape, seconds=seconds, warmup=0.2) as copied,
                perf.repeated("get", **at, seconds=seconds, warmup=0.2) as read,
            ):
                for first in (copied, read):
                    first()
                for _ in turns(call.rows(), repetitions):
                    call.add(copied()["gb_per_s"], _complete(read(), name)["gb_per_s"])
            yield from call.rows()


def _clear(perf: Perf, node: BenchNode) -> None:
    perf("clear", socket=node.socket)
    time.sleep(REST_SECONDS)


def _remote_rows(build: Path, perf: Perf, repetitions: int, seconds: float) -> Iterator[Row]:
    """GET from another node, beside a bare connection that moves the same pages."""
    for size, label in _sizes():
        with loopback_nodes(build, {"holder": POOL, "reader": "64Mi"}) as nodes:
            shape = {
                "page_bytes": size,
                "pages": WORKING_SET // size,
                "window": WINDOW // size,
            }
            _fill(perf, nodes["holder"], shape)
            target = 0.90 if size == MIB else 0.85
            for batch in (SMALL_BATCH, CONTROLLER_BATCH):
                name = f"GET from another node, {label} x {batch}"
                row = Row(name, "GB/s", "bare TCP", target)
                cpu = Row(f"CPU of {name}", "s/GB", "bare TCP", 1.3, at_least=False)
                each = {**shape, "batch": batch, "seconds": seconds, "warmup": 0.2}
                at = {
                    "socket": nodes["reader"].socket,
                    "cpu_of": [node.pid for node in nodes.values()],
                }
                with (
                    perf.repeated("tcp", **each) as sent,
                    perf.repeated("get", **each, **at) as read,
                ):
                    for _ in turns([row, cpu], repetitions):
                        limit, got = sent(), _complete(read(), name)
                        row.add(limit["gb_per_s"], got["gb_per_s"])
                        cpu.add(limit["cpu_s_per_gb"], got["cpu_s_per_gb"])
                yield row
                yield cpu


def _request_rows(build: Path, perf: Perf, repetitions: int, seconds: float) -> Iterator[Row]:
    """Small requests."""
    with loopback_nodes(build, {"holder": "1Gi", "reader": "64Mi"}) as nodes:
        shape = {"page_bytes": 4 * KIB, "pages": 4096, "window": 4096}
        _fill(perf, nodes["holder"], shape)
        at = {"socket": nodes["reader"].socket, **shape, "seconds": seconds}
        peer = {"port": nodes["holder"].peer_port, "cluster": CLUSTER, "seconds": seconds}
        rate = Row("EXISTS on another node, batches of 128", "keys/s", "promised", 1.0)
        wait = Row("EXISTS of 32 keys, p50", "us", "promised", 1.0, at_least=False)
        one = Row("request to a peer, one in flight, p50", "us", "ping-pong", 1.5, at_least=False)
        many = Row("requests to a peer, many in flight", "1/s", "promised", 1.0)
        for _ in turns([rate, wait, one, many], repetitions):
            rate.add(1e6, perf("exists", **at, batch=CONTROLLER_BATCH)["pages_per_s"])
            wait.add(80, perf("exists", **at, batch=SMALL_BATCH)["latency_us"]["p50"])
            bare = perf("pingpong", seconds=seconds)["latency_us"]["p50"]
            one.add(bare, perf("rpc-latency", **peer)["latency_us"]["p50"])
            many.add(3e5, perf("rpc-rate", **peer)["calls_per_s"])
        yield from (rate, wait, one, many)


# Pages of 16 tokens in a prompt of 262,144.
PRESENCE_KEYS = 16 << 10


def _presence_rows(build: Path, perf: Perf, repetitions: int, seconds: float) -> Iterator[Row]:
    """One call that asks which pages of one pool exist for a long prompt, as SGLang does."""
    with loopback_nodes(build, {"holder": "1Gi", "reader": "64Mi"}) as nodes:
        shape = {"page_bytes": 4 * KIB, "pages": PRESENCE_KEYS, "window": PRESENCE_KEYS}
        _fill(perf, nodes["holder"], shape)
        asked = {**shape, "batch": PRESENCE_KEYS, "seconds": seconds}
        name = f"PRESENCE of {PRESENCE_KEYS:,} keys"
        own = Row(f"{name} on the own node, p50", "us", "promised", 1.0, at_least=False)
        other = Row(f"{name} on another node, p50", "us", "promised", 1.0, at_least=False)
        for _ in turns([own, other], repetitions):
            for row, node in ((own, "holder"), (other, "reader")):
                measured = perf("presence", socket=nodes[node].socket, **asked)
                row.add(5000, measured["latency_us"]["p50"])
        yield from (own, other)


ENGINES = 8
# Fewer bytes than elsewhere: each repetition starts nodes, whose pools must be touched first.
SHARED_SET = 1024 * MIB
SHARED_POOLS = {"holder": "2816Mi", "reader": "2816Mi"}
SHARED_PAGES = {
    "page_bytes": 128 * KIB,
    "pages": SHARED_SET // (128 * KIB),
    "window": WINDOW // (128 * KIB),
    "batch": SMALL_BATCH,
}
# Other pages, for one engine beside them: a turn of its host pool to warm up, and two that count.
ONE_PAGES = {
    **SHARED_PAGES,
    "first_key": SHARED_PAGES["pages"],
    "pages": 3 * SHARED_PAGES["window"],
    "warm_pages": SHARED_PAGES["window"],
}


@contextlib.contextmanager
def _sharing(
    build: Path, perf: Perf, places: Mapping[str, Place] | None = None
) -> Iterator[dict[str, BenchNode]]:
    """A holder of the pages, and a reader that has none, with a pool that takes them all."""
    with loopback_nodes(build, SHARED_POOLS, None, places) as nodes:
        for node in nodes.values():
            node.settle()
        _fill(perf, nodes["holder"], SHARED_PAGES)
        yield nodes


def _shared_rows(build: Path, perf: Perf, repetitions: int, seconds: float) -> Iterator[Row]:
    """Eight engines that read the same pages at once, as ranks of an MLA model do: each has a
    connection and a host pool of its own. On loopback the wire is memory too, so that what they
    get beside one engine is shown, and held to its target on a link (_link_rows).
    """
    wire = Row("wire reads of 8 engines that share pages", "pages", "pages", 1.1, at_least=False)
    both = Row("GET by 8 sharing engines", "GB/s", "memcpy by 2", 0.70, held=False)
    times = Row("GET by 8 sharing engines, loopback", "GB/s", "one engine", 3.0, held=False)
    for _ in turns([wire], repetitions):
        with _sharing(build, perf) as nodes:
            _fill(perf, nodes["holder"], ONE_PAGES)
            one = perf("get", socket=nodes["reader"].socket, **ONE_PAGES, seconds=0)
            before = nodes["holder"].counters()["served_pages"]
            got = _shared_get(perf, nodes["reader"], ENGINES)
            times.add(_complete(one, "GET by one engine")["gb_per_s"], got)
            wire.add(SHARED_PAGES["pages"], nodes["holder"].counters()["served_pages"] - before)
        limit = perf("memcpy", **SHARED_PAGES, threads=2, seconds=seconds, warmup=0.2)
        both.add(limit["gb_per_s"], got)
    yield wire
    yield both
    yield times


# A link slow enough that one engine leaves cores for the copies of eight.
LINK_GIGABITS = 10


def _link_rows(build: Path, perf: Perf, repetitions: int, _: float) -> Iterator[Row]:
    """The same where the network is what bounds an engine, as it does on a GPU node: each page
    crosses the link once, so that what it carries is worth up to eight times as much.
    """
    row = Row(f"GET by 8 sharing engines, {LINK_GIGABITS} Gbit/s link", "GB/s", "one engine", 3.0)
    with limited_link(LINK_GIGABITS) as link:
        places = {"holder": link.far, "reader": link.near}
        for _repetition in turns([row], repetitions):
            with _sharing(build, perf, places) as nodes:
                # Pages that are read once are not kept: the one leaves nothing to the eight.
                one = _shared_get(perf, nodes["reader"], 1)
                row.add(one, _shared_get(perf, nodes["reader"], ENGINES))
    yield row


def _shared_get(perf: Perf, reader: BenchNode, engines: int) -> float:
    at = {"socket": reader.socket, **SHARED_PAGES, "seconds": 0}
    got = perf("get", **at, threads=engines, shared=True)
    return float(_complete(got, f"GET by {engines} engines")["gb_per_s"])


# A token of the test engine's MLA pool: 4 layers of 576 values of 2 bytes.
TOKEN_BYTES = 4608
# Tokens of a page: 126 KiB and just over 1 MiB.
ENGINE_PAGES = ((28, "128 KiB"), (228, "1 MiB"))


def _engine_rows(
    build: Path, perf: Perf, engine: Engine, repetitions: int, seconds: float
) -> Iterator[Row]:
    """The rates that Python and SGLang's HiCacheController leave of the data plane's.

    The limit of a prefetch is the same controller on a dictionary in its process, or a bare
    connection if that is slower: bytes of another node come no faster than a connection brings
    them. The row beside shows the share of the dictionary alone.
    """
    for tokens, label in ENGINE_PAGES:
        with loopback_nodes(build, {"holder": "2Gi", "reader": "64Mi"}) as nodes:
            at = {"writer": nodes["holder"].socket, "reader": nodes["reader"].socket}
            name = f"HiCacheController prefetch, {label}"
            prefetch = Row(name, "GB/s", "dictionary or bare TCP", 0.85)
            beside = Row(f"{name}, alone", "GB/s", "dictionary", 0.85, held=False)
            page_bytes = tokens * TOKEN_BYTES
            pages = 512 * MIB // page_bytes
            shape = {"page_bytes": page_bytes, "pages": pages, "window": pages}
            bare_shape = {**shape, "batch": CONTROLLER_BATCH, "seconds": seconds, "warmup": 0.2}
            for _ in turns([prefetch], 1):
                got = engine("controller", **at, page_size=tokens, pages=pages, rounds=repetitions)
                pairs = zip(got["dict_gb_per_s"], got["peercache_gb_per_s"], strict=True)
                with perf.repeated("tcp", **bare_shape) as sent:
                    for limit, value in pairs:
                        prefetch.add(min(limit, sent()["gb_per_s"]), value)
                        beside.add(limit, value)
            yield prefetch
            yield beside
    with loopback_nodes(build, {"holder": "2Gi", "reader": "64Mi"}) as nodes:
        at = {"writer": nodes["holder"].socket, "reader": nodes["reader"].socket}
        tokens = ENGINE_PAGES[0][0]
        shape = {"page_bytes": tokens * TOKEN_BYTES, "pages": 2048, "window": 2048, "batch": 32}
        _fill(perf, nodes["holder"], shape)
        costs = {
            batch: Row(
                f"batch_get_v1 of {batch} pages of 128 KiB", "us", "Client::Get in C++", 1.03,
                at_least=False, held=batch == CONTROLLER_BATCH,
            )
            for batch in (CONTROLLER_BATCH, SMALL_BATCH)
        }  # fmt: skip
        steps = [
            Row(f"batch_get_v1 by {more} threads, pages of their own", "GB/s", f"by {few}", 1.0)
            for few, more in ((1, 2), (2, 4))
        ]
        for _ in turns([*costs.values(), *steps], repetitions):
            for batch, cost in costs.items():
                # Both sides of each ratio are measured in turns, by one process that steers them.
                got = engine("call", **at, page_size=tokens, pages=2048, batch=batch, rounds=5)
                cost.add(_steady(got["native_us"]), _steady(got["batch_get_v1_us"]))
            # The last ones are the small calls': large calls share out less evenly.
            rates = [statistics.median(got["gb_per_s_by_threads"][count]) for count in "124"]
            for row, (few, more) in zip(steps, pairwise(rates), strict=True):
                row.add(few, more)
        yield from (*costs.values(), *steps)


def _steady(turns_us: list[float]) -> float:
    """The mean without the highest and the lowest tenth.

    Three processes on two processors have a fast and a slow way to take turns. A median is of one
    of the two, whichever a few turns decide.
    """
    tenth = len(turns_us) // 10
    return statistics.fmean(sorted(turns_us)[tenth : len(turns_us) - tenth])


def _fill(perf: Perf, node: BenchNode, shape: dict[str, int]) -> None:
    done = perf("set", **shape, socket=node.socket, seconds=0)
    _complete(done, f"filling node {node.name}")

"""others: PeerCache beside Mooncake Store and the original PeerCache, in turns on this machine.

Each store runs as its documentation says, over TCP on loopback: a holder and a reader, each in a
process of its own, and what else it needs. One script drives all of them (others_worker.py), with
the same calls, and compares the bytes that came.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from peercache_bench import report
from peercache_bench.errors import BenchError
from peercache_bench.idle import polling_idle
from peercache_bench.nodes import cpu_seconds, loopback_nodes
from peercache_bench.perf import LIMIT_SECONDS, Result, ask, asked
from peercache_bench.ports import free_port
from peercache_bench.rows import Row, turns
from peercache_bench.units import KIB, MIB

WORKER = Path(__file__).with_name("others_worker.py")
READY_SECONDS = 60
# Pages in a call: of SGLang's controller, and of a call of large pages.
SHAPES = ((128 * KIB, 128, "128 KiB x 128"), (MIB, 32, "1 MiB x 32"))
WARM_UPS = 5


@dataclass(frozen=True)
class Sizes:
    """Bytes of the pages of one size, of the reader's host pool, and of a holder's pool.

    Each pool keeps pages of both sizes: ours up to its low watermark of 75 %, beside a tenth.
    """

    pages: int = 512 * MIB
    window: int = 128 * MIB
    pool: int = 2048 * MIB


@dataclass(frozen=True)
class Stores:
    """The interpreters that have the others' packages; None: that store is left out."""

    mooncake: Path | None
    original: Path | None


class Worker:
    """A process of a store, and what it is asked. What it says goes to the log."""

    def __init__(self, process: subprocess.Popen[str], command: Sequence[str], log: Path) -> None:
        self.process = process
        self._command = command
        self._log = log
        self._ask("")

    def __call__(self, do: str, **options: float) -> Result:
        return self._ask(json.dumps({"do": do, **options}) + "\n")

    def _ask(self, line: str) -> Result:
        return ask(self.process, self._command, line, LIMIT_SECONDS, self._said)

    def _said(self) -> str:
        return self._log.read_text(errors="replace")[-2000:]


# Pages that were asked for while a store was measured, and were no hits, or had other bytes.
Faults = dict[str, float]


@dataclass
class Store:
    """A running store: who reads, and the processes whose CPU time reads cost."""

    title: str
    holder: Worker
    reader: Worker
    pids: Sequence[int]
    faults: Faults = field(default_factory=lambda: {"missed": 0, "wrong": 0})

    def warm_up(self, **shape: float) -> None:
        """Reads until all pages are hits: the first calls connect, and the original's miss."""
        for _ in range(WARM_UPS):
            result = self.reader("get", **shape)
            if result["hits"] == result["asked"]:
                return

    def get(self, **shape: float) -> tuple[float, float]:
        """GB/s, and CPU seconds of all its processes for a GB."""
        before = sum(map(cpu_seconds, self.pids))
        result = self.reader("get", **shape)
        used = sum(map(cpu_seconds, self.pids)) - before
        self._count(result)
        gigabytes = result["hits"] * shape["page_bytes"] / 1e9
        return gigabytes / result["seconds"], used / gigabytes

    def exists(self, **shape: float) -> float:
        """Keys a second."""
        result = self.reader("exists", **shape)
        self._count(result)
        rate: float = result["hits"] / result["seconds"]
        return rate

    def _count(self, result: Result) -> None:
        self.faults["missed"] += result["asked"] - result["hits"]
        self.faults["wrong"] += result["wrong"]
        if not result["hits"]:
            raise BenchError(f"{self.title}: none of {result['asked']:.0f} pages was a hit")


@contextlib.contextmanager
def _peercache(build: Path, sizes: Sizes, folder: Path) -> Iterator[Store]:
    pools = {"holder": f"{sizes.pool // MIB}Mi", "reader": "64Mi"}
    with loopback_nodes(build, pools) as nodes, contextlib.ExitStack() as stack:
        where = {
            "extension": str((build / "python").resolve()),
            **{name: str(node.socket) for name, node in nodes.items()},
        }
        python = "/usr/bin/python3"  # what the extension is built for
        holder, reader = _workers(stack, python, "peercache", where, sizes, folder)
        pids = [node.pid for node in nodes.values()]
        yield Store("PeerCache", holder, reader, [*pids, holder.process.pid, reader.process.pid])


@contextlib.contextmanager
def _mooncake(python: Path, sizes: Sizes, folder: Path) -> Iterator[Store]:
    port = free_port()
    command = [
        str(python.with_name("mooncake_master")),
        "--rpc_address=127.0.0.1",
        f"--rpc_port={port}",
        f"--metrics_port={free_port()}",
    ]
    log = folder / "master.log"
    with contextlib.ExitStack() as stack:
        with log.open("wb") as output:
            master = subprocess.Popen(
                command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )
        stack.callback(master.wait)
        stack.callback(master.kill)
        await_port(port, "Mooncake's master", log)
        where = {"master": f"127.0.0.1:{port}"}
        holder, reader = _workers(stack, python, "mooncake", where, sizes, folder)
        pids = [master.pid, holder.process.pid, reader.process.pid]
        yield Store("Mooncake Store", holder, reader, pids)


@contextlib.contextmanager
def _original(python: Path, sizes: Sizes, folder: Path) -> Iterator[Store]:
    """Its stores bring their discovery with them: the first one listens."""
    with contextlib.ExitStack() as stack:
        where = {"meta": f"127.0.0.1:{free_port()}"}
        holder, reader = _workers(stack, python, "original", where, sizes, folder)
        pids = [holder.process.pid, reader.process.pid]
        yield Store("original PeerCache", holder, reader, pids)


def _workers(
    stack: contextlib.ExitStack,
    python: Path | str,
    arm: str,
    where: dict[str, Any],
    sizes: Sizes,
    folder: Path,
) -> list[Worker]:
    given = json.dumps({**where, "window": sizes.window, "pool": sizes.pool})
    workers = []
    for role in ("holder", "reader"):
        log = folder / f"{arm}-{role}.log"
        # The folder of our package is not for the original's interpreter.
        command = ["env", "-u", "PYTHONPATH", str(python), str(WORKER), arm, role, given]
        process = stack.enter_context(asked(command, stack.enter_context(log.open("w"))))
        workers.append(Worker(process, command, log))
    return workers


def await_port(port: int, what: str, log: Path) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise BenchError(f"{what} does not listen; output:\n{log.read_text(errors='replace')[-2000:]}")


def measure(
    build: Path,
    stores: Stores,
    repetitions: int,
    seconds: float,
    sizes: Sizes,
    faults: dict[str, Faults],
) -> Iterator[Row]:
    """Each row: PeerCache's figure, and as its limit the other store's. Fills ``faults``."""
    with (
        polling_idle(),
        tempfile.TemporaryDirectory(prefix="peercache-others-") as name,
        contextlib.ExitStack() as stack,
    ):
        folder = Path(name)
        ours = stack.enter_context(_peercache(build, sizes, folder))
        others = []
        if stores.mooncake:
            others.append(stack.enter_context(_mooncake(stores.mooncake, sizes, folder)))
        if stores.original:
            others.append(stack.enter_context(_original(stores.original, sizes, folder)))
        faults |= {store.title: store.faults for store in (ours, *others)}
        for page_bytes, batch, label in SHAPES:
            shape = {"page_bytes": page_bytes, "pages": sizes.pages // page_bytes, "batch": batch}
            for store in (ours, *others):
                if store.holder("fill", **shape)["pages"] != shape["pages"]:
                    raise BenchError(f"{store.title} has not taken all pages")
            yield from _get_rows(ours, others, {**shape, "seconds": seconds}, label, repetitions)
        page_bytes, batch, _ = SHAPES[0]  # the smaller pages are more
        shape = {"page_bytes": page_bytes, "pages": sizes.pages // page_bytes, "batch": batch}
        yield from _exists_rows(ours, others, {**shape, "seconds": seconds}, repetitions)


def _get_rows(
    ours: Store, others: Sequence[Store], shape: dict[str, float], label: str, repetitions: int
) -> list[Row]:
    name = f"GET from another node, {label}"
    rates = [Row(name, "GB/s", store.title, 1.0) for store in others]
    costs = [Row(f"CPU of {name}", "s/GB", store.title, 1.0, at_least=False) for store in others]
    for store in (ours, *others):
        store.warm_up(**shape)
    for _ in turns([*rates, *costs], repetitions):
        for store, rate, cost in zip(others, rates, costs, strict=True):
            (their_rate, their_cost), (our_rate, our_cost) = store.get(**shape), ours.get(**shape)
            rate.add(their_rate, our_rate)
            cost.add(their_cost, our_cost)
    return [*rates, *costs]


def _exists_rows(
    ours: Store, others: Sequence[Store], shape: dict[str, float], repetitions: int
) -> list[Row]:
    name = f"EXISTS on another node, batches of {shape['batch']}"
    rows = [Row(name, "keys/s", store.title, 1.0) for store in others]
    for _ in turns(rows, repetitions):
        for store, row in zip(others, rows, strict=True):
            row.add(store.exists(**shape), ours.exists(**shape))
    return rows


def add_command(commands: Any) -> None:
    sub = commands.add_parser(
        "others", help="beside Mooncake Store and the original PeerCache, in turns on this machine",
        description="Runs the other stores' packages, which hack/lab/others/install.sh installs.",
    )  # fmt: skip
    sub.add_argument("--build", type=Path, required=True, help="folder with peercached")
    sub.add_argument("--mooncake", type=Path, metavar="PYTHON", help="interpreter that has it")
    sub.add_argument("--original", type=Path, metavar="PYTHON", help="interpreter that has it")
    sub.add_argument("--out", type=Path, required=True, help="folder for others.json and .png")
    sub.add_argument("--repetitions", type=int, default=5, help="of every row (default: 5)")
    sub.add_argument("--seconds", type=float, default=1.0, help="of one measurement (default: 1)")
    sub.add_argument(
        "--pages-mib", type=int, default=512, help="bytes that are read (default: 512)"
    )
    sub.set_defaults(parser=sub, run=_run)


def _run(arguments: argparse.Namespace) -> int:
    stores = Stores(arguments.mooncake, arguments.original)
    if not (stores.mooncake or stores.original):
        raise BenchError("name at least one of --mooncake and --original")
    pages = arguments.pages_mib * MIB
    sizes = Sizes(pages, min(pages, Sizes.window), 4 * pages)
    start = time.monotonic()
    rows = []
    faults: dict[str, Faults] = {}
    how = (arguments.build, stores, arguments.repetitions, arguments.seconds, sizes, faults)
    for row in measure(*how):
        rows.append(row)
        spent = time.monotonic() - start
        print(f"    [{spent:4.0f} s] {row.name}: {row.ratio:.2f} of {row.limit_name}", flush=True)
    notes = [
        f"{title}: {found['missed']:,.0f} misses, {found['wrong']:,.0f} wrong pages"
        for title, found in faults.items()
    ]
    seconds = time.monotonic() - start
    status = report.publish(rows, seconds, arguments.out, "others", notes, faults=faults)
    return status or int(any(faults["PeerCache"].values()))

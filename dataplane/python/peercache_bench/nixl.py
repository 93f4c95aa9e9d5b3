"""nixl: NIXL's own agent on two nodes of this machine, in the shape of nixlbench's tables.

Each block size is written and read in batches. A batch of a WRITE is of as many objects. A batch of
a READ names one object in all its descriptors, as nixlbench's does: the plugin fetches it once, so
bytes that were delivered and bytes that crossed the network are told apart. The last column reads
as many objects in one batch, which nothing joins.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peercache_bench.nodes import BenchNode, loopback_nodes
from peercache_bench.perf import LIMIT_SECONDS, Result, ask, asked
from peercache_bench.tables import markdown
from peercache_bench.units import KIB, MIB, count, counts, number, size_text, sizes

WORKER = Path(__file__).with_name("nixl_worker.py")
PLUGINS = ("libplugin_PEERCACHE.so", "libpeercache.so.0")
HEADER = (
    "block", "batch", "WRITE GB/s", "READ, delivered GB/s", "READ, wire GB/s", "READ of many GB/s",
    "failed", "wrong",
)  # fmt: skip


@dataclass(frozen=True)
class Shape:
    """What is measured. ``bytes``: written, and read, for each cell of the table."""

    sizes: Sequence[int]
    batches: Sequence[int]
    bytes: int


@dataclass
class Cell:
    """Figures of one block size and batch. Rates are in GB/s."""

    size: int
    batch: int
    write: float
    delivered: float
    wire: float
    many: float
    failed: int
    wrong: int

    def row(self) -> list[str]:
        rates = (self.write, self.delivered, self.wire, self.many)
        counted = (self.failed, self.wrong)
        return [
            size_text(self.size), str(self.batch), *map(number, rates), *map(str, counted)
        ]  # fmt: skip


class Agent:
    """A process with an agent, and what it is asked."""

    def __init__(self, process: subprocess.Popen[str], command: Sequence[str], log: Path) -> None:
        self._process, self._command, self._log = process, command, log
        self._ask("")

    def __call__(self, do: str, **options: object) -> Result:
        return self._ask(json.dumps({"do": do, **options}) + "\n")

    def _ask(self, line: str) -> Result:
        return ask(self._process, self._command, line, LIMIT_SECONDS, self._said)

    def _said(self) -> str:
        return self._log.read_text(errors="replace")[-2000:]


@contextlib.contextmanager
def _agent(python: Path, plugins: Path, node: BenchNode, memory: int) -> Iterator[Agent]:
    log = plugins / f"{node.name}.log"
    env = ["env", "-u", "PYTHONPATH", f"NIXL_PLUGIN_DIR={plugins}"]
    command = [*env, str(python), str(WORKER), str(node.socket), str(memory)]
    with log.open("w") as output, asked(command, output) as process:
        yield Agent(process, command, log)


def measure(build: Path, python: Path, shape: Shape) -> Iterator[Cell]:
    """Every cell of the table, small blocks first."""
    memory = max(shape.sizes) * max(shape.batches)
    # What is written for a cell and for the one before, below the pool's watermark.
    pool = f"{max(8 * shape.bytes, 4 * memory) // MIB + 64}Mi"
    pools = {"holder": pool, "reader": "64Mi"}
    with contextlib.ExitStack() as stack:
        nodes = stack.enter_context(loopback_nodes(build, pools))
        plugins = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="peercache-nixl-")))
        for name in PLUGINS:
            (plugins / name).symlink_to((build / name).resolve(strict=True))
        holder, reader = (
            stack.enter_context(_agent(python, plugins, nodes[name], memory)) for name in pools
        )
        for size in shape.sizes:
            for batch in shape.batches:
                yield _cell(holder, reader, nodes["holder"], size, batch, shape.bytes)


def _cell(
    holder: Agent, reader: Agent, node: BenchNode, size: int, batch: int, wanted: int
) -> Cell:
    requests = max(wanted // (size * batch), 1)
    total = requests * batch * size
    one = [f"one-{size}-{batch}-{i}" for i in range(requests)]
    many = [f"many-{size}-{batch}-{i}" for i in range(requests * batch)]
    for_one: dict[str, Any] = {"size": size, "together": 1, "ranges": batch}
    for_many: dict[str, Any] = {"size": size, "together": batch, "ranges": 1}
    written = holder("WRITE", objects=many, **for_many)
    alone = holder("WRITE", objects=one, **{**for_one, "ranges": 1})
    before = node.counters()["served_bytes"]
    read = reader("READ", objects=one, **for_one)
    crossed = node.counters()["served_bytes"] - before
    read_many = reader("READ", objects=many, **for_many)
    all_of = (written, alone, read, read_many)
    return Cell(
        size,
        batch,
        write=total / written["seconds"] / 1e9,
        delivered=total / read["seconds"] / 1e9,
        wire=crossed / read["seconds"] / 1e9,
        many=total / read_many["seconds"] / 1e9,
        failed=sum(int(result["failed"]) for result in all_of),
        wrong=sum(int(result["wrong"]) for result in all_of),
    )


def add_command(commands: Any) -> None:
    sub = commands.add_parser(
        "nixl", help="NIXL's agent on two nodes of this machine, as nixlbench's tables have it",
        description="Runs NIXL's package, which hack/lab/nixl/install.sh installs. Compares every "
        "byte that is read.",
    )  # fmt: skip
    sub.add_argument(
        "--build", type=Path, required=True, help="folder with peercached and the plugin"
    )
    sub.add_argument(
        "--python", type=Path, required=True, metavar="PYTHON", help="interpreter that has NIXL"
    )
    sub.add_argument(
        "--sizes", type=sizes, default=tuple(4 * KIB << i for i in range(0, 11, 2)),
        metavar="4k,1m", help="of blocks (default: 4k to 4m, each four times the one before)",
    )  # fmt: skip
    sub.add_argument("--batches", type=counts, default=(1, 16), help="(default: 1,16)")
    sub.add_argument(
        "--mib", type=count, default=64, help="written and read for each row (default: 64)"
    )
    sub.set_defaults(parser=sub, run=_run)


def _run(arguments: argparse.Namespace) -> int:
    shape = Shape(arguments.sizes, arguments.batches, arguments.mib * MIB)
    cells = list(measure(arguments.build, arguments.python, shape))
    print(markdown(HEADER, [cell.row() for cell in cells]))
    return int(any(cell.failed or cell.wrong for cell in cells))

"""Figures that others have published, and what measures the same here. Data and shapes; pure.

A table has cells, each with the figure of its document and the step that measures its own. The
documents: the performance baseline of the original PeerCache (two hosts of eight 400 Gb/s ports),
the block sizes of MemKV (one GPU node, two ports of 400 Gb/s, 64 threads), iperf over virtual
machines with SR-IOV (400 Gb/s), and single requests of Mooncake's PeerClient (one host, its own
port of 25 Gb/s), each as it stood when this was written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from peercache_bench.plan import WIDEST
from peercache_bench.units import KIB, MIB, size_text

# Why rows that are theirs alone have no figure of ours.
ELSEWHERE = "another machine"
STAY = (
    "sets stay on the node of their machine, and cross no network: `sweep --op set` measures them"
)


@dataclass(frozen=True)
class Step:
    """What both hosts do together for some cells."""

    kind: str  # get | bare (ib_read_bw) | iperf3; async, which is of one host
    ports: int = 0  # RDMA ports, the first so many of --devices; 0: over TCP
    page_bytes: int = 128 * KIB
    batch: int = 32
    threads: tuple[int, ...] = (1,)  # of each process, one after the other
    processes: int = 1
    # A pair of nodes for each port, all at once, each on the NUMA node of its port.
    pairs: bool = False
    bound: bool = False  # processes stay on the NUMA node of the first port, or of --numa-node
    servers: int = 1  # the first so many of --host, each with its share of the threads
    gpu: bool = False  # pages come into its memory
    checksums: str = ""  # the nodes' option; empty: as it is
    far: bool = False  # of who measures: on another NUMA node than `bound` says

    @property
    def title(self) -> str:
        over = f"{self.ports} RDMA port{'s' if self.ports > 1 else ''}" if self.ports else "TCP"
        if self.kind == "async":
            return f"single requests of {size_text(self.page_bytes)} over {over}"
        parts = [
            f"{self.kind} over {over}, {size_text(self.page_bytes)}",
            f"{self.processes} processes" if self.processes > 1 else "",
            f"threads {', '.join(map(str, self.threads))}",
            "a pair of nodes for each port" if self.pairs else "",
            "on one NUMA node" if self.bound and not self.pairs and not self.far else "",
            "from a far NUMA node" if self.far else "",
            f"checksums {self.checksums}" if self.checksums else "",
            f"{self.servers} servers" if self.servers > 1 else "",
            "into a GPU" if self.gpu else "",
        ]
        return ", ".join(filter(None, parts))


@dataclass(frozen=True)
class Cell:
    row: str
    column: str
    theirs: float | None
    step: Step | None = None
    which: int | str = 1  # of the step's figures: by threads, or by the name of a mode
    why: str = ""  # there is no step
    x: float = 0  # where it is in a chart


@dataclass(frozen=True)
class Table:
    name: str
    title: str
    source: str
    unit: str
    scale: float  # bytes a second in one unit
    cells: tuple[Cell, ...]
    x_label: str = ""  # of its chart; empty: bars
    down: bool = False  # x grows from row to row, not from column to column

    @property
    def steps(self) -> list[Step]:
        """Each once, in the order of the cells."""
        return list(dict.fromkeys(cell.step for cell in self.cells if cell.step))


def original(ports: int) -> Table:
    """Its ladder, from one port to the whole machine."""
    all_ports = f"{ports} port{'s' if ports > 1 else ''}"
    column = "GET"
    cells = [
        Cell("bare ib_read_bw, 1 port, 16 QP", column, 49.0, Step("bare", 1)),
        Cell(
            "1 port, 8 processes x 4 threads, 128 KiB", column, 46.0,
            Step("get", 1, threads=(4,), processes=8), 4,
        ),
        Cell(
            f"1 process, {all_ports}, 4 threads, 128 KiB x 32", column, 40.4,
            Step("get", ports, threads=(4,)), 4,
        ),
        Cell(
            f"1 process, {all_ports}, 2 threads, 1 MiB x 128", column, 147.6,
            Step("get", ports, MIB, 128, threads=(2,)), 2,
        ),
        Cell(
            f"{all_ports}, 8 processes each, 128 KiB", column, 413.1,
            Step("get", ports, processes=8, pairs=True, bound=True),
        ),
        Cell(
            f"1 process, {all_ports}, 1 MiB, into a GPU", column, 49.5,
            Step("get", ports, MIB, 128, threads=(2,), gpu=True), 2,
        ),
    ]  # fmt: skip
    return Table(
        "original", "From one port to the whole machine",
        "the original PeerCache, 8 bonded ports of 400 Gb/s", "GB/s", 1e9, tuple(cells),
    )  # fmt: skip


# Block size in KiB: RDMA write, RDMA read, TCP write, TCP read, in GiB/s.
_BLOCKS = {
    4: (0.50, 0.68, 1.03, 1.10), 8: (0.94, 1.36, 2.19, 2.11), 16: (1.98, 2.71, 3.77, 3.95),
    32: (3.89, 5.38, 7.66, 7.77), 64: (7.75, 10.83, 10.39, 13.56),
    128: (15.92, 19.83, 12.16, 21.00), 256: (29.52, 35.76, 14.61, 24.50),
    512: (50.70, 57.61, 15.34, 26.72), 1024: (78.32, 80.36, 16.10, 27.14),
    2048: (93.25, 92.53, 16.29, 27.34), 4096: (93.86, 94.99, 16.34, 28.59),
    8192: (95.91, 96.01, 10.59, 22.16), 16384: (96.61, 96.47, 10.59, 21.84),
}  # fmt: skip
# Batches of larger pages are cut to this, as `sweep` cuts them.
_BATCH_BYTES = 64 * MIB


BLOCKS = tuple(kib * KIB for kib in _BLOCKS)


def blocks(ports: int, threads: int, sizes: Sequence[int] = BLOCKS) -> Table:
    """Reads by the size of a page, of those in BLOCKS, over both transports."""
    cells = []
    for bytes_ in sizes:
        rdma_write, rdma_read, tcp_write, tcp_read = _BLOCKS[bytes_ // KIB]
        batch = max(min(32, _BATCH_BYTES // bytes_ // threads), 1)
        row = size_text(bytes_)
        no_ports = "" if ports else "name the ports by --devices"
        rdma = Step("get", ports, bytes_, batch, (threads,)) if ports else None
        tcp = Step("get", 0, bytes_, batch, (threads,))
        cells += [
            Cell(row, "RDMA write", rdma_write, why=STAY, x=bytes_),
            Cell(row, "RDMA read", rdma_read, rdma, threads, no_ports, bytes_),
            Cell(row, "TCP write", tcp_write, why=STAY, x=bytes_),
            Cell(row, "TCP read", tcp_read, tcp, threads, x=bytes_),
        ]
    return Table(
        "blocks", "Reads and writes by the size of a page",
        "MemKV, two servers, two ports of 400 Gb/s, 64 threads", "GiB/s", 1 << 30,
        tuple(cells), x_label="page", down=True,
    )  # fmt: skip


# Servers: GiB/s of writes and of reads, with as many blocks under way and as large as is best.
_SERVERS = {1: (47.9, 48.4), 2: (95.8, 96.7)}


def servers(ports: int, count: int, threads: int) -> Table:
    """Reads of one host from more and more others, over both transports."""
    cells = []
    for n in range(1, count + 1):
        write, read = _SERVERS.get(n, (None, None))
        row = f"{n} server{'s' if n > 1 else ''}"
        each = max(threads // n, 1)
        no_ports = "" if ports else "name the ports by --devices"
        tcp = Step("get", 0, 4 * MIB, 4, (each,), servers=n)
        rdma = replace(tcp, ports=ports) if ports else None
        cells += [
            Cell(row, "RDMA write", write, why=STAY, x=n),
            Cell(row, "RDMA read", read, rdma, each, no_ports, n),
            Cell(row, "TCP read", None, tcp, each, x=n),
        ]
    return Table(
        "servers", "Reads of one host by how many serve",
        "MemKV, two ports of 400 Gb/s, 64 threads", "GiB/s", 1 << 30, tuple(cells),
        x_label="servers", down=True,
    )  # fmt: skip


THREADS = (1, 2, 4, 8, 10, 12, 16, 20, 24)
_IPERF = {
    "bare metal": (18.9, 39.2, 93.9, 176, 190, 225, 313, 381, 395),
    "virtual machine, MTU 1500": (10.5, 8.89, 8.68, 8.52, 8.45, 8.41, 8.4, 8.23, 8.23),
    "virtual machine, MTU 9000": (16.2, 17, 14, 14.1, 13.2, 13.8, 14, 13.3, 13.4),
    "virtual machine, SR-IOV and NUMA": (37.1, 67.8, 122, 199, 197, 262, 290, 331, 349),
}


def threads(counts: Sequence[int]) -> Table:
    """GETs over TCP by threads, beside iperf3 on the same path, with and without NUMA binding."""
    cells = []
    for row, figures in _IPERF.items():
        theirs = dict(zip(THREADS, figures, strict=True))
        cells += [
            Cell(f"published, {row}", str(n), theirs[n], why=ELSEWHERE, x=n)
            for n in counts
            if n in theirs
        ]
    for kind, name in (("iperf3", "iperf3 here"), ("get", "GET here")):
        for bound in (False, True):
            step = Step(kind, threads=tuple(counts), bound=bound)
            row = f"{name}, on one NUMA node" if bound else name
            cells += [Cell(row, str(n), None, step, n, x=n) for n in counts]
    return Table(
        "threads", "Over TCP, by threads", "iperf over SR-IOV, 400 Gb/s", "Gbit/s", 1e9 / 8,
        tuple(cells), x_label="threads",
    )  # fmt: skip


CALLS = (1, 2, 4, 8, 16, 32)


def gets(ports: int, counts: Sequence[int]) -> Table:
    """Whole GETs by calls at once: what checksums and NUMA nodes make of them. Of nobody else."""
    cells = []
    whole = Step("get", ports, threads=tuple(counts))
    for row, step in (
        ("as nodes are", whole),
        ("checksums off", replace(whole, checksums="off")),
        ("checksums of all pages", replace(whole, checksums="all")),
        ("on the near NUMA node", replace(whole, bound=True)),
        ("on a far NUMA node", replace(whole, bound=True, far=True)),
    ):
        cells += [Cell(row, str(n), None, step, n, x=n) for n in counts]
    return Table(
        "gets", "GETs by calls at once, 128 KiB x 32", "", "GB/s", 1e9, tuple(cells),
        x_label="calls at once",
    )  # fmt: skip


REQUESTS, WINDOWS = (1, 10, 50, 100), (5, 10, 25)
# The widest of theirs, and why it is not measured.
_WIDER, _TOO_WIDE = 50, f"an AsyncClient has {WIDEST} requests at work at most"
# Page in KiB: MB/s of (sync, async) by requests; of windows, for the most; of the batch.
_SINGLE = {
    32: (((135, 139), (151, 478), (153, 625), (155, 658)), (389, 513, 580, 636), 136),
    64: (((311, 306), (310, 973), (309, 1261), (303, 1290)), (729, 1019, 1157, 1287), 279),
    256: (((1216, 1127), (1158, 3236), (1002, 4698), (1049, 5081)), (2822, 4060, 4712, 5028), 1208),
    1024: (
        ((2572, 2522), (2560, 5324), (2560, 5828), (2434, 5796)), (4637, 5200, 5594, 5727), 2489,
    ),
}  # fmt: skip


def requests(ports: int) -> Table:
    """Single requests: one by one, submitted together, by window, and as one batch."""
    cells = []
    for kib, (pairs, windows, batch) in _SINGLE.items():
        step = Step("async", ports, kib * KIB)
        for n, (sync, together) in zip(REQUESTS, pairs, strict=True):
            row = f"{size_text(kib * KIB)} x {n}"
            cells += [
                Cell(row, "sync", sync, step, f"sync {n}"),
                Cell(row, "async", together, step, f"async {n}"),
            ]
        cells.append(Cell(row, "batch", batch, step, f"batch {n}"))
        *narrow, wide = windows
        cells += [
            Cell(row, f"window {w}", theirs, step, f"windowed {w}")
            for w, theirs in zip(WINDOWS, narrow, strict=True)
        ]
        cells.append(Cell(row, f"window {_WIDER}", wide, why=_TOO_WIDE))
    return Table(
        "async", "Single requests", "Mooncake's PeerClient, one host, a port of 25 Gb/s", "MB/s",
        1e6, tuple(cells),
    )  # fmt: skip

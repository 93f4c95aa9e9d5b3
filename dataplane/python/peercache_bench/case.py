"""Case: one thing that is measured, and what bounds it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from peercache_bench.units import size_text

# Operations that move pages, and those that measure the machine without PeerCache.
MOVES = frozenset({"set", "get", "memcpy", "tcp"})
BARE = frozenset({"memcpy", "tcp", "pingpong"})

_NAMES = {
    "memcpy": "memcpy",
    "tcp": "bare TCP",
    "pingpong": "bare TCP ping-pong",
    "rpc-latency": "lookup at a peer, one in flight",
    "rpc-rate": "lookups at a peer, many in flight",
}


@dataclass(frozen=True)
class Case:
    """The same case in two runs is the same measurement on two machines or two versions."""

    op: str  # a measurement of peercache-perf
    page_bytes: int = 128 << 10
    batch: int = 32  # pages in one call
    threads: int = 1  # of each process
    processes: int = 1
    pages: int = 4096  # the working set, over all threads and processes
    layout: str = "mla"
    segments: int = 1  # of a page in the engine's host pool
    tokens_per_page: int = 64
    source: str = "remote"  # whose pool get and exists ask for: remote | local
    transport: str = "tcp"  # what nodes are told: tcp | rdma | auto
    mode: str = ""  # of async: sync | async | windowed | batch
    window: int = 0  # of async: requests at work at once
    requests: int = 0  # of async: how many are outstanding together
    lookups: str = ""  # how nodes look keys up: rpc | one-sided; empty: as they are told
    gpu: bool = False  # pages come into its memory, not the host's

    @property
    def title(self) -> str:
        return ", ".join(filter(None, (self.name, self.load)))

    @property
    def name(self) -> str:
        """The title without the load: the name of a line in charts."""
        over = f"over {self.transport}" if self.transport != "tcp" else ""
        to = "into a GPU" if self.gpu else ""
        return " ".join(filter(None, (self.subject, self.shape, over, to)))

    @property
    def subject(self) -> str:
        if self.op in _NAMES:
            return _NAMES[self.op]
        place = "" if self.op == "set" else f" {self.source}"
        how = f" {self.lookups}" if self.lookups else ""
        return f"{self.op.upper()}{place}{how}{f' {self.mode}' if self.mode else ''}"

    @property
    def shape(self) -> str:
        """Pages and batch, where they matter."""
        if self.op in _NAMES and self.op not in MOVES:
            return ""
        if self.mode:
            return f"{size_text(self.page_bytes)} x {self.requests}"
        if self.op == "exists":
            return f"x {self.batch}"
        layout = "" if self.segments == 1 else f" {self.layout}"
        return f"{size_text(self.page_bytes)} x {self.batch}{layout}"

    @property
    def load(self) -> str:
        parts = []
        if self.threads > 1:
            parts.append(f"{self.threads} threads")
        if self.processes > 1:
            parts.append(f"{self.processes} processes")
        if self.window:
            parts.append(f"window {self.window}")
        return ", ".join(parts)

    @property
    def engines(self) -> int:
        """Threads over all processes."""
        return self.threads * self.processes

    def limit(self) -> Case | None:
        """The same pages, batch and threads without PeerCache: the machine's limit."""
        if self.op not in ("set", "get") or self.gpu:
            return None
        remote = self.op == "get" and self.source == "remote"
        return Case(
            op="tcp" if remote else "memcpy",
            page_bytes=self.page_bytes,
            batch=self.requests or self.batch,
            threads=self.engines,
            pages=self.pages,
            layout=self.layout,
            segments=self.segments,
            tokens_per_page=self.tokens_per_page,
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Case:
        known = {k: v for k, v in values.items() if k in cls.__dataclass_fields__}
        return cls(**known)

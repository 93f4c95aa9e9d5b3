"""Runner: measures cases on nodes that run, and the bare limits beside them."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

from peercache_bench.case import BARE, Case
from peercache_bench.errors import BenchError
from peercache_bench.figures import Figures, combine, in_sequence, middle
from peercache_bench.nodes import CLUSTER, BenchNode
from peercache_bench.options import Settings
from peercache_bench.outcome import Outcome
from peercache_bench.perf import Options, Perf, Result
from peercache_bench.plan import shares
from peercache_bench.progress import Progress

# peercached's default lease.
LEASE_SECONDS = 1.0
SET_PASSES = 3
# A limit needs less time to measure, because it waits for nobody.
MOST_LIMIT_SECONDS = 2.0


@dataclass
class Runner:
    """``holder`` has the pages, ``reader`` asks for them; None if a command needs only one node."""

    perf: Perf
    settings: Settings
    progress: Progress
    holder: BenchNode | None = None
    reader: BenchNode | None = None
    lease_seconds: float = LEASE_SECONDS
    # HOST:PORT of a peercache-perf tcp-serve: bare TCP is measured from there. Empty: on loopback.
    bare_from: str = ""
    # The pages that the holder has, as the case that they were set for.
    _filled: Case | None = field(default=None, init=False)

    def measure(self, case: Case) -> Outcome:
        """One case with its limit; repeated in turns when the settings say so."""
        self.progress.begin(case)
        limits, values = [], []
        limit = case.limit() if self.settings.limits else None
        for _ in range(self.settings.repeat):
            if limit:
                limits.append(self._once(limit, limit_only=True))
            values.append(self._once(case))
        notes = []
        if self.settings.repeat > 1:
            rates = ", ".join(f"{v.rate:.4g}" for v in values)
            notes.append(f"repetitions: {rates}")
        return Outcome(case, middle(values), middle(limits) if limits else None, tuple(notes))

    def fill(self, case: Case) -> None:
        """Sets the case's pages, whose bytes every reader can check, unless they are there.

        Without a holder here, `serve` has set them elsewhere.
        """
        if self.holder is None:
            return
        holder = self.holder
        key = replace(_pages_of(case), op="set")
        if self._filled == key:
            return
        if self._filled is not None:
            self.clear()
        done = combine([self.perf("set", **self._fill_options(case), socket=holder.socket)])
        if done.hits != done.pages:
            raise BenchError(
                f"node {holder.name} has stored {done.hits} of {done.pages} pages: is its pool "
                "(--pool-size) at least twice the working set (--working-set, --page-size)?"
            )
        self._filled = key

    def clear(self) -> None:
        if self.holder:
            self.perf("clear", socket=self.holder.socket)
            # Until slots are free after a clear: the lease, and a little more.
            time.sleep(1.2 * self.lease_seconds)
        self._filled = None

    def _once(self, case: Case, limit_only: bool = False) -> Figures:
        seconds, warmup = self.settings.seconds, self.settings.warmup
        if case.op in BARE:
            if limit_only:
                seconds, warmup = min(seconds, MOST_LIMIT_SECONDS), min(warmup, 0.2)
            return self._bare(case, seconds, warmup)
        if case.op.startswith("rpc-"):
            return combine([self._rpc(case, seconds)])
        if case.op == "set":
            return self._set(case)
        self.fill(case)
        return self._engines(case, seconds=seconds, warmup=warmup)

    def _bare(self, case: Case, seconds: float, warmup: float) -> Figures:
        if case.op == "pingpong":
            return combine([self.perf("pingpong", seconds=seconds)])
        options = {**_shape(case), "pages": case.pages, "window": case.pages}
        if case.op == "tcp" and self.bare_from:
            options["from"] = self.bare_from
        result = self.perf(case.op, **options, seconds=seconds, warmup=warmup)
        return combine([result], case.tokens_per_page)

    def _rpc(self, case: Case, seconds: float) -> Result:
        node = self._node(self.holder, case)
        options: Options = {"port": node.peer_port, "cluster": CLUSTER, "cpu_of": node.pid}
        if case.op == "rpc-rate":
            options["in_flight"] = self.settings.in_flight
        return self.perf(case.op, **options, seconds=seconds)

    def _set(self, case: Case) -> Figures:
        """Passes over new pages: a page that is there already would not be stored again."""
        if self._filled is not None:
            self.clear()
        passes: list[Figures] = []
        warmed = self.settings.warmup == 0
        while len(passes) < SET_PASSES:
            done = self._engines(case, seconds=0, warmup=0)
            if self.settings.check:
                done = self._verified(case, done)
            self.clear()
            if warmed:
                passes.append(done)
            warmed = True  # the first pass has met every page of memory for the first time
        return in_sequence(passes)

    def _verified(self, case: Case, done: Figures) -> Figures:
        """Reads the pages back once and compares every byte; the time does not count."""
        whole = replace(case, op="get", source="local", mode="", window=0)
        read = self._engines(whole, seconds=0, warmup=0)
        if read.hits != done.hits:
            raise BenchError(f"{done.hits} pages were set, but {read.hits} can be read")
        return replace(done, wrong=read.wrong, checked=True)

    def _engines(self, case: Case, seconds: float, warmup: float) -> Figures:
        local = case.op == "set" or case.source == "local"
        node = self._node(self.holder if local else self.reader or self.holder, case)
        pids = [n.pid for n in (self.holder, self.reader) if n]
        check = self.settings.check and case.op in ("get", "set")
        each: list[Options] = []
        for first, pages in shares(case):
            options: Options = {
                **_shape(case),
                "pages": pages,
                "window": pages,
                "first_key": first,
                "socket": node.socket,
                "seconds": seconds,
                "warmup": warmup,
                "check": check,
                "gpu": case.gpu,
            }
            if not each:
                options["cpu_of"] = pids  # once, however many processes there are
            each.append(options)
        if case.mode:
            each = [{**options, **_requests(case)} for options in each]
        results = self.perf.together("async" if case.mode else case.op, each)
        return combine(results, case.tokens_per_page, checked=check and case.op == "get")

    def _fill_options(self, case: Case) -> Options:
        shape = {**_shape(case), "threads": 1, "pages": case.pages, "window": case.pages}
        return {**shape, "seconds": 0}

    def _node(self, node: BenchNode | None, case: Case) -> BenchNode:
        if node is None:
            raise BenchError(f"{case.title} needs a node")
        return node


def _shape(case: Case) -> Options:
    return {
        "page_bytes": case.page_bytes,
        "segments": case.segments,
        "batch": case.batch,
        "threads": case.threads,
    }


def _requests(case: Case) -> Options:
    """Options of `peercache-perf async`, whose batch is the number of outstanding requests."""
    mode = "async" if case.mode == "windowed" else case.mode
    options: Options = {"op": case.op, "mode": mode, "batch": case.requests}
    return {**options, "async_window": case.window} if case.window else options


def _pages_of(case: Case) -> Case:
    """The parts of a case that decide the content of the pool: keys, and bytes of each."""
    return Case(op=case.op, page_bytes=case.page_bytes, pages=case.pages)

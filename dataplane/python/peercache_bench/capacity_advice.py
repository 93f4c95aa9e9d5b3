"""What shared caches of several sizes save, and whether that is worth it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from peercache_bench.capacity_cluster import WINDOW_SECONDS, Cluster, Outcome, play
from peercache_bench.capacity_trace import Trace
from peercache_bench.charts import Chart, Line
from peercache_bench.units import GIB

# Pages fill this part of a full pool while sets are rare (docs/node-options.md).
FILL = 0.95
# Index and page tables add this part of a pool, and each member MEMBER_BYTES (docs/sizing.md).
OVERHEAD = 7 / 1024
MEMBER_BYTES = GIB
# A pool that reaches this share of what the largest saves is large enough.
ENOUGH = 0.95
# Less is lost in what the model leaves out.
LEAST_HOURS, LEAST_TTFT = 0.03, 0.05
TIB = 1024 * GIB


@dataclass(frozen=True)
class Prices:
    nodes: int
    gpus: int  # of a worker
    gpu_hour: float


@dataclass(frozen=True)
class Row:
    """One size of the shared cache, 0 first."""

    tokens: int
    outcome: Outcome


@dataclass(frozen=True)
class Advice:
    rows: tuple[Row, ...]
    enough: int  # index of the row to choose; 0: none
    reasons: tuple[str, ...]  # why it is not worth it; none where it is

    @property
    def saved_share(self) -> float:
        """Of the workers' time."""
        return 1 - self.rows[self.enough].outcome.busy / self.rows[0].outcome.busy


def advise(trace: Trace, cluster: Cluster, sizes: Sequence[int]) -> Advice:
    """Sizes in tokens, ascending, without 0."""
    rows = [Row(n, play(trace, replace(cluster, shared_tokens=n))) for n in (0, *sizes)]
    base = rows[0].outcome
    gains = [base.busy - row.outcome.busy for row in rows]
    enough = next(i for i, gain in enumerate(gains) if gain >= ENOUGH * max(gains))
    chosen = rows[enough].outcome
    hours = 1 - chosen.busy / base.busy
    ttft = 1 - chosen.quantile(0.5) / base.quantile(0.5)
    reasons: list[str] = []
    if (hours < LEAST_HOURS and ttft < LEAST_TTFT) or ttft < -LEAST_TTFT:
        reasons = _why(rows, cluster)
    return Advice(tuple(rows), 0 if reasons else enough, tuple(reasons))


def _why(rows: Sequence[Row], cluster: Cluster) -> list[str]:
    base, most = rows[0].outcome, max(rows, key=lambda row: row.outcome.hits).outcome
    computing = cluster.prefill.linear
    found = []
    if most.hits < 0.05:
        found.append(f"prompts hardly repeat: {100 * most.hits:.0f} % of their tokens at most")
    elif most.hits - base.hits < 0.05:
        found.append(
            f"the workers' own caches have {100 * base.hits:.0f} % of the tokens already, and "
            f"{100 * most.hits:.0f} % are the most"
        )
    if cluster.load_seconds >= computing:
        found.append(
            f"a token takes {1e6 * cluster.load_seconds:.0f} us to come and "
            f"{1e6 * computing:.0f} us to compute: the link is too slow for this model"
        )
    return found or ["the workers are idle for most of the time, so hits save little"]


def pool_bytes(row: Row, cluster: Cluster) -> float:
    """Of all nodes together."""
    return row.tokens * cluster.bytes_per_token / FILL


def table(trace: Trace, cluster: Cluster, advice: Advice, prices: Prices) -> str:
    """Markdown."""
    lines = [
        "| shared cache | of each node | hits | own / shared | TTFT p50 / p90 | worker-hours "
        "| GB/s, peak | saved a day |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    base = advice.rows[0].outcome
    for index, row in enumerate(advice.rows):
        o = row.outcome
        pool = pool_bytes(row, cluster)
        node = pool / prices.nodes * (1 + OVERHEAD) + (MEMBER_BYTES if pool else 0)
        peak = max(o.windows.values(), default=0) * cluster.bytes_per_token / WINDOW_SECONDS
        saved = (base.busy - o.busy) / trace.seconds * 24 * prices.gpus * prices.gpu_hour
        mark = "**" if index == advice.enough and index else ""
        cells = [
            f"{mark}{_memory(pool)}{mark}" if pool else "none",
            _memory(node) if pool else "",
            f"{100 * o.hits:.0f} %",
            f"{100 * o.own / o.tokens:.0f} / {100 * o.shared / o.tokens:.0f} %",
            f"{o.quantile(0.5):.2f} / {o.quantile(0.9):.2f} s",
            f"{o.busy / 3600:.2f}",
            f"{peak / 1e9:.1f}" if pool else "",
            f"{saved:,.0f}" if pool else "",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def verdict(cluster: Cluster, advice: Advice) -> str:
    if advice.reasons:
        return "Not worth it: " + ";\n".join(advice.reasons) + "."
    row = advice.rows[advice.enough]
    base = advice.rows[0].outcome
    return (
        f"Worth it: {_memory(pool_bytes(row, cluster))} save {100 * advice.saved_share:.0f} % "
        f"of the servers' time, and more memory adds little.\n"
        f"TTFT p50 goes from {base.quantile(0.5):.2f} to {row.outcome.quantile(0.5):.2f} s."
    )


def _memory(size: float) -> str:
    return f"{size / TIB:.2f} TiB" if size >= TIB else f"{size / GIB:,.0f} GiB"


def pictures(cluster: Cluster, advice: Advice) -> list[Chart]:
    tib = [pool_bytes(row, cluster) / TIB for row in advice.rows]
    outcomes = [row.outcome for row in advice.rows]

    def line(label: str, values: Sequence[float]) -> Line:
        return Line(label, tuple(zip(tib, values, strict=True)))

    return [
        Chart("hits", "Tokens found (simulated)", "shared cache, TiB", "%",
              (line("all", [100 * o.hits for o in outcomes]),
               line("own caches", [100 * o.own / o.tokens for o in outcomes]))),
        Chart("ttft", "Time to first token (simulated)", "shared cache, TiB", "s",
              tuple(line(name, [o.quantile(share) for o in outcomes])
                    for name, share in (("p50", 0.5), ("p90", 0.9)))),
    ]  # fmt: skip

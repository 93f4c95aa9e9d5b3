"""Reads and writes of the disk tier, beside fio on the same drive, in turns.

A lap is a pass over all of the space. The first one writes blocks that were never written, and
reads what was not read before; a drive may be slower then, or faster. So laps have rows of their
own.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from peercache_bench import disk_tier, fio
from peercache_bench.disk_tier import Shape
from peercache_bench.errors import BenchError
from peercache_bench.perf import Perf
from peercache_bench.rows import Row
from peercache_bench.speed import Speed
from peercache_bench.units import KIB, MIB, size_text

SIZES = (128 * KIB, MIB, 4 * MIB)
LAPS = ("first lap", "later laps")
OPS = ("write", "read")
# The goal: a tier that moves pages of these sizes as fast as fio moves such blocks.
SHARE = 0.90
# Seconds of the processors for a GB that the tier may take beside fio's.
CPU_BESIDE = 0.06
# How the tier writes (log.h): few and short, so that reads go first.
TIER_BLOCK, TIER_DEPTH = 256 * KIB, 2
# A copy is measured over so many bytes: more than caches hold.
COPIED = 256 * MIB


@dataclass(frozen=True)
class Pair:
    """How much is measured: bytes of a turn, and turns of a lap; what is under way at a time."""

    turn_bytes: int
    turns: int
    depth: int = 16


def rows_of(page_bytes: int) -> dict[tuple[str, str], Row]:
    """By operation and lap; by operation and "cpu"; by "write" and "shape", which shows what is
    due to writes that are few and short.
    """
    label = size_text(page_bytes)
    found: dict[tuple[str, str], Row] = {}
    for op in OPS:
        for lap in LAPS:
            found[op, lap] = Row(f"disk {op}s of {label}, {lap}", "GB/s", "fio", SHARE)
        if op == "write":
            shape = f"{size_text(TIER_BLOCK)} x {TIER_DEPTH}"
            name = f"disk writes of {label}, beside {shape}"
            found[op, "shape"] = Row(name, "GB/s", "fio", SHARE, held=False)
        allowed = f"fio + {CPU_BESIDE}" + (" + copy" if op == "write" else "")
        found[op, "cpu"] = Row(f"CPU of disk {op}s of {label}", "s/GB", allowed, 1, at_least=False)
    return found


def pair_rows(build: Path, folder: Path, pair: Pair) -> Iterator[Row]:
    perf = Perf(build)
    for page_bytes in SIZES:
        with tempfile.TemporaryDirectory(prefix="peercache-disk-", dir=folder) as place:
            yield from _measured(build, perf, Path(place), page_bytes, pair)


def _measured(build: Path, perf: Perf, place: Path, page_bytes: int, pair: Pair) -> Iterator[Row]:
    rows = rows_of(page_bytes)
    pages = pair.turn_bytes // page_bytes
    turn_bytes = pages * page_bytes
    file, folder = place / "fio", place / "tier"
    folder.mkdir()
    _reserve(file, pair.turns * turn_bytes)
    window = max(1, min(turn_bytes, COPIED) // page_bytes)
    copies = {"page_bytes": page_bytes, "pages": window, "window": window, "batch": 32}
    shape = Shape(page_bytes, pages, pair.turns, pair.depth)
    with (
        disk_tier.tier(build, folder, shape) as tier,
        perf.repeated("memcpy", **copies, seconds=0.2) as copied,
    ):
        engine = fio.engine_of(tier.io)
        ours: Mapping[str, Callable[[], Speed]] = {"write": tier.write, "read": tier.read}
        for op, lap, turn in ((o, x, t) for o in OPS for x in LAPS for t in range(pair.turns)):
            at = turn * turn_bytes
            job = fio.Job(file, engine, op, page_bytes, pair.depth, at, turn_bytes)
            # A drive may have an allowance for bursts, which whoever begins uses up.
            if turn % 2 == 0:
                bare, got = fio.run(job), ours[op]()
            else:
                got, bare = ours[op](), fio.run(job)
            rows[op, lap].add(bare.gb_per_s, got.gb_per_s)
            copy = copied()["cpu_s_per_gb"] if op == "write" else 0.0
            rows[op, "cpu"].add(bare.cpu_s_per_gb + CPU_BESIDE + copy, got.cpu_s_per_gb)
            if op == "write" and lap == LAPS[-1]:
                own = fio.Job(file, engine, op, TIER_BLOCK, TIER_DEPTH, at, turn_bytes)
                rows[op, "shape"].add(fio.run(own).gb_per_s, got.gb_per_s)
    yield from rows.values()


def _reserve(file: Path, size: int) -> None:
    """As the tier reserves its own, so that the first lap is the same for both."""
    fd = os.open(file, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        os.posix_fallocate(fd, 0, size)
    except OSError as error:
        raise BenchError(
            f"{file.parent} has no room for {size // MIB} MiB ({error.strerror}), and the tier "
            "needs as much: name a folder on another drive, or lower --turn-bytes"
        ) from None
    finally:
        os.close(fd)

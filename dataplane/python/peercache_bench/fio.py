"""fio: what a drive does without PeerCache, by the same engine, block and depth."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from peercache_bench.errors import BenchError
from peercache_bench.speed import Speed, speed

# fio's names of the tier's engines. It has nothing like the tier's threads.
ENGINES = {"io_uring": "io_uring", "aio": "libaio"}
LIMIT_SECONDS = 600


@dataclass(frozen=True)
class Job:
    """One pass over a part of a file: writes in order, or reads of each block once, at random."""

    file: Path
    engine: str
    op: str  # read | write
    block: int
    depth: int
    offset: int
    size: int


def engine_of(io: str) -> str:
    """fio's engine for what the tier says of its own: "io_uring", or "aio, because ..."."""
    name = io.split(",")[0].strip()
    if name not in ENGINES:
        raise BenchError(
            f"the tier reads and writes by {io!r}, and fio has nothing of the kind: measure where "
            f"{' or '.join(ENGINES)} works"
        )
    return ENGINES[name]


def command(job: Job) -> list[str]:
    rw = {"read": "randread", "write": "write"}[job.op]
    return [
        "fio", "--name=pair", f"--filename={job.file}", f"--rw={rw}", f"--bs={job.block}",
        f"--ioengine={job.engine}", f"--iodepth={job.depth}", "--direct=1", "--fallocate=none",
        f"--offset={job.offset}", f"--size={job.size}", "--output-format=json",
    ]  # fmt: skip


def parse(output: str, op: str) -> Speed:
    """Its own figures: they leave out the start of the process."""
    try:
        job = json.loads(output[output.index("{") :])["jobs"][0]
        moved, runtime = job[op]["io_bytes"], job[op]["runtime"] / 1e3
        cpu = (job["usr_cpu"] + job["sys_cpu"]) / 100 * job["job_runtime"] / 1e3
    except (ValueError, KeyError, IndexError) as error:
        raise BenchError(f"fio printed no figures ({error!r}): {output.strip()[-500:]}") from None
    return speed(moved, runtime, cpu)


def need_fio() -> None:
    if shutil.which("fio") is None:
        raise BenchError("no fio on the PATH: install the package fio (hack/dev/deps.sh does)")


def run(job: Job) -> Speed:
    words = command(job)
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise BenchError(f"{' '.join(words)} has not ended after {LIMIT_SECONDS} s") from None
    if done.returncode != 0:
        raise BenchError(f"{' '.join(words)} failed: {done.stderr.strip() or done.stdout.strip()}")
    return parse(done.stdout, job.op)

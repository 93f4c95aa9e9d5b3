"""replay: TTFT on a trace by what caches a server has: SGLang's own servers and real members, with
a modelled forward pass."""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from peercache_bench import capacity_flags, replay_report, replay_servers
from peercache_bench.binaries import TREE
from peercache_bench.capacity_model import Prefill
from peercache_bench.errors import BenchError
from peercache_bench.finish import INTERRUPTED, interrupt_on_terminate
from peercache_bench.output import write_files
from peercache_bench.progress import Progress
from peercache_bench.replay_arm import ARMS, Result, Setup, measure
from peercache_bench.replay_requests import check_lengths, requests
from peercache_bench.units import count, size, size_text

_DECODE_SECONDS = 0.02  # of a step, an example
_BYTES_PER_TOKEN = 70 * 1024  # an example: docs/sizing.md has a table


def add_command(commands: Any) -> None:
    sub = commands.add_parser(
        "replay", help="TTFT on a trace without and with PeerCache, by SGLang's own servers",
        description="Modelled forward, measured cache: SGLang's own servers on a CPU and real "
        "members replay a trace; the forward pass sleeps. Needs a source tree: see docs/replay.md.",
    )  # fmt: skip
    add = sub.add_argument
    capacity_flags.add_trace(sub, default=capacity_flags.GENERATED)
    capacity_flags.add_bytes(sub)
    capacity_flags.add_times(sub, prefill=capacity_flags.PREFILL)
    add("--servers", type=count, default=4, metavar="N", help="each on a member (default: 4)")
    add(
        "--arms",
        type=_arms,
        default=("l1", "l2", "peercache"),
        metavar="A[,B...]",
        help="of l1, l2, peercache, fault (default: l1,l2,peercache)",
    )
    add(
        "--own-tokens",
        type=capacity_flags.tokens,
        default=32_000,
        metavar="N",
        help="of a server's GPU pool; L2 has twice as many (default: 32k)",
    )
    add("--pool", type=size, default=size("128m"), metavar="SIZE", help="of a member, at 1 KiB of "
        "KV a token (default: 128m)")  # fmt: skip
    add("--minutes", type=float, default=2.0, metavar="M", help="of an arm at most (default: 2)")
    add("--speed", type=float, default=1.0, metavar="X", help="of arrivals (default: 1)")
    add("--out", type=Path, metavar="DIR", help="for replay.html, .md, .json and the chart")
    add("--build", type=Path, metavar="DIR", help="with peercached and the extension (default: "
        "dataplane/build/release)")  # fmt: skip
    sub.set_defaults(parser=sub, run=run)


def run(arguments: argparse.Namespace) -> int:
    """0; 130 after Ctrl-C or SIGTERM, which end servers and members; or raises BenchError."""
    interrupt_on_terminate()
    progress = Progress()
    try:
        return _run(arguments, progress)
    except KeyboardInterrupt:
        progress.say("interrupted: servers and members have ended, and there is no result")
        return INTERRUPTED


def _run(arguments: argparse.Namespace, progress: Progress) -> int:
    prefill = Prefill.of_rates(arguments.overhead, arguments.prefill)
    speed = capacity_flags.positive("--speed", arguments.speed)
    seconds = 60 * capacity_flags.positive("--minutes", arguments.minutes)
    link = capacity_flags.positive("--link", arguments.link) * 1e9
    if "fault" in arguments.arms and arguments.servers < 3:
        raise BenchError(
            f"--servers {arguments.servers} is too few for --arms fault, which kills one "
            "member and freezes one: give at least --servers 3"
        )
    trace = capacity_flags.trace(arguments)
    made = requests(trace, arguments.servers, speed, seconds, arguments.seed)
    check_lengths(made, arguments.own_tokens)
    setup = Setup(
        servers=arguments.servers,
        own_tokens=arguments.own_tokens,
        pool=size_text(arguments.pool).replace(" ", "").removesuffix("B"),
        block_tokens=arguments.block_tokens,
        prefill_rate=max(rate for _, rate in arguments.prefill),
        build=arguments.build or TREE / "dataplane" / "build" / "release",
    )
    model = {
        **asdict(prefill),
        "decode": _DECODE_SECONDS,
        "bytes_per_token": capacity_flags.bytes_of(arguments, _BYTES_PER_TOKEN),
        "link": link,
    }
    results: list[Result] = []
    with (
        tempfile.TemporaryDirectory(prefix="peercache-replay-") as folder,
        _importer(setup, Path(folder), model, progress) as importer,
    ):
        for arm in arguments.arms:
            results.append(measure(arm, made, setup, importer, progress))
            progress.say(replay_report.summary(results[-1]))
    document = replay_report.document(made, results, setup, model)
    print(document)
    if arguments.out:
        values = replay_report.values(made, results, setup, model)
        warned = replay_report.warnings(results)
        pictures = [replay_report.picture(results)]
        write_files(
            "replay", "peercache-bench replay", arguments.out, values, document, pictures, warned,
            "svg",
        )  # fmt: skip
    return 0


@contextlib.contextmanager
def _importer(setup: Setup, folder: Path, model: dict[str, float], progress: Progress) -> Any:
    progress.say("importing SGLang, once for all servers")
    importer = replay_servers.Importer(setup.build, folder, model)
    try:
        yield importer
    finally:
        importer.close()


def _arms(text: str) -> tuple[str, ...]:
    arms = tuple(dict.fromkeys(text.split(",")))
    for arm in arms:
        if arm not in ARMS:
            raise argparse.ArgumentTypeError(f'"{arm}" is not an arm; write {",".join(ARMS)}')
    return arms

"""The subcommands of peercache-bench on the command line, all but ``ratios``."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from peercache.bench import options, output, tables
from peercache.bench.case import Case
from peercache.bench.commands import COMMANDS
from peercache.bench.errors import BenchError
from peercache.bench.host import host
from peercache.bench.outcome import Outcome, Run
from peercache.bench.refused import COMMANDS as REFUSED_COMMANDS
from peercache.bench.units import count, sizes

Commands = Any  # argparse's name for what add_subparsers returns is not public

INTERRUPTED = 130  # as shells have it


def add_commands(commands: Commands) -> None:
    for name, command in COMMANDS.items():
        sub = commands.add_parser(name, help=command.help, description=command.help)
        options.add_shape(sub)
        options.add_load(sub, command.threads)
        if name == "sweep":
            sub.add_argument(
                "--sizes", type=sizes, default=options.SWEEP_SIZES, metavar="4k,64k",
                help="page sizes (default: 4k to 16m, each twice the one before)",
            )  # fmt: skip
        if name == "micro":
            sub.add_argument(
                "--in-flight", type=count, default=256, metavar="N",
                help="requests in flight in rpc-rate (default: 256)",
            )  # fmt: skip
        options.add_output(sub)
        sub.set_defaults(parser=sub)


def refuse_command(words: list[str]) -> None:
    """Names of the original's subcommands that mean nothing here; raises BenchError."""
    for word in words[:1]:
        if word in REFUSED_COMMANDS:
            raise BenchError(f"{word}: {REFUSED_COMMANDS[word]}")


def run(arguments: argparse.Namespace) -> int:
    """Measures, shows and writes; the exit status says whether every byte was right."""
    command = COMMANDS[arguments.command]
    try:
        settings = options.settings(arguments, command.operations)
    except ValueError as error:
        arguments.parser.error(str(error))
    interrupt_on_terminate()
    before = host()
    outcomes: dict[Case, Outcome] = {}
    complete = collect(command.measure(settings, arguments.build), outcomes)
    result = Run(
        arguments.command, arguments.tag, before, settings.to_json(), list(outcomes.values())
    )
    if not result.outcomes:
        print("stopped before anything was measured", file=sys.stderr)
        return INTERRUPTED
    status = show(result, arguments.out_dir)
    if not complete:
        print("stopped before the end; what was measured is in the files", file=sys.stderr)
        return INTERRUPTED
    return status


def show(result: Run, folder: Path) -> int:
    """Writes the files, prints the tables, and says what is wrong."""
    files = output.write(result, folder)
    paged = tables.moved(result.outcomes)
    if paged:
        print(tables.rates(paged) + "\n")
    print(tables.latencies(result.outcomes))
    for note in tables.notes(result.outcomes):
        print(f"- {note}")
    for warning in output.warnings(result):
        print(f"warning: {warning}", file=sys.stderr)
    print(f"\nreport: {files[0]}, and {len(files) - 1} files beside it")
    return 1 if result.wrong else 0


def collect(outcomes: Iterator[Outcome], into: dict[Case, Outcome]) -> bool:
    """The last outcome of each case; false when a signal has ended it. Nodes end either way."""
    try:
        for outcome in outcomes:
            into[outcome.case] = outcome
    except KeyboardInterrupt:
        return False
    return True


def interrupt_on_terminate() -> None:
    """SIGTERM ends nodes and writes results as Ctrl-C does."""

    def stop(_signum: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)

"""The subcommands of peercache-bench on the command line, all but ``ratios``."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from peercache_bench import (
    bare_reads,
    compare,
    ladder,
    nixl,
    options,
    others,
    published_run,
    two_hosts,
)
from peercache_bench.commands import COMMANDS, Where
from peercache_bench.errors import BenchError
from peercache_bench.finish import finish
from peercache_bench.refused import COMMANDS as REFUSED_COMMANDS
from peercache_bench.units import count, counts, sizes

Commands = Any  # argparse's name for what add_subparsers returns is not public


def add_commands(commands: Commands) -> None:
    for name, command in COMMANDS.items():
        sub = commands.add_parser(name, help=command.help, description=command.help)
        options.add_shape(sub)
        options.add_load(sub, command.threads, command.seconds)
        _add_own(sub, name)
        options.add_output(sub, protocols=name == "sweep")
        sub.set_defaults(parser=sub, run=_measure)
    two_hosts.add_commands(commands)
    bare_reads.add_command(commands)
    ladder.add_command(commands)
    published_run.add_commands(commands)
    others.add_command(commands)
    nixl.add_command(commands)
    compare.add_command(commands)


def _add_own(sub: argparse.ArgumentParser, name: str) -> None:
    """Flags of one subcommand only."""
    if name in ("sweep", "async"):
        known = options.SWEEP_SIZES if name == "sweep" else options.ASYNC_SIZES
        sub.add_argument(
            "--sizes", type=sizes, default=known, metavar="4k,64k",
            help="page sizes instead of --page-size (default: "
            + ("4k to 16m, each twice the one before)" if name == "sweep" else "32k,64k,256k,1m)"),
        )  # fmt: skip
    if name == "async":
        sub.add_argument(
            "--requests", type=counts, default=options.ASYNC_REQUESTS, metavar="1,10",
            help="outstanding together (default: 1,10,50,100)",
        )  # fmt: skip
        sub.add_argument(
            "--windows", type=counts, default=options.WINDOWS, metavar="2,4",
            help="at work at once, for the most requests (default: 2,4,8,16)",
        )  # fmt: skip
    if name == "micro":
        sub.add_argument(
            "--in-flight", type=count, default=256, metavar="N",
            help="requests in flight in rpc-rate (default: 256)",
        )  # fmt: skip


def _measure(arguments: argparse.Namespace) -> int:
    command = COMMANDS[arguments.command]
    settings = options.settings(arguments, command.operations)
    where = Where(arguments.build, options.node_options(arguments))
    return finish(arguments, settings, command.measure(settings, where), where.progress)


def refuse_command(words: list[str]) -> None:
    """Names of the original's subcommands that mean nothing here; raises BenchError."""
    for word in words[:1]:
        if word in REFUSED_COMMANDS:
            raise BenchError(f"{word}: {REFUSED_COMMANDS[word]}")


def run(arguments: argparse.Namespace) -> int:
    """Runs the subcommand. The exit status says whether every byte was right."""
    try:
        status: int = arguments.run(arguments)
    except ValueError as error:
        arguments.parser.error(str(error))
    except BrokenPipeError:  # of a pager that was left
        sys.stderr.close()
        return 1
    return status

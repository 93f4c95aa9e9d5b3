"""Writes outcomes to files and tables, also after a signal has ended the measurements."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from peercache_bench import options, output, tables
from peercache_bench.case import Case
from peercache_bench.host import host
from peercache_bench.options import Settings
from peercache_bench.outcome import Outcome, Run
from peercache_bench.progress import Progress

INTERRUPTED = 130  # as shells have it


def finish(
    arguments: argparse.Namespace,
    settings: Settings,
    found: Iterator[Outcome],
    progress: Progress,
) -> int:
    """Measures, shows and writes; the exit status says whether every byte was right."""
    interrupt_on_terminate()
    before = host()
    outcomes: dict[Case, Outcome] = {}
    complete = collect(found, outcomes, progress)
    if not outcomes:
        print("stopped before anything was measured", file=sys.stderr)
        return INTERRUPTED
    configuration = {
        **settings.to_json(),
        "node_options": [
            f"{name}={value}" for name, value in options.node_options(arguments).items()
        ],
    }
    result = Run(arguments.command, arguments.tag, before, configuration, list(outcomes.values()))
    status = show(result, arguments.out_dir)
    if not complete:
        print("stopped before the end; what was measured is in the files", file=sys.stderr)
        return INTERRUPTED
    return status


def collect(outcomes: Iterator[Outcome], into: dict[Case, Outcome], progress: Progress) -> bool:
    """The last outcome of each case; false when a signal has ended it. Nodes end either way.

    Figures are shown when they are kept: a signal takes away nothing that was seen.
    """
    try:
        for outcome in outcomes:
            into[outcome.case] = outcome
            progress.end(outcome.case, outcome.figures)
    except KeyboardInterrupt:
        return False
    return True


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


def interrupt_on_terminate() -> None:
    """SIGTERM ends nodes and writes results as Ctrl-C does."""

    def stop(_signum: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)

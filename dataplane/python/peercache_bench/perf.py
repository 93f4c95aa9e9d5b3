"""peercache-perf: the native measurements, one JSON object each."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from peercache_bench.binaries import find
from peercache_bench.errors import BenchError

Result = dict[str, Any]
Options = dict[str, object]

# Seconds beyond the measured time, for filling the host pool and for slow machines.
LIMIT_SECONDS = 120


class Perf:
    """Runs the peercache-perf of one build, or the installed one."""

    def __init__(self, build: Path | None) -> None:
        self._binary = find("peercache-perf", build)

    def __call__(self, what: str, **options: object) -> Result:
        """``perf("get", page_bytes=4096, cpu_of=[1, 2])``; a list repeats its option."""
        return self.together(what, [options])[0]

    def together(self, what: str, each: Sequence[Options]) -> list[Result]:
        """One process for each set of options, all at the same time."""
        commands = [[str(self._binary), what, *words(options)] for options in each]
        running = [
            subprocess.Popen(c, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for c in commands
        ]
        try:
            return [
                _result(process, command, options)
                for process, command, options in zip(running, commands, each, strict=True)
            ]
        finally:
            for process in running:
                process.kill()  # nothing to one that has ended
                process.wait()

    @contextlib.contextmanager
    def repeated(self, what: str, **options: object) -> Iterator[Callable[[], Result]]:
        """A function that measures the same each time, in one process and its memory."""
        command = [str(self._binary), what, "--repeat", *words(options)]
        with asked(command) as process:
            yield lambda: _again(process, command, options)


def words(options: Options) -> list[str]:
    """The options as peercache-perf takes them."""
    command = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            command.append(flag)
        elif value is not False:
            for each in value if isinstance(value, list) else [value]:
                command += [flag, str(each)]
    return command


def _limit(options: Options) -> float:
    return LIMIT_SECONDS + sum(float(str(options.get(name, 0))) for name in ("seconds", "warmup"))


def _late(command: Sequence[str], seconds: float) -> BenchError:
    return BenchError(f"{' '.join(command)} has not ended after {seconds:.0f} s")


@contextlib.contextmanager
def asked(
    command: Sequence[str], errors: IO[str] | int = subprocess.PIPE
) -> Iterator[subprocess.Popen[str]]:
    """A process that answers lines (``ask``), and is killed afterwards.

    ``errors``: a file, for one that says more than a pipe holds.
    """
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        bufsize=1,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def ask(
    process: subprocess.Popen[str],
    command: Sequence[str],
    word: str,
    seconds: float,
    said: Callable[[], str] | None = None,
) -> Result:
    """The line that a process answers a line with; "" for its first line, before any was asked.

    ``said``: what it has said beside, where that is no pipe.
    """
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(BrokenPipeError):  # it has ended: its standard error says why
        process.stdin.write(word)
    if not select.select([process.stdout], [], [], seconds)[0]:
        raise _late(command, seconds)
    line = process.stdout.readline()
    if not line:
        why = said() if said else _errors(process)
        raise BenchError(f"{' '.join(command)} failed: {why.strip()}")
    result: Result = json.loads(line)
    return result


def _errors(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    return process.stderr.read()


def _again(process: subprocess.Popen[str], command: list[str], options: Options) -> Result:
    assert process.stderr is not None
    result = ask(process, command, "\n", _limit(options))
    if result.get("wrong"):  # the pages are named before the answer
        sys.stderr.write(os.read(process.stderr.fileno(), 1 << 16).decode())
    return result


def _result(process: subprocess.Popen[str], command: list[str], options: Options) -> Result:
    try:
        output, errors = process.communicate(timeout=_limit(options))
    except subprocess.TimeoutExpired:
        raise _late(command, _limit(options)) from None
    if process.returncode != 0:
        raise BenchError(f"{' '.join(command)} failed: {errors.strip()}")
    result: Result = json.loads(output)
    # Errors name pages that are wrong, and the way to a GPU that is missing.
    if result.get("wrong") or options.get("gpu"):
        sys.stderr.write(errors)
    return result

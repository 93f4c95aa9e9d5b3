"""Threads of the data plane: StartThread of base/thread.h starts them, which returns a Status.

By itself std::thread throws where no thread can be had, nobody catches that, and the process ends
with all its pages. threads.txt names the files that do so all the same, because they do it while a
node starts, for which node.cc has looked whether there are threads enough. Tests are exempt.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath

ROOT = "dataplane/src/"
HELPER = ROOT + "base/thread.h"

_SOURCE = re.compile(r"\.(cc|h)$")
_TEST = re.compile(r"_(test|testing|benchmark)\.(cc|h)$")
_COMMENT = re.compile(r"//.*")
# One that is not begun with nothing, by its type.
_STARTED = re.compile(
    r"\bstd::j?thread(?:\s+\w+)?\s*[({](?!\s*[)}])|\bmake_(?:unique|shared)<std::j?thread>\("
    r"|\bstd::async\s*[(<]|\bpthread_create\s*\("
)
_MEMBERS = re.compile(r"\bstd::j?thread\s+(\w+(?:\s*,\s*\w+)*)\s*;")
_LISTS = re.compile(r"\bstd::\w+<std::j?thread\b[^;(){}]*>\s+(\w+)\s*;")


def parse(text: str) -> list[str]:
    """The files that threads.txt names, a line each; # begins a comment."""
    lines = (line.split("#", 1)[0].strip() for line in text.splitlines())
    return [line for line in lines if line]


def _starts(declared: str, text: str) -> Iterator[tuple[int, str]]:
    """Lines of a file that start a thread; ``declared``: with the header that belongs to it."""
    patterns = [_STARTED.pattern]
    for names in _MEMBERS.findall(declared):
        patterns += [rf"(?<![\w.>]){n.strip()}\s*[({{](?!\s*[)}}])" for n in names.split(",")]
    patterns += [rf"\b{name}\.emplace(?:_back)?\((?!\s*\))" for name in _LISTS.findall(declared)]
    start = re.compile("|".join(patterns))
    for number, line in enumerate(text.splitlines(), 1):
        if start.search(_COMMENT.sub("", line)):
            yield number, line.strip()


def bare(files: list[str], read: Callable[[str], str], allowed: list[str]) -> list[str]:
    """What is wrong, a line each."""
    problems: list[str] = []
    needed: set[str] = set()
    sources = {f for f in files if f.startswith(ROOT) and _SOURCE.search(f)}
    for name in sorted(sources - {HELPER}):
        if _TEST.search(name):
            continue
        path = PurePosixPath(name)
        both = [str(path.with_suffix(suffix)) for suffix in (".h", ".cc")]
        declared = "\n".join(read(file) for file in both if file in sources)
        for number, line in _starts(declared, read(name)):
            needed.add(name)
            if name not in allowed:
                problems.append(
                    f"{name}:{number}: aborts the node where there is no thread: use StartThread "
                    f"(base/thread.h), and go on without it or return its Status: {line}"
                )
    problems += [
        f"{name} starts no thread by itself: take it out of hack/dev/rooms/threads.txt"
        for name in allowed
        if name not in needed
    ]
    return problems

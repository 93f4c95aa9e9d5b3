"""Comments that name files: each of these files exists.

A name is a path with a slash and a source's suffix, or a bare name of C++, as in table.h. It may
begin at any folder above the file: node/read/locator.h, read/locator.h and locator.h are all
dataplane/src/node/read/locator.h. It may also begin at the folder of the file that names it.

No names are: patterns, which have a word in capitals or begin with x_, as NAME_fuzz.cc and
x_test.cc; what a build makes, in build/ or dist/; headers in angle brackets, as <sys/mman.h>; and
files of the projects in FOREIGN.
"""

from __future__ import annotations

import ast
import io
import posixpath
import re
import tokenize
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath

# How names of Linux and of CUDA begin.
FOREIGN = ("linux/", "drivers/", "fs/", "cuda.h")

_SUFFIX = r"(?:h|cc|go|py|sh|pml|yaml|yml|md|mk|cmake|txt|json|toml|js|css|html|c)"
_NAME = re.compile(
    rf"(?<![\w/.$*{{}}<@%:~-])((?:\.\./)*(?:[\w.-]+/)+[\w.-]*\w\.{_SUFFIX}|\w[\w-]*\.(?:h|cc))"
    r"(?![\w/*{(-]|\.\w)"
)
_PAGES = r"README|CONTRIBUTING|CHANGELOG|LICENSE|VERSION"
_PATTERN = re.compile(rf"(?<![A-Za-z])(?!{_PAGES})[A-Z]+(?![A-Za-z])|(?:^|/)x_")
_BUILT = re.compile(r"(?:^|/)(?:build|dist)/")

# Strings come first, so that what looks like a comment inside of one is none.
_C = re.compile(
    r'R"(?P<end>[^(\s]*)\(.*?\)(?P=end)"|"(?:\\.|[^"\\\n])*"|`[^`]*`|\'(?:\\[^\n]{1,9}?|[^\'\\\n])\''
    r"|(?P<comment>//[^\n]*|/\*.*?\*/)",
    re.DOTALL,
)
_HASH = re.compile(r"(?:^|(?<=\s))#[^\n]*", re.MULTILINE)


def _lines(text: str, first: int) -> Iterator[tuple[int, str]]:
    return enumerate(text.split("\n"), first)


def _c(text: str) -> Iterator[tuple[int, str]]:
    for found in _C.finditer(text):
        if found["comment"]:
            yield from _lines(found["comment"], text.count("\n", 0, found.start()) + 1)


def _hash(text: str) -> Iterator[tuple[int, str]]:
    for found in _HASH.finditer(text):
        yield text.count("\n", 0, found.start()) + 1, found[0]


def _python(text: str) -> Iterator[tuple[int, str]]:
    """Comments, and strings that stand by themselves, as documentation does."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(ast.Constant(str(said))):
                yield from _lines(said, node.lineno)


LANGUAGES: list[tuple[re.Pattern[str], Callable[[str], Iterator[tuple[int, str]]]]] = [
    (re.compile(r"\.(cc|h|c|go|pml)$"), _c),
    (re.compile(r"\.py$"), _python),
    (re.compile(r"\.(sh|cmake|mk)$|(^|/)(CMakeLists\.txt|Makefile)$"), _hash),
]


def comments(name: str, text: str) -> Iterator[tuple[int, str]]:
    """The lines of the comments of the file NAME, with their numbers."""
    read = next((read for names, read in LANGUAGES if names.search(name)), None)
    return read(text) if read else iter(())


def names(comment: str) -> Iterator[str]:
    for found in _NAME.finditer(comment):
        name = found[1]
        if not (_PATTERN.search(name) or _BUILT.search(name) or name.startswith(FOREIGN)):
            yield name


def stale(files: list[str], read: Callable[[str], str]) -> list[str]:
    """The names of no file, a line each."""
    known: set[str] = set()
    by_last: dict[str, list[str]] = {}
    for file in files:
        parts = file.split("/")
        known.update("/".join(parts[start:]) for start in range(len(parts)))
        by_last.setdefault(parts[-1], []).append(file)
    problems: list[str] = []
    for file in files:
        here = str(PurePosixPath(file).parent)

        def exists(name: str, here: str = here) -> bool:
            return any(posixpath.normpath(path) in known for path in (name, f"{here}/{name}"))

        if not any(pattern.search(file) for pattern, _ in LANGUAGES):
            continue
        text = read(file)
        if all(
            exists(name) for name in names(text)
        ):  # Most files: their comments are not looked for.
            continue
        for number, comment in comments(file, text):
            for name in names(comment):
                if exists(name):
                    continue
                meant = " or ".join(sorted(by_last.get(name.rsplit("/", 1)[-1], []))[:2])
                fix = f"is it {meant}?" if meant else "name the one that it is now, or none"
                problems.append(f"{file}:{number}: no file is called {name}: {fix}")
    return problems

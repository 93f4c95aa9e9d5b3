"""The rules of rooms.txt, without a file system: what each tree's folders may use."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath

MODULE = "github.com/peercache/peercache/"


@dataclass(frozen=True)
class Language:
    source: re.Pattern[str]  # names of its files
    test: re.Pattern[str]  # paths of those that are exempt
    # What a line of a file in FOLDER uses: a path from the tree's root, of a file or a folder.
    uses: Callable[[str, str], str | None]
    file: re.Pattern[str] | None = None  # in a line that uses one file of a folder, that file


_CPP_FILE = re.compile(r'#include "([\w/]+/\w+\.h)"')


def _cpp(line: str, _: str) -> str | None:
    found = _CPP_FILE.match(line)
    return str(PurePosixPath(found[1]).parent) if found else None


def _go(line: str, _: str) -> str | None:
    found = re.match(rf'(?:import )?\s*(?:\w+ )?"{re.escape(MODULE)}([\w/.-]+)"$', line)
    return found[1] if found else None


def _python(line: str, folder: str) -> str | None:
    found = re.match(r"\s*(?:from (\.*)([\w.]*) import|import ([\w.]+))", line)
    if not found:
        return None
    dots, module, plain = found[1] or "", found[2] or "", found[3] or ""
    if not dots:
        return (module or plain).replace(".", "/")
    above = PurePosixPath(folder)
    for _dot in dots[1:]:
        above = above.parent
    return str(above / module.replace(".", "/"))


LANGUAGES = {
    "cpp": Language(
        re.compile(r"\.(cc|h)$"),
        re.compile(r"_(test|testing|benchmark)\.(cc|h)$|/fake/"),
        _cpp,
        _CPP_FILE,
    ),
    "go": Language(re.compile(r"\.go$"), re.compile(r"_test\.go$"), _go),
    "python": Language(re.compile(r"\.py$"), re.compile(r"/tests/"), _python),
}


@dataclass
class Tree:
    language: str
    root: str
    may_use: dict[str, set[str]] = field(default_factory=dict)
    shows: dict[str, set[str]] = field(default_factory=dict)  # a folder not in here shows all


def parse_table(text: str) -> list[Tree]:
    """Raises ValueError for a line that is none of the table's, with its number."""
    trees: list[Tree] = []
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.split("#", 1)[0].strip()
        if not line:
            continue
        if head := re.fullmatch(r"\[(\w+) (\S+)\]", line):
            if head[1] not in LANGUAGES:
                raise ValueError(f"line {number}: {head[1]} is none of {', '.join(LANGUAGES)}")
            trees.append(Tree(head[1], head[2]))
        elif (entry := re.fullmatch(r"(\S+):((?: \S+)*)", line)) and trees:
            if entry[1] in trees[-1].may_use:
                raise ValueError(f"line {number}: {entry[1]} is there twice")
            trees[-1].may_use[entry[1]] = set(entry[2].split())
        elif (entry := re.fullmatch(r"(\S+) shows:((?: \S+)+)", line)) and trees:
            if LANGUAGES[trees[-1].language].file is None:
                raise ValueError(f"line {number}: {trees[-1].language} has no files to show")
            if entry[1] not in trees[-1].may_use or entry[1] in trees[-1].shows:
                raise ValueError(f"line {number}: not once behind the line {entry[1]}: FOLDERS")
            trees[-1].shows[entry[1]] = set(entry[2].split())
        else:
            raise ValueError(
                f"line {number}: neither [LANGUAGE ROOT] nor FOLDER: FOLDERS nor "
                f"FOLDER shows: FILES: {raw}"
            )
    return trees


def _room(used: str, rooms: Iterable[str]) -> str | None:
    """The listed folder that a path is in, itself or the nearest above; None: not of this tree."""
    path = PurePosixPath(used)
    return next((str(p) for p in (path, *path.parents) if str(p) in rooms and str(p) != "."), None)


def _circles(tree: Tree) -> Iterator[str]:
    """A folder may use another or be used by it, not both, also through others."""
    done: set[str] = set()

    def walk(room: str, above: list[str]) -> Iterator[str]:
        if room in above:
            yield f"{tree.root}: a circle: {' -> '.join([*above[above.index(room) :], room])}"
        elif room not in done:
            for used in sorted(tree.may_use.get(room, ())):
                yield from walk(used, [*above, room])
            done.add(room)

    for room in tree.may_use:
        yield from walk(room, [])


def check(trees: list[Tree], files: list[str], read: Callable[[str], str]) -> list[str]:
    """What is wrong, a line each; nothing: all is as the table says."""
    problems: list[str] = []
    for tree in trees:
        problems += _circles(tree)
        language = LANGUAGES[tree.language]
        prefix = "" if tree.root == "." else tree.root + "/"
        needed: set[tuple[str, str]] = set()
        shown: set[tuple[str, str]] = set()
        lacking: set[str] = set()
        for name in files:
            if not name.startswith(prefix) or not language.source.search(name):
                continue
            if language.test.search("/" + name):
                continue
            inside = str(PurePosixPath(name.removeprefix(prefix)).parent)
            folder = "." if inside == "." else _room(inside, tree.may_use)
            if folder not in tree.may_use:
                lacking.add(inside)
                continue
            for number, line in enumerate(read(name).splitlines(), 1):
                used = language.uses(line, inside)
                room = _room(used, tree.may_use) if used else None
                if room is None or room == folder:
                    continue
                needed.add((folder, room))
                if room not in tree.may_use[folder]:
                    problems.append(f"{name}:{number}: {folder} may not use {room}: {line.strip()}")
                if room in tree.shows and language.file and (header := language.file.match(line)):
                    path = str(PurePosixPath(header[1]).relative_to(room))
                    shown.add((room, path))
                    if path not in tree.shows[room]:
                        problems.append(
                            f"{name}:{number}: {header[1]} is {room}'s own: use a header that "
                            f'rooms.txt says it shows, or add {path} to "{room} shows"'
                        )
        problems += [f"{tree.root}: {inside} is not in rooms.txt" for inside in sorted(lacking)]
        for folder, allowed in tree.may_use.items():
            problems += [
                f"{tree.root}: {folder} does not use {room}: take it out of rooms.txt"
                for room in sorted(allowed)
                if (folder, room) not in needed
            ]
        for room, paths in tree.shows.items():
            problems += [
                f"{tree.root}: no other folder uses {room}/{path}: take {path} out of {room} shows"
                for path in sorted(paths)
                if (room, path) not in shown
            ]
    return problems


def unnamed(trees: list[Tree], page: str) -> list[str]:
    """The folders that no row of the map in docs/dev/contributing.md names in its first cell.

    A name is a path from the repository's root, or from the folder that the text above its table
    names in code. The name of a folder inside of another one names both.
    """
    named: set[str] = set()
    base = ""
    text = page.partition("\n## The map\n")[2].partition("\n## ")[0]
    for line in text.splitlines():
        code = re.findall(r"`([^`]+)`", line.split("|")[1] if line.startswith("|") else line)
        if line.startswith("|"):
            named.update(code)
            named.update(f"{base}/{name}" for name in code)
        elif line.startswith("#") or code:
            base = code[0] if code else ""
    problems: list[str] = []
    for tree in trees:
        for room in tree.may_use:
            path = str(PurePosixPath(tree.root, room))
            if room != "." and not any(n == path or n.startswith(path + "/") for n in named):
                problems.append(f"docs/dev/contributing.md: the map does not name {path}")
    return problems

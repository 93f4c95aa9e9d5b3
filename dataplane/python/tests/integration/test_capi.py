"""libpeercache.so: what it shows and needs, and the program of docs/engines/c-api.md."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from ..conftest import ROOT
from .conftest import Cluster
from .processes import build_folder

HEADER = ROOT / "dataplane" / "include" / "peercache" / "libpeercache.h"
PAGE = ROOT / "docs" / "engines" / "c-api.md"
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
# Of Ubuntu 22.04, the oldest image of engines.
NEWEST_GLIBC = 35


def output(*command: object) -> str:
    return subprocess.run(
        [str(word) for word in command], check=True, capture_output=True, text=True
    ).stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an installation, as the page has it made."""
    to = tmp_path_factory.mktemp("prefix")
    output("cmake", "--install", build_folder(), "--component", "capi", "--prefix", to)
    return to


def declared() -> set[str]:
    """The functions of the header."""
    text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.DOTALL)
    return set(re.findall(r"^[\w ]+?[ *]+(pc_\w+)\(", text, flags=re.MULTILINE))


def test_the_library_shows_the_functions_of_the_header_alone(prefix: Path) -> None:
    symbols = output("nm", "-D", "--defined-only", prefix / "lib" / "libpeercache.so").split("\n")
    shown = {line.split()[-1] for line in symbols if line.split()[1:2] != ["A"] and line}
    assert len(declared()) > 15, "the pattern finds them"
    assert shown == {f"{name}@@PC_1" for name in declared()}


def test_the_library_needs_the_c_library_alone(prefix: Path) -> None:
    library = prefix / "lib" / "libpeercache.so.0"
    dynamic = output("readelf", "-dW", library)
    assert re.findall(r"SONAME.*\[(.*)\]", dynamic) == ["libpeercache.so.0"]
    needed = set(re.findall(r"NEEDED.*\[(.*)\]", dynamic))
    assert needed - {"ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1", "libm.so.6"} == {"libc.so.6"}
    versions = re.findall(r"GLIBC_2\.(\d+)", output("objdump", "-T", library))
    assert max(map(int, versions)) <= NEWEST_GLIBC


@pytest.mark.parametrize(
    "compiler",
    [
        ["gcc", "-std=c99", "-x", "c"],
        ["clang", "-std=c99", "-x", "c"],
        ["g++", "-std=c++11", "-x", "c++"],
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_the_header_compiles_by_itself(compiler: list[str], tmp_path: Path) -> None:
    source = tmp_path / "program"
    source.write_text('#include "peercache/libpeercache.h"\nint main(void) { return 0; }\n')
    include = HEADER.parents[1]
    output(*compiler, *WARNINGS, "-fsyntax-only", "-I", include, source)


def test_the_program_of_the_page_shares_a_page_between_machines(
    prefix: Path, tmp_path: Path, cluster: Cluster
) -> None:
    code = re.search(r"```c\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    assert code is not None
    source, program = tmp_path / "program.c", tmp_path / "program"
    source.write_text(code[1])
    lib = prefix / "lib"
    link = ["-L", lib, "-lpeercache", f"-Wl,-rpath,{lib}"]
    output("gcc", "-std=c99", *WARNINGS, "-I", prefix / "include", source, "-o", program, *link)

    def run(socket: str, what: str) -> str:
        env = {**os.environ, "PEERCACHE_SOCKET": socket}
        done = subprocess.run([program, what], env=env, capture_output=True, text=True, check=False)
        return f"{done.returncode}: {done.stdout}"

    a, b = cluster.node("a"), cluster.node("b")
    assert run(b.socket, "get") == "1: a miss\n"
    assert run(a.socket, "set") == "0: the page is set\n"
    assert run(b.socket, "get") == "0: the page is here\n"
    assert run(f"{tmp_path}/none.sock", "get") == "1: a miss\n", "no member is no error"

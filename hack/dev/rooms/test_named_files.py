"""Which words of a comment are names of files, and that each names one that exists."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from named_files import comments, names, stale

HERE = Path(__file__).resolve().parent
HEADER = {"src/node/read/locator.h": "", "src/pool/pool.h": ""}


def problems(files: dict[str, str]) -> list[str]:
    return stale(list(files), lambda name: files[name])


@pytest.mark.parametrize(
    ("comment", "named"),
    [
        ("// As node/read/locator.h says, and pool.cc.", ["node/read/locator.h", "pool.cc"]),
        ("# See `../cmake/short.txt`; docs/README.md", ["../cmake/short.txt", "docs/README.md"]),
        ("// (pages.h:12)", ["pages.h"]),
        ("# setup.py and conf.yaml, bare", []),
        ("// https://example.org/a/b.go", []),
        ("// <linux/magic.h>, linux/fs.h, fs/proc/task_mmu.c, cuda.h", []),
        ("// src/NAME/X_benchmark.cc, x_test.cc, dist/x/a.yaml, dataplane/build/a.json", []),
        ("// *.h, pool*.cc, ${folder}/a.h, a/b.h.in, node.hash, x.h()", []),
    ],
)
def test_what_a_comment_names(comment: str, named: list[str]) -> None:
    assert list(names(comment)) == named


@pytest.mark.parametrize(
    ("file", "text", "lines"),
    [
        (
            "a.cc",
            'f("// no"); // yes\n/* two\nlines */',
            [(1, "// yes"), (2, "/* two"), (3, "lines */")],
        ),
        ("a.cc", 'auto s = R"x(// "no)x"; // yes', [(1, "// yes")]),
        ("a.cc", "char c = '\"'; // yes", [(1, "// yes")]),
        ("a.go", "s := `// no`\n// yes", [(2, "// yes")]),
        ("a.py", '"""One\ntwo."""\nx = "# no"  # yes', [(3, "# yes"), (1, "One"), (2, "two.")]),
        ("a.sh", "echo ${a#no}  # yes", [(1, "# yes")]),
        ("b/CMakeLists.txt", "# yes", [(1, "# yes")]),
        ("a.md", "# no", []),
    ],
)
def test_what_a_comment_is(file: str, text: str, lines: list[tuple[int, str]]) -> None:
    assert list(comments(file, text)) == lines


@pytest.mark.parametrize(
    "name", ["src/node/read/locator.h", "node/read/locator.h", "locator.h", "../pool/pool.h"]
)
def test_a_name_may_begin_at_any_folder(name: str) -> None:
    assert problems(HEADER | {"src/node/node.cc": f"// As {name}.\n"}) == []


def test_a_file_that_moved_is_named_with_where_it_is_now() -> None:
    assert problems(HEADER | {"src/node/node.cc": "\n// As node/locator.h.\n"}) == [
        "src/node/node.cc:2: no file is called node/locator.h: is it src/node/read/locator.h?"
    ]


def test_a_file_that_is_gone_is_an_error() -> None:
    assert problems({"src/a.cc": "// As node/pages.cc.\n"}) == [
        "src/a.cc:1: no file is called node/pages.cc: name the one that it is now, or none"
    ]


def test_the_command_fails_with_the_name(tmp_path: Path) -> None:
    (tmp_path / "a.sh").write_text("# As node/pages.cc.\n")
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    ran = subprocess.run(
        [sys.executable, HERE, tmp_path], check=False, capture_output=True, text=True
    )
    assert ran.returncode == 1
    assert "a.sh:1: no file is called node/pages.cc" in ran.stderr

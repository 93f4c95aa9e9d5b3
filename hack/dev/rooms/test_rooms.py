"""The rules of rooms.txt: what a line uses, what the table refuses, and how it says so."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from rooms import LANGUAGES, check, parse_table, unnamed

HERE = Path(__file__).resolve().parent
TABLE = """
[cpp src]
base:
pool: base
node: base pool   # the last
"""


def problems(table: str, **files: str) -> list[str]:
    named = {name.replace("__", "/").replace("_cc", ".cc"): text for name, text in files.items()}
    return check(parse_table(table), list(named), lambda name: named[name])


ALLOWED = {
    "src__pool__p_cc": '#include "base/b.h"\n',
    "src__node__n_cc": '#include "base/b.h"\n#include "pool/p.h"\n',
    "src__base__b_cc": "#include <vector>\n",
}


def test_what_the_table_allows_is_fine() -> None:
    assert problems(TABLE, **ALLOWED) == []


def test_a_line_that_uses_a_higher_folder_is_named() -> None:
    files = ALLOWED | {"src__base__b_cc": '#include <vector>\n#include "node/n.h"\n'}
    assert problems(TABLE, **files) == [
        'src/base/b.cc:2: base may not use node: #include "node/n.h"'
    ]


def test_tests_may_use_all() -> None:
    assert problems(TABLE, **ALLOWED, src__base__b_test_cc='#include "node/n.h"\n') == []


def test_a_folder_that_is_not_listed_is_an_error() -> None:
    assert problems(TABLE, **ALLOWED, src__disk__d_cc="") == ["src: disk is not in rooms.txt"]


def test_a_folder_below_one_that_is_listed_belongs_to_it() -> None:
    files = ALLOWED | {"src__pool__deep__d_cc": '#include "node/n.h"\n#include "pool/p.h"\n'}
    assert problems(TABLE, **files) == [
        'src/pool/deep/d.cc:1: pool may not use node: #include "node/n.h"'
    ]


def test_an_entry_that_nothing_needs_goes() -> None:
    files = ALLOWED | {"src__pool__p_cc": ""}
    assert problems(TABLE, **files) == ["src: pool does not use base: take it out of rooms.txt"]


def test_circles_are_errors_though_the_table_has_them() -> None:
    files = {"src__base__b_cc": '#include "pool/p.h"\n', "src__pool__p_cc": '#include "base/b.h"\n'}
    assert problems("[cpp src]\nbase: pool\npool: base\n", **files) == [
        "src: a circle: base -> pool -> base"
    ]


SHOWS = TABLE + "pool shows: p.h deep/d.h\n"
BOTH = {"src__node__n_cc": '#include "base/b.h"\n#include "pool/p.h"\n#include "pool/deep/d.h"\n'}


def test_a_folder_uses_its_own_headers_and_those_that_others_show() -> None:
    own = {"src__pool__p_cc": '#include "base/b.h"\n#include "pool/slot.h"\n'}
    assert problems(SHOWS, **ALLOWED | BOTH | own) == []


def test_a_header_that_is_not_shown_is_its_folders_own() -> None:
    deep = {"src__node__deep__d_cc": '\n#include "pool/slot.h"\n'}
    assert problems(SHOWS, **ALLOWED | BOTH | deep) == [
        "src/node/deep/d.cc:2: pool/slot.h is pool's own: use a header that rooms.txt says "
        'it shows, or add slot.h to "pool shows"'
    ]


def test_tests_may_use_a_header_that_is_not_shown() -> None:
    test = {"src__node__n_test_cc": '#include "pool/slot.h"\n'}
    assert problems(SHOWS, **ALLOWED | BOTH | test) == []


def test_a_header_that_is_shown_in_vain_goes() -> None:
    assert problems(SHOWS, **ALLOWED) == [
        "src: no other folder uses pool/deep/d.h: take deep/d.h out of pool shows"
    ]


@pytest.mark.parametrize(
    "text",
    [
        "base: pool",
        "[java src]",
        "[cpp src]\nbase:\nbase:",
        "[cpp src]\nbase:pool",
        "[cpp src]\nbase shows: b.h",
        "[cpp src]\nbase:\nbase shows: b.h\nbase shows: c.h",
        "[cpp src]\nbase:\nbase shows:",
        "[go src]\nbase:\nbase shows: b.go",
    ],
)
def test_a_table_that_cannot_be_read_says_where(text: str) -> None:
    with pytest.raises(ValueError, match="line"):
        parse_table(text)


@pytest.mark.parametrize(
    ("language", "line", "used"),
    [
        ("cpp", '#include "node/read/locator.h"', "node/read"),
        ("cpp", "#include <string>", None),
        ("cpp", '#include "version.h"', None),
        ("go", '\t"github.com/peercache/peercache/operator/plan"', "operator/plan"),
        ("go", '\tv1 "github.com/peercache/peercache/api/v1alpha1"', "api/v1alpha1"),
        ("go", '\t_ "github.com/peercache/peercache/api/v1alpha1"', "api/v1alpha1"),
        ("go", 'import "github.com/peercache/peercache/operator"', "operator"),
        ("go", '\tscope = "github.com/peercache/peercache/operator"', None),
        ("go", '\t"k8s.io/api/core/v1"', None),
        ("python", "from peercache.core.config import x", "peercache/core/config"),
        ("python", "import peercache.core", "peercache/core"),
        ("python", "    from ..core import config", "peercache/core"),
        ("python", "from . import config", "peercache/sglang"),
        ("python", "x = 1", None),
    ],
)
def test_what_a_line_uses(language: str, line: str, used: str | None) -> None:
    assert LANGUAGES[language].uses(line, "peercache/sglang") == used


MAP = """# Contributing

## The map

### The data plane: `src`

| folder | idea |
|---|---|
| `base` | `pool` is not named here |

The rooms of `src/node`:

| room | idea |
|---|---|
| `disk` | |

### The rest

| folder | idea |
|---|---|
| `tools/lint`, `tools/run` | |

## How a change is made

| `src/pool` | behind the map |
"""


def test_the_map_names_each_folder() -> None:
    trees = parse_table("[cpp src]\nbase:\nnode/disk:\nnode:\n.:\n[go .]\ntools:\ntools/run:\n")
    assert unnamed(trees, MAP) == []


def test_a_folder_that_the_map_does_not_name_is_an_error() -> None:
    trees = parse_table("[cpp src]\nbase:\npool:\ndisk:\n[go .]\ntools/walk:\n")
    assert unnamed(trees, MAP) == [
        f"docs/dev/contributing.md: the map does not name {folder}"
        for folder in ("src/pool", "src/disk", "tools/walk")
    ]


def test_the_command_fails_with_the_offending_line(tmp_path: Path) -> None:
    """On a copy of the tree's lowest folder, which then uses the highest."""
    source = HERE.parents[2] / "dataplane/src"
    for folder in ("base", "wire"):
        shutil.copytree(source / folder, tmp_path / "dataplane/src" / folder)
    (tmp_path / "dataplane/src/base/wrong.cc").write_text('#include "node/node.h"\n')
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    ran = subprocess.run(
        [sys.executable, HERE, tmp_path], check=False, capture_output=True, text=True
    )
    assert ran.returncode == 1
    assert (
        'dataplane/src/base/wrong.cc:1: base may not use node: #include "node/node.h"' in ran.stderr
    )


def test_this_tree_keeps_to_its_table() -> None:
    ran = subprocess.run([sys.executable, HERE], check=False, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr

"""The table of paths, held against the tree; git's word on a change, in a new repository."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from touched import (
    COSTS,
    MOST_SECONDS,
    MOST_SECONDS_COMPILED,
    TABLE,
    chosen,
    costs,
    fits,
    parse,
    room_for,
    touched,
)

ROOT = Path(__file__).parents[3]
ROWS = parse(TABLE.read_text())
SECONDS = costs(COSTS.read_text())


def tracked() -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return listed.stdout.splitlines()


def lanes_of_make() -> set[str]:
    text = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    found = re.search(r"^TEST_LANES := (.*)$", text, re.MULTILINE)
    assert found
    return set(re.findall(r"[a-z][a-z0-9-]+", found[1]))


def lanes_of_full_runs() -> set[str]:
    """Those that `make test` has at full length alone."""
    return set(re.findall(r"\(call if_full,([a-z0-9-]+)\)", (ROOT / "Makefile").read_text()))


def test_a_lane_of_full_runs_is_in_a_run_that_names_it_or_all() -> None:
    for full, there in (("", set()), ("test-cpp test-families", {"test-families"}), ("all", None)):
        command = ["make", "-n", "test", f"FULL={full}"]
        # Of the run that this test is a part of, which may name other lanes.
        clean = {name: value for name, value in os.environ.items() if "MAKE" not in name}
        said = subprocess.run(
            command, cwd=ROOT, env=clean, capture_output=True, text=True, check=True
        )
        ran = set(re.findall(r"[a-z0-9-]+", said.stdout)) & lanes_of_full_runs()
        assert ran == (lanes_of_full_runs() if there is None else there)


def test_every_line_of_the_table_is_the_first_for_some_file() -> None:
    used = {next((p for p, _ in ROWS if fits(p, path)), None) for path in tracked()}
    assert [pattern for pattern, _ in ROWS if pattern not in used] == []


def test_lanes_of_the_table_are_lanes_of_make() -> None:
    assert {lane for _, lanes in ROWS for lane in lanes} | SECONDS.keys() <= lanes_of_make()


def test_each_lane_with_two_lengths_has_a_cost_that_fits() -> None:
    """The recipe of such a lane asks for its length: $(call short,...)."""
    two = set()
    asks = ("call short", "call run_preset", "short_pytest)")
    for makefile in ROOT.rglob("*.mk"):
        for recipe in makefile.read_text().split("\n.PHONY: ")[1:]:
            if any(word in recipe for word in asks):
                two.add(recipe.split()[0])
    assert two & lanes_of_make() | lanes_of_full_runs() == set(SECONDS)
    assert max(SECONDS.values()) <= MOST_SECONDS


@pytest.mark.parametrize(
    ("paths", "lanes"),
    [
        ([], ""),
        (["docs/health.md", "dataplane/python/README.md"], ""),
        (["dataplane/fuzz/wire_fuzz.cc"], "test-fuzz"),
        (["dataplane/src/pool/pool_test.cc"], "test-cpp test-tsan"),
        (["operator/inject/pod.go", "dataplane/model/reclaim.pml"], "e2e test-fuzz test-model"),
        (["hack/dev/lanes/run.py"], None),
        (["Makefile"], None),
        (["dataplane/fuzz/wire_fuzz.cc", "a-new-folder/file"], None),
        (None, None),
    ],
)
def test_what_a_change_touches(paths: list[str] | None, lanes: str | None) -> None:
    assert touched(ROWS, paths) == (None if lanes is None else set(lanes.split()))


@pytest.mark.parametrize(
    ("lanes", "fit", "left"),
    [
        (set(), "", ""),
        ({"a"}, "a", ""),
        ({"a", "b", "one-length"}, "a", "b"),
        ({"a", "b", "c"}, "a c", "b"),
        ({"b", "c"}, "b c", ""),
        (None, "a c", "b"),
    ],
)
def test_what_fits_is_chosen_in_the_order_of_the_table(
    lanes: set[str] | None, fit: str, left: str
) -> None:
    seconds = {"a": 400, "b": 500, "c": 100}
    assert chosen(lanes, seconds, 600) == (fit.split(), left.split())


@pytest.mark.parametrize(
    ("paths", "room"),
    [
        ([], MOST_SECONDS),
        (["operator/main.go", "dataplane/python/peercache/vllm/tier.py"], MOST_SECONDS),
        (["README.md", "dataplane/src/wire/frame.h"], MOST_SECONDS_COMPILED),
        (None, MOST_SECONDS_COMPILED),
    ],
)
def test_a_change_that_is_compiled_leaves_less_room(paths: list[str] | None, room: int) -> None:
    assert room_for(paths) == room


def test_a_line_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="neither a comment nor"):
        parse("docs/ test-site")


class Repository:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.git("init", "-q")

    def git(self, *arguments: str, **environment: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.com")
        done = subprocess.run(
            ["git", *who, *arguments],
            cwd=self.folder,
            env={"PATH": "/usr/bin:/bin", "HOME": str(self.folder), **environment},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    def commit(self, path: str, seconds: int) -> str:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(path)
        self.git("add", ".")
        when = f"{1_700_000_000 + seconds} +0000"
        self.git("commit", "-qm", path, GIT_AUTHOR_DATE=when, GIT_COMMITTER_DATE=when)
        return self.git("rev-parse", "HEAD")

    def touched(self, **environment: str) -> str:
        done = subprocess.run(
            [sys.executable, Path(__file__).with_name("touched.py")],
            cwd=self.folder,
            env={"PATH": "/usr/bin:/bin", **environment},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()


def test_the_change_is_what_was_pushed_together(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    first = repository.commit("Makefile", 0)
    whole = " ".join(chosen(None, SECONDS, room_for(None))[0])
    assert repository.touched() == whole, "nothing is known of what was before"
    middle = repository.commit("dataplane/model/reclaim.pml", 100_000)
    repository.commit("dataplane/fuzz/fuzz.cc", 103_600)
    assert repository.touched() == "test-fuzz"
    assert repository.touched(CHANGE_BASE=middle) == "test-fuzz"
    assert repository.touched(CHANGE_BASE=first) == "test-fuzz"
    assert repository.touched(CHANGE_BASE="0" * 40) == whole, "no such commit"

"""alone.py: a header that uses what another one includes is found."""

from __future__ import annotations

from pathlib import Path

import pytest
from alone import compile_alone, flags, headers


def test_flags_are_those_of_a_command() -> None:
    assert flags("clang++ -I'a b' -DX=1 -o x.o -c /src/x.cc") == ["clang++", "-Ia b", "-DX=1"]


def test_headers_are_those_that_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dataplane/src").mkdir(parents=True)
    for name in ("a.h", "a.cc"):
        (tmp_path / "dataplane/src" / name).touch()
    paths = [f"dataplane/src/{name}" for name in ("a.cc", "a.h", "gone.h")]
    assert headers([*paths, "dataplane/bench/perf/perf.h"]) == ["dataplane/src/a.h"]


def test_what_another_file_includes_is_missed(tmp_path: Path) -> None:
    whole, half = tmp_path / "whole.h", tmp_path / "half.h"
    whole.write_text("#pragma once\n#include <string>\ninline std::string A() { return {}; }\n")
    half.write_text("#pragma once\ninline std::string B() { return {}; }\n")
    command = ["clang++", "-std=c++20", "-Wall", "-Werror"]
    assert compile_alone(command, str(whole)) == ""
    said = compile_alone(command, str(half))
    assert said.startswith(f"{half} does not compile by itself:")
    assert "std" in said

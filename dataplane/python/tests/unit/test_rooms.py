"""What each package may import, and which package a pyproject installs."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Collection
from pathlib import Path

import pytest

from ..conftest import PYTHON

ENGINES = ("sglang", "vllm", "lmcache", "torch")
CONNECTORS = ("peercache.sglang", "peercache.vllm", "peercache.lmcache")


def imported(folder: str) -> set[str]:
    """The modules that files below the folder import, also inside functions."""
    found: set[str] = set()
    files = sorted((PYTHON / folder).rglob("*.py"))
    assert files, f"{folder} holds no Python files"
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                found.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{file} imports relatively"
                found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def below(modules: set[str], *packages: str) -> list[str]:
    """Those of the modules that are one of the packages, or inside it."""
    return sorted(
        module for module in modules if any(f"{module}.".startswith(f"{p}.") for p in packages)
    )


@pytest.mark.parametrize(
    ("folder", "forbidden"),
    [
        ("peercache/core", {*ENGINES, *CONNECTORS, "peercache.store"}),
        ("peercache/sglang", {*ENGINES, *CONNECTORS} - {"sglang", "torch", "peercache.sglang"}),
        ("peercache/vllm", {*ENGINES, *CONNECTORS} - {"vllm", "torch", "peercache.vllm"}),
        ("peercache/lmcache", {*ENGINES, *CONNECTORS} - {"lmcache", "peercache.lmcache"}),
        ("peercache", ("peercache_bench",)),
        ("peercache_bench", (*ENGINES, "peercache")),
    ],
)
def test_imports_go_one_way(folder: str, forbidden: Collection[str]) -> None:
    assert below(imported(folder), *forbidden) == []


def test_the_connector_is_recognised() -> None:
    modules = imported("peercache/sglang")
    assert below(modules, "sglang")
    assert below(modules, "peercache.core")


def pyproject(folder: Path) -> str:
    return (folder / "pyproject.toml").read_text()


def test_the_engine_installs_no_benchmark() -> None:
    project = pyproject(PYTHON.parent)
    assert 'wheel.packages = ["python/peercache"]' in project
    assert "[project.scripts]" not in project


def test_the_command_of_the_benchmark_exists() -> None:
    project = pyproject(PYTHON / "peercache_bench")
    command = re.search(r"\[project\.scripts\]\npeercache-bench = \"([\w.]+):(\w+)\"", project)
    assert command, project
    assert callable(getattr(importlib.import_module(command[1]), command[2]))

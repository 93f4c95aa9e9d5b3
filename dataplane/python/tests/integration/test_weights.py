"""Engines of several processes share pages when their weights are the same, wherever they lie."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hicache_engine import hub

from .conftest import Cluster

PAGES = 20
SCENARIO = {"seed": 1, "pages": PAGES}


@pytest.mark.node
def test_engines_share_by_weights(cluster: Cluster, tmp_path: Path) -> None:
    hub.write(tmp_path / "base", seed="base")
    hub.write(tmp_path / "tuned", seed="tuned")
    shutil.copytree(tmp_path / "base", tmp_path / "copy")
    a, b = cluster.node("a"), cluster.node("b")

    def at(folder: str, *more: str) -> tuple[str, ...]:
        return (f"--model-path={tmp_path / folder}", *more)

    writer = cluster.engine("base", a, flags=at("base"))
    assert writer.ask("write", **SCENARIO)["backup"] == PAGES * 16
    found = {
        name: cluster.engine(name, b, flags=flags).ask("read", **SCENARIO)["hit"] // 16
        for name, flags in {
            "copy": at("copy"),
            "tuned": at("tuned"),
            "version": at("copy", "--weight-version=2"),
            "rope": at("copy", '--json-model-override-args={"rope_theta": 1e6}'),
        }.items()
    }
    assert found == {"copy": PAGES, "tuned": 0, "version": 0, "rope": 0}


@pytest.mark.node
def test_weights_of_no_files_end_an_engine_that_has_no_tag(cluster: Cluster) -> None:
    node = cluster.node("c")
    dummy = ("--load-format=dummy",)
    engine = cluster.engine("untagged", node, flags=dummy, wait=False)
    assert engine.popen.wait(60) != 0
    assert 'extra-config "tag" is missing' in engine.output()
    cluster.engine("tagged", node, flags=dummy, extra={"tag": "dummy"})

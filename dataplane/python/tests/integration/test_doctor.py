"""peercached doctor, as a process: what it prints and returns, alone and beside a node."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from .conftest import Cluster
from .processes import Process, binary, free_port, peercached


def doctor(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(binary()), "doctor", *arguments], capture_output=True, text=True, timeout=60
    )


def findings(report: dict[str, Any], subject: str) -> list[dict[str, str]]:
    return [finding for finding in report["findings"] if finding["subject"] == subject]


@pytest.mark.node
def test_without_node_and_cluster() -> None:
    done = doctor("--json", "--http-port", str(free_port()), "--pool-size", "64Mi")
    report = json.loads(done.stdout)
    assert done.returncode == report["exit_code"] in (0, 1)
    assert {"devices", "limits", "ports", "gids", "numa", "findings"} <= report.keys()
    assert findings(report, "members")[0]["text"].startswith("no node answers at 127.0.0.1")
    assert "alone" in findings(report, "discovery")[0]["text"]


@pytest.mark.node
def test_what_cannot_work_is_a_fault() -> None:
    done = doctor("--transport", "rdma", "--device-name", "nonesuch0", "--http", "off")
    assert done.returncode == 2
    assert re.search(r"FAULT +transport +no RDMA device nonesuch0", done.stdout)
    refused = doctor("--pool-size", "4 bananas")
    assert refused.returncode == 2
    assert "bananas" in refused.stderr


@pytest.mark.node
def test_beside_a_node(cluster: Cluster) -> None:
    node = cluster.node("a")
    done = doctor(
        "--json", "--discovery-addr", cluster.discovery, "--http-port", str(node.http_port)
    )
    report = json.loads(done.stdout)
    assert findings(report, f"discovery {cluster.discovery}")[0]["grade"] == "ok"
    assert not findings(report, "members")
    assert "the node that runs here" in findings(report, "huge pages")[0]["text"]


# Container runtimes start programs with few descriptors, and let them raise that.
FEW = ["prlimit", "--nofile=128:4096"]


@pytest.mark.node
def test_few_descriptors_are_raised(tmp_path: Path) -> None:
    http_port = free_port()
    command = peercached(
        "a", "127.0.0.1", free_port(), http_port, "", str(tmp_path / "a.sock"), "64Mi", {}
    )
    node = Process("a", tmp_path, [*FEW, *command], {})
    try:
        node.wait_for(f"http://127.0.0.1:{http_port}/healthz")
        limits = Path(f"/proc/{node.popen.pid}/limits").read_text()
        assert re.search(r"Max open files +4096 +4096 ", limits)
        assert "descriptors: the limit was 128, and is 4096 now" in node.output()
    finally:
        node.stop()


@pytest.mark.node
def test_few_descriptors_are_found() -> None:
    done = subprocess.run(
        [*FEW, str(binary()), "doctor", "--json", "--http", "off", "--transport", "tcp"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    found = findings(json.loads(done.stdout), "descriptors")
    assert [finding["text"] for finding in found] == [
        "128, which the node raises to 4096 when it starts"
    ]

"""peercache-bench published for real, in small: both sides on this machine, over TCP."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ..conftest import PYTHON
from ..patience import HANG_SECONDS
from .processes import binary, free_port

pytestmark = pytest.mark.node

# Of any figure. It tells a rate from what was divided twice, not a machine from another.
SOME = 1e-5


def measured(command: str, folder: Path, *words: str, servers: int = 1) -> dict[str, Any]:
    """With ``servers`` sides that serve, each at a port of its own."""
    line = [
        sys.executable, "-m", "peercache_bench", *command.split(), f"--build={binary().parent}",
        "--working-set=32m", "--duration=0.2", "--warmup=0",
        "--advertise-addr=127.0.0.1", "--numa-node=0",
        # The nodes stand for machines.
        "--node-option=map-pools=off", *words,
    ]  # fmt: skip
    ports = [free_port() for _ in range(servers)]
    serve = [subprocess.Popen([*line, f"--port={port}"], cwd=PYTHON) for port in ports]
    try:
        hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
        measures = subprocess.run(
            [*line, f"--host={hosts}", f"--out-dir={folder}"],
            cwd=PYTHON, capture_output=True, text=True, check=False, timeout=5 * HANG_SECONDS,
        )  # fmt: skip
        assert measures.returncode == 0, measures.stderr
        assert [process.wait(HANG_SECONDS) for process in serve] == [0] * servers
    finally:
        for process in serve:
            process.kill()
            process.wait()
    name, table = command.replace(" ", "-"), command.split()[-1]
    assert (folder / f"{name}-{table}.png").read_bytes().startswith(b"\x89PNG")
    assert f"peercache-bench {command}" in (folder / f"{name}.html").read_text()
    values: dict[str, Any] = json.loads((folder / f"{name}.json").read_text())
    return values


@pytest.mark.full
def test_single_requests(tmp_path: Path) -> None:
    line = [
        sys.executable, "-m", "peercache_bench", "published", "async",
        f"--build={binary().parent}", "--working-set=32m", "--duration=0.05", "--warmup=0",
        "--node-option=map-pools=off", f"--out-dir={tmp_path}",
    ]  # fmt: skip
    subprocess.run(line, cwd=PYTHON, check=True, capture_output=True)
    cells = json.loads((tmp_path / "published-async.json").read_text())["cells"]
    assert len(cells) == 52
    for cell in cells:
        if cell["column"] == "window 50":
            assert "32 requests" in cell["why"]
            continue
        assert SOME < (cell["ours"] or 0) < 1_000_000, cell


def test_threads_beside_iperf3(tmp_path: Path) -> None:
    cells = measured("published threads", tmp_path, "--concurrencies=2")["cells"]
    here = [cell for cell in cells if "here" in cell["row"]]
    assert len(here) == 4
    for cell in here:
        assert SOME < (cell["ours"] or 0) < 10_000, cell
    assert {"row": "published, bare metal", "column": "2", "theirs": 39.2, "ours": None,
            "why": "another machine"} in cells  # fmt: skip


@pytest.mark.full
def test_reads_by_the_size_of_a_page(tmp_path: Path) -> None:
    cells = measured("published blocks", tmp_path, "--concurrency=1", "--sizes=4k,16m")["cells"]
    reads = [cell for cell in cells if cell["column"] == "TCP read"]
    assert len(reads) == 2
    for cell in reads:
        assert SOME < (cell["ours"] or 0) < 1000, cell
    assert all(cell["why"] for cell in cells if cell["column"] != "TCP read")


def test_reads_by_how_many_serve(tmp_path: Path) -> None:
    cells = measured("published servers", tmp_path, "--concurrency=2", servers=2)["cells"]
    rows = {cell["row"]: cell["ours"] or 0 for cell in cells if cell["column"] == "TCP read"}
    assert rows.keys() == {"1 server", "2 servers"}
    assert all(SOME < rate < 1000 for rate in rows.values()), rows


@pytest.mark.full
def test_whole_gets(tmp_path: Path) -> None:
    cells = measured("gets", tmp_path, "--concurrencies=1,2")["cells"]
    near = [cell for cell in cells if "far" not in cell["row"]]
    assert len(near) == 8
    assert all(SOME < (cell["ours"] or 0) < 1000 for cell in near), near
    far = [cell for cell in cells if "far" in cell["row"]]
    assert len(far) == 2
    assert all(cell["ours"] or cell["why"] == "this host has one NUMA node" for cell in far), far

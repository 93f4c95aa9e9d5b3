"""Pages into the memory of a GPU, up to the node that has to refuse it: no GPU is here.

Memory that a node can reach is tested over soft-RoCE (hack/lab/soft-rdma/tests/46-bench.sh).
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from peercache_bench import published_steps
from peercache_bench.binaries import find
from peercache_bench.errors import BenchError

from .conftest import Cluster
from .processes import Node, binary, shared_library

pytestmark = pytest.mark.node

SOURCE = Path(__file__).with_name("cuda_of_host_memory.c")


@pytest.fixture(scope="module")
def node(cluster: Cluster) -> Node:
    return cluster.node("gpu")


def refused(node: Node, cuda: Path, exports: str) -> str:
    """What a reader says that wants pages in memory of this libcuda.so.1."""
    perf = find("peercache-perf", binary().parent)
    done = subprocess.run(
        [perf, "get", "--gpu", "--pages=4", "--window=4", "--batch=4", f"--socket={node.socket}"],
        env={"LD_LIBRARY_PATH": str(cuda), "CUDA_EXPORTS": exports},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 1
    return done.stderr


@pytest.mark.parametrize(
    ("exports", "says"),
    [
        ("nothing", "exports no dma-bufs: install NVIDIA's open kernel modules"),
        ("file", "the descriptor is not a dma-buf"),
    ],
)
def test_a_gpu_that_no_node_can_reach_says_why(
    exports: str, says: str, node: Node, tmp_path: Path
) -> None:
    shared_library(SOURCE, tmp_path / "libcuda.so.1")
    assert says in refused(node, tmp_path, exports)


def test_a_driver_that_cannot_be_loaded_is_named(node: Node, tmp_path: Path) -> None:
    (tmp_path / "libcuda.so.1").write_text("no library")
    assert "install NVIDIA's driver" in refused(node, tmp_path, "")


def test_a_host_without_a_gpu_says_so_in_the_published_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(published_steps, "CUDA", "libcuda-of-nobody.so")
    with pytest.raises(BenchError, match=r"shows no GPU .*libcuda-of-nobody"):
        published_steps.need_gpu()

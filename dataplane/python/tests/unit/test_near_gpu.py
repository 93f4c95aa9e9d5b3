"""A rank uses the node on the NUMA node of its GPU, on a simulated machine with two of them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from peercache.core.near_gpu import socket_near_gpu
from peercache.sglang.gpu import address_of

# The machine that `kubectl peercache discover` is tested on: FILE = LINE of the file.
MACHINE = Path(__file__).parents[4] / "operator/machine/testdata/hgx-h100.txt"
NUMA0, NUMA1 = "/run/peercache/numa0.sock", "/run/peercache/numa1.sock"
INJECTED = {"PEERCACHE_SOCKET": NUMA0, "PEERCACHE_NUMA_SOCKETS": f"0={NUMA0},1={NUMA1}"}


@pytest.fixture
def sysfs(tmp_path: Path) -> Path:
    for line in MACHINE.read_text().splitlines():
        name, found, content = line.partition(" = ")
        if found and "/devices/" in name:
            file = tmp_path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content + "\n")
    return tmp_path / "sys"


@pytest.mark.parametrize(
    ("gpu", "socket", "why"),
    [
        ("0000:1b:00.0", NUMA0, "GPU 0000:1b:00.0 is on NUMA node 0"),
        ("0000:dd:00.0", NUMA1, "GPU 0000:dd:00.0 is on NUMA node 1"),
        ("", NUMA0, "this rank has no GPU whose PCI address is known"),
        ("0000:ff:00.0", NUMA0, "the machine does not report the NUMA node of GPU 0000:ff:00.0"),
    ],
)
def test_the_gpu_decides(sysfs: Path, gpu: str, socket: str, why: str) -> None:
    assert socket_near_gpu(NUMA0, INJECTED, lambda: gpu, sysfs) == (socket, why)


@pytest.mark.parametrize(
    ("given", "environ"),
    [
        ("/run/peercache/default.sock", {}),
        ("/mine.sock", INJECTED),  # the user's extra-config
        (NUMA1, INJECTED),  # the user's as well: the operator's is that of the first group
        (NUMA0, {"PEERCACHE_SOCKET": NUMA0}),  # the annotation peercache.io/group
        (NUMA0, {"PEERCACHE_NUMA_SOCKETS": f"zero={NUMA0}"}),
        ("", INJECTED),  # a node in this process
    ],
)
def test_who_has_chosen_keeps_the_choice(given: str, environ: dict[str, str]) -> None:
    def never() -> str:
        raise AssertionError("the GPU was asked for")

    assert socket_near_gpu(given, environ, never) == (given, "")


def test_a_numa_node_without_rails_uses_the_nearest(sysfs: Path) -> None:
    """Four NUMA nodes, of which 0 and 3 have rails."""
    environ = {"PEERCACHE_NUMA_SOCKETS": f"0={NUMA0},3={NUMA1}"}
    numa_node = sysfs / "bus/pci/devices/0000:1b:00.0/numa_node"

    def chosen(node: int, distances: str) -> str:
        numa_node.write_text(f"{node}\n")
        table = sysfs / f"devices/system/node/node{node}/distance"
        table.parent.mkdir(exist_ok=True)
        table.write_text(distances + "\n")
        return socket_near_gpu(NUMA0, environ, lambda: "0000:1b:00.0", sysfs)[0]

    assert chosen(2, "32 32 10 12") == NUMA1
    assert chosen(1, "12 10 32 32") == NUMA0
    assert chosen(1, "") == NUMA0


def test_the_address_is_as_sysfs_writes_it() -> None:
    properties = SimpleNamespace(pci_domain_id=0, pci_bus_id=0x9D, pci_device_id=0)
    assert address_of(properties) == "0000:9d:00.0"
    assert address_of(SimpleNamespace(pci_bus_id=0x9D)) == ""

"""Which processors are near an RDMA port or a NUMA node, and how to stay on them."""

from __future__ import annotations

from pathlib import Path

SYSFS = Path("/sys")


def node_of_port(device: str, sysfs: Path = SYSFS) -> int | None:
    """The NUMA node of ``mlx5_0`` or ``mlx5_0:2``; None where the kernel does not say."""
    return _node_of(sysfs / "class/infiniband" / device.partition(":")[0])


def node_of_interface(name: str, sysfs: Path = SYSFS) -> int | None:
    """The NUMA node of a network interface, as the above."""
    return _node_of(sysfs / "class/net" / name)


def _node_of(entry: Path) -> int | None:
    try:
        node = int((entry / "device/numa_node").read_text())
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None


def another_node(near: int, sysfs: Path = SYSFS) -> int | None:
    """A NUMA node that is not this one; None where there is no other."""
    found = sorted(
        int(path.name.removeprefix("node"))
        for path in (sysfs / "devices/system/node").glob("node[0-9]*")
        if (path / "cpulist").read_text().strip()
    )
    return next((node for node in found if node != near), None)


def on_node(node: int, sysfs: Path = SYSFS) -> list[str]:
    """Words before a command that keep it on the node's processors.

    Memory follows: the kernel gives a process pages of the node that it runs on.
    """
    path = sysfs / "devices/system/node" / f"node{node}" / "cpulist"
    return ["taskset", "--cpu-list", path.read_text().strip()]

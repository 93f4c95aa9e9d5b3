"""Which node of its machine an engine uses: that of the NUMA node of its GPU.

Pure but for sysfs: no SGLang, no torch, no extension.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from peercache.core.config import SOCKET_VARIABLE

SOCKETS_VARIABLE = "PEERCACHE_NUMA_SOCKETS"


def socket_near_gpu(
    given: str, environ: Mapping[str, str], gpu: Callable[[], str], sysfs: Path = Path("/sys")
) -> tuple[str, str]:
    """Returns the socket, and why it is that one; the reason is "" where there is no choice.

    There is one in pods that choose no group, where machines have nodes on several NUMA nodes: the
    operator then writes the variable. A socket that the user's extra-config names stays.

    ``gpu`` returns the PCI address of the rank's GPU, or "" where it is not known. A GPU of a NUMA
    node without rails uses the nearest one that has some.
    """
    sockets = _parse(environ.get(SOCKETS_VARIABLE, ""))
    if given not in sockets.values() or given != environ.get(SOCKET_VARIABLE, given):
        return given, ""
    address = gpu()
    if not address:
        return given, "this rank has no GPU whose PCI address is known"
    numa = _number(sysfs / "bus/pci/devices" / address / "numa_node")
    if numa is None or numa < 0:
        return given, f"the machine does not report the NUMA node of GPU {address}"
    nearest = min(sockets, key=lambda node: (_distance(sysfs, numa, node), node))
    return sockets[nearest], f"GPU {address} is on NUMA node {numa}"


def _parse(text: str) -> dict[int, str]:
    """``0=/run/peercache/numa0.sock,1=...``; nothing where it is written otherwise."""
    sockets: dict[int, str] = {}
    for part in filter(None, text.split(",")):
        node, _, path = part.partition("=")
        if not node.isdecimal() or not path:
            return {}
        sockets[int(node)] = path
    return sockets


def _distance(sysfs: Path, of: int, to: int) -> int:
    """By the firmware's table, which has a column for each NUMA node; far where it has none."""
    if of == to:
        return 0
    try:
        row = (sysfs / f"devices/system/node/node{of}/distance").read_text().split()
        return int(row[to])
    except (OSError, ValueError, IndexError):
        return 1 << 16


def _number(file: Path) -> int | None:
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return None

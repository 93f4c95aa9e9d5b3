"""What ports of RDMA devices have counted: losses, waits, and bytes of a bond's members."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

# Packets that came twice, late or not at all: some are sent again. Of mlx5, rxe, and interfaces.
LOSSES = (
    "out_of_sequence", "packet_seq_err", "local_ack_timeout_err", "out_of_seq_request",
    "rcvd_seq_err", "completer_retry_err", "rx_discards_phy", "tx_discards_phy",
)  # fmt: skip
# The network or the other host asked for less: priority flow control and congestion control.
WAITS = ("rp_cnp_handled", "np_cnp_sent", "np_ecn_marked_roce_packets")
_PAUSE = re.compile(r"[rt]x_(prio\d_|global_)?pause")
_MEMBER_BYTES = "rx_bytes_phy"


@dataclass(frozen=True)
class Counted:
    """What grew during something, by name, over all ports."""

    losses: Mapping[str, int] = field(default_factory=dict)
    waits: Mapping[str, int] = field(default_factory=dict)
    # Bytes that came to each member of bonds, by interface; empty without a bond.
    members: Mapping[str, int] = field(default_factory=dict)


class Counters:
    """The counters of some ports (``mlx5_0``, ``mlx5_0:2``). What a host lacks counts nothing."""

    def __init__(self, devices: Sequence[str], sysfs: Path = Path("/sys")) -> None:
        self._sysfs = sysfs
        self._ports = [port_folder(device, sysfs) for device in devices]
        self._interfaces = sorted({name for port in self._ports for name in _interfaces(port)})
        self._members = sorted({m for name in self._interfaces for m in self._members_of(name)})
        self._before = self._read()

    def grown(self) -> Counted:
        """Since the last call, or since this was made."""
        before, self._before = self._before, self._read()
        grown = {key: now - before.get(key, 0) for key, now in self._before.items()}
        return Counted(
            losses=_sums(grown, lambda name: name in LOSSES),
            waits=_sums(grown, lambda name: name in WAITS or _PAUSE.fullmatch(name) is not None),
            members={
                place: count
                for (place, name), count in grown.items()
                if place in self._members and name == _MEMBER_BYTES
            },
        )

    def _read(self) -> dict[tuple[str, str], int]:
        values: dict[tuple[str, str], int] = {}
        for port in self._ports:
            for file in sorted((port / "hw_counters").glob("*")):
                if file.name in (*LOSSES, *WAITS):
                    values[str(port), file.name] = _number(file)
        for interface in {*self._interfaces, *self._members}:
            for name, value in _statistics(interface).items():
                values[interface, name] = value
        return values

    def _members_of(self, interface: str) -> list[str]:
        try:
            text = (self._sysfs / "class/net" / interface / "bonding/slaves").read_text()
        except OSError:
            return []
        return text.split()


def port_folder(device: str, sysfs: Path) -> Path:
    """What the kernel says of a port (``mlx5_0`` or ``mlx5_0:2``)."""
    name, _, number = device.partition(":")
    return sysfs / "class/infiniband" / name / "ports" / (number or "1")


def _interfaces(port: Path) -> set[str]:
    """That its GIDs belong to: entries that are not in use answer with an error."""
    found = set()
    for file in (port / "gid_attrs/ndevs").glob("*"):
        try:
            found.add(file.read_text().strip())
        except OSError:
            continue
    return found - {""}


def _number(file: Path) -> int:
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return 0


def _statistics(interface: str) -> dict[str, int]:
    """Of ``ethtool -S``, where there is one and the driver has some."""
    if shutil.which("ethtool") is None:
        return {}
    done = subprocess.run(["ethtool", "-S", interface], capture_output=True, text=True, check=False)
    return parse_statistics(done.stdout)


def parse_statistics(text: str) -> dict[str, int]:
    """Those that are asked for: lines such as ``     rx_prio3_pause: 12``."""
    found = {}
    for name, value in re.findall(r"^\s*(\w+): (\d+)\s*$", text, re.MULTILINE):
        if name in (*LOSSES, *WAITS, _MEMBER_BYTES) or _PAUSE.fullmatch(name):
            found[name] = int(value)
    return found


def _sums(grown: Mapping[tuple[str, str], int], wanted: Callable[[str], bool]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for (_, name), count in grown.items():
        if count > 0 and wanted(name):
            sums[name] = sums.get(name, 0) + count
    return sums

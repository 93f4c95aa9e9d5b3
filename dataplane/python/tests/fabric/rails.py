"""Nodes on the rails of hack/lab/soft-rdma/fabric.sh."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .. import wrong_bytes
from ..conftest import ROOT
from ..fleet import calls, pages
from ..fleet.network import Host, inside
from ..fleet.nodes import Fleet, Node
from ..patience import HANG_SECONDS

# Seconds that any state may take to come about.
LONGEST_WAIT = HANG_SECONDS
PAGES_EACH = 100
ROCE_PORT = 4791
ETH_P_IPV6 = 0x86DD
# Of each thread of an engine, between two calls.
PAUSE_SECONDS = 0.1
HOSTS = [Host("a", "A", "10.10.0.1"), Host("b", "B", "10.10.0.2")]


def wait_until(holds: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + LONGEST_WAIT
    while not holds():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.1)


def fabric(command: str) -> None:
    script = f". hack/lab/soft-rdma/fabric.sh; {command}"
    subprocess.run(["bash", "-euo", "pipefail", "-c", script], cwd=ROOT, check=True)


def rail_address6(host: Host, rail: int) -> str:
    return f"fd00:{20 + rail}::{HOSTS.index(host) + 1}"


class RailNode(Node):
    """A node that sees the devices of its host in /sys."""

    def enter(self, host: Host) -> list[str]:
        return ["ip", "netns", "exec", host.namespace]


class RailFleet(Fleet):
    """Nodes that use the two rails of their host."""

    def __init__(
        self,
        folder: Path,
        pages_each: int,
        holders: int | None = None,
        of_host: Mapping[str, Mapping[str, str]] | None = None,
        **flags: str,
    ) -> None:
        """``of_host``: flags of single hosts' nodes."""
        # Pages that are read often would be copied, and then not be read again.
        super().__init__(folder, None, HOSTS, pages_each, holders, promotion_percent="0", **flags)
        self.of_host = of_host or {}

    def _node(self, i: int) -> Node:
        host = self.hosts[i]
        rails = {"transport": "rdma", "device_name": f"rxe_{host.name}0,rxe_{host.name}1"}
        flags = {**self.flags, **rails, **self.of_host.get(host.name, {})}
        return RailNode(host, self.folder, self.discovery, flags)

    def begin_load(self, readers: Sequence[int], **options: object) -> None:
        # Without rest, each step of a test would wait for the guest's one processor.
        super().begin_load(readers, pause=PAUSE_SECONDS, **options)

    def read_bytes(self, node: int, rail: int) -> float:
        """What the node has read over the rail."""
        name = f'rail="rxe_{self.hosts[node].name}{rail}'
        return sum(
            value
            for sample, value in self.nodes[node].metrics().items()
            if sample.startswith("peercache_rail_read_bytes_total{") and name in sample
        )


@contextmanager
def running(fleet: RailFleet) -> Iterator[RailFleet]:
    """Until its engines have read one another's pages."""
    try:
        fleet.start()
        fleet.wait_full(LONGEST_WAIT)
        yield fleet
    finally:
        fleet.stop()


def make_certificate(folder: Path) -> dict[str, str]:
    """Flags of nodes that show one another a certificate which is its own CA."""
    key, certificate = folder / "tls.key", folder / "tls.crt"
    make = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    to = ["-nodes", "-subj", "/CN=peercache", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*make, *to], check=True, capture_output=True)
    files = {"cert": certificate, "key": key, "ca": certificate}
    return {f"tls_{name}_file": str(file) for name, file in files.items()}


@dataclass(frozen=True)
class RocePacket:
    """What a frame of RoCEv2 in IPv6 carries."""

    traffic_class: int
    payload: int  # bytes


def _roce_packet(frame: bytes) -> RocePacket | None:
    """None for other frames."""
    ip, udp = frame[14:54], frame[54:62]
    if len(udp) < 8 or ip[6] != socket.IPPROTO_UDP or udp[2:4] != ROCE_PORT.to_bytes(2, "big"):
        return None
    overhead = 8 + 12 + 4 + 4  # UDP, BTH, AETH, ICRC
    traffic_class = int.from_bytes(ip[:2], "big") >> 4 & 0xFF
    return RocePacket(traffic_class, int.from_bytes(udp[4:6], "big") - overhead)


def received_packets(host: Host, interface: str, count: int) -> list[RocePacket]:
    """The next packets of RoCEv2 in IPv6 that come to the host."""
    packets: list[RocePacket] = []
    listen = socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_IPV6)
    deadline = time.monotonic() + LONGEST_WAIT
    with inside(host.namespace, lambda: socket.socket(*listen)) as listener:
        listener.bind((interface, ETH_P_IPV6))
        listener.settimeout(LONGEST_WAIT)
        while len(packets) < count:
            assert time.monotonic() < deadline, f"{interface} got {len(packets)} packets"
            if packet := _roce_packet(listener.recv(200)):
                packets.append(packet)
    return packets


def no_wrong_byte(log: calls.Calls, fleet: RailFleet) -> None:
    assert len(log) > 0
    outputs = "\n".join(engine.output() for engine in fleet.engines)
    wrong_bytes.check_none(int(log["wrong"].sum()), outputs)


def wait_for_rail(fleet: RailFleet, node: int, rail: int) -> None:
    """Until the node has read ten pages more over the rail."""
    enough = fleet.read_bytes(node, rail) + 10 * pages.PAGE_BYTES

    def used() -> bool:
        fleet.wait_full(LONGEST_WAIT)
        return fleet.read_bytes(node, rail) >= enough

    wait_until(used, f"node {node} does not read over rail {rail}")

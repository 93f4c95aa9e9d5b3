"""A link of limited speed to a second network namespace: the NIC that engines of a node share.

    with limited_link(gigabits=10) as link:
        ...                    # link.near: here; link.far: a place at the other end

Needs root, iproute2, and a kernel with veth and tbf. Both ends are removed afterwards. A run also
removes first what a killed one has left.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

from peercache_bench.errors import BenchError
from peercache_bench.nodes import Place

NAME = "pcbench"  # of the namespace; the ends of the link are pcbench0 (here) and pcbench1
# Addresses of the block for benchmarks (RFC 2544), which no network routes.
NEAR, FAR = "198.18.77.1", "198.18.77.2"


@dataclass(frozen=True)
class Link:
    near: Place
    far: Place


@contextlib.contextmanager
def limited_link(gigabits: int) -> Iterator[Link]:
    """Each direction carries ``gigabits`` Gbit/s. Raises BenchError if a step fails."""
    within = ("ip", "netns", "exec", NAME)
    # A token bucket lets a burst pass at any speed: 2 MB, which is 2 ms at 10 Gbit/s.
    limit = f"root tbf rate {gigabits}gbit burst 2mb latency 20ms"
    _remove()
    try:
        _run(f"ip netns add {NAME}")
        _run(f"ip link add {NAME}0 type veth peer name {NAME}1 netns {NAME}")
        _run(f"ip address add {NEAR}/30 dev {NAME}0")
        _run(f"ip link set {NAME}0 up")
        _run(f"ip -n {NAME} address add {FAR}/30 dev {NAME}1")
        _run(f"ip -n {NAME} link set {NAME}1 up")
        _run(f"ip -n {NAME} link set lo up")
        _run(f"tc qdisc add dev {NAME}0 {limit}")
        _run(f"tc -n {NAME} qdisc add dev {NAME}1 {limit}")
        yield Link(Place(NEAR), Place(FAR, within))
    finally:
        _remove()


def _remove() -> None:
    subprocess.run(["ip", "netns", "delete", NAME], capture_output=True, check=False)
    # The namespace lives on for as long as a process is in it, and the link with it.
    subprocess.run(["ip", "link", "delete", f"{NAME}0"], capture_output=True, check=False)


def _run(command: str) -> None:
    done = subprocess.run(command.split(), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchError(
            f"{command}: {done.stderr.strip()}; a link of limited speed needs root, iproute2, and "
            "a kernel with veth and tbf"
        )

"""A switch and hosts, each in a network namespace of its own; faults are rules of the switch.

    with Network() as network:
        a, b = network.host("a"), network.host("b")
        network.apply(Network.cut(a, b))     # nothing from a reaches b
        network.heal()

Nothing is visible in the namespace of the caller. Namespaces carry the caller's process id in their
names; those that a killed run left behind are removed by the next one.
"""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TypeVar

NAMESPACES = Path("/run/netns")
PREFIX = "pcfault"
CLONE_NEWNET = 0x40000000
# Of IP and TCP with time stamps; the loopback counts without Ethernet's.
PACKET_HEADERS = 20 + 32

_Result = TypeVar("_Result")


class NetworkUnavailable(RuntimeError):
    """Namespaces, bridges or packet filters cannot be made here."""


@dataclass(frozen=True)
class Host:
    """One machine: a namespace (empty: this one), an address, and the switch's port it hangs on."""

    name: str
    namespace: str
    address: str
    port: str = "lo"


def loopback(count: int) -> list[Host]:
    """Hosts that are addresses of this machine's loopback, other ones for each process."""
    pid = os.getpid()
    block = f"127.{1 + (pid >> 8) % 250}.{pid % 256}"
    return [Host(f"n{i}", "", f"{block}.{i + 1}") for i in range(count)]


def require_root() -> None:
    if os.geteuid() != 0:
        raise NetworkUnavailable(
            "the fault tests make network namespaces and need root: run them as root (sudo make "
            "test-faults)"
        )


def _run(command: list[str], text: str = "") -> None:
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NetworkUnavailable(
            f"{' '.join(command)} failed: {done.stderr.strip()}\n{text}\nThe fault tests "
            "need iproute2 and nftables (hack/dev/deps.sh), "
            "and a kernel with veth, tun and bridge filters"
        )


def inside(namespace: str, work: Callable[[], _Result]) -> _Result:
    """Runs ``work`` in the namespace. Sockets and devices it opens stay there."""
    if not namespace:
        return work()
    results: list[_Result] = []
    errors: list[BaseException] = []

    def run() -> None:
        # A namespace belongs to a thread, so this one is used for nothing else.
        libc = ctypes.CDLL(None, use_errno=True)
        handle = os.open(NAMESPACES / namespace, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if libc.setns(handle, CLONE_NEWNET) == 0:
                results.append(work())
            else:
                number = ctypes.get_errno()
                errors.append(OSError(number, os.strerror(number), namespace))
        except BaseException as error:
            errors.append(error)
        finally:
            os.close(handle)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def loopback_bytes(namespace: str) -> int:
    """What has gone over the loopback of the namespace, which is all TCP over IPv4: its payload."""
    lines = inside(namespace, Path("/proc/thread-self/net/dev").read_text).splitlines()
    received = next(line.split() for line in lines if line.lstrip().startswith("lo:"))
    return int(received[1]) - int(received[2]) * PACKET_HEADERS


def remove_stale() -> None:
    """Removes the namespaces of runs whose process is gone, and what still runs in them."""
    if not NAMESPACES.is_dir():
        return
    for entry in NAMESPACES.iterdir():
        owner = re.fullmatch(rf"{PREFIX}(\d+)-.+", entry.name)
        if owner and not Path("/proc", owner[1]).exists():
            _remove(entry.name)


def _remove(namespace: str) -> None:
    found = subprocess.run(
        ["ip", "netns", "pids", namespace], capture_output=True, text=True, check=False
    )
    for pid in found.stdout.split():
        os.kill(int(pid), 9)
    _run(["ip", "netns", "delete", namespace])


class Network:
    """A switch with hosts."""

    SUBNET = "10.77.0"

    def __init__(self) -> None:
        require_root()
        remove_stale()
        self._prefix = f"{PREFIX}{os.getpid()}"
        self._hosts: list[Host] = []
        self._links: list[subprocess.Popen[str]] = []
        self.switch = f"{self._prefix}-switch{id(self) % 9973}"
        self._namespaces: list[str] = []
        self._add_namespace(self.switch)
        self._ip("link add br0 type bridge", "link set br0 up")

    def __enter__(self) -> Network:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        for link in self._links:
            link.kill()
            link.wait()
        self._links.clear()
        for namespace in self._namespaces:
            _remove(namespace)
        self._namespaces.clear()

    def host(self, name: str, delayed: bool = False) -> Host:
        """A new host. ``delayed``: its cable runs through a program that can hold frames back."""
        number = len(self._hosts) + 1
        host = Host(
            name,
            f"{self.switch}-{name}",
            f"{self.SUBNET}.{number}",
            f"p{number}",
        )
        self._add_namespace(host.namespace)
        if delayed:
            self._links.append(self._delayed_cable(host))
        else:
            self._ip(f"link add {host.port} type veth peer name eth0 netns {host.namespace}")
        self._ip(f"link set {host.port} master br0 up")
        _run(
            ["ip", "-n", host.namespace, "-batch", "-"],
            f"link set lo up\nlink set eth0 up\naddress add {host.address}/24 dev eth0\n",
        )
        self._hosts.append(host)
        return host

    def crowd(self, count: int) -> list[Host]:
        """Many hosts in one namespace, at addresses of its loopback, where nothing goes wrong."""
        namespace = f"{self.switch}-crowd"
        self._add_namespace(namespace)
        _run(["ip", "-n", namespace, "link", "set", "lo", "up"])
        return [Host(f"n{i}", namespace, f"127.0.1.{i + 1}") for i in range(count)]

    def delay(self, milliseconds: float, bytes_per_second: float = 0) -> None:
        """Each direction of the delayed cables takes so long from now on, and passes so many bytes;
        0: all that come.
        """
        for link in self._links:
            assert link.stdin is not None
            assert link.stdout is not None
            link.stdin.write(f"{milliseconds} {bytes_per_second}\n")
            link.stdin.flush()
            if link.stdout.readline().strip() != "ok":
                raise NetworkUnavailable("a delayed cable has ended")

    def apply(self, rules: Iterable[str]) -> None:
        """Replaces what is wrong with the network by the given rules."""
        body = "\n".join(f"    {rule}" for rule in rules)
        self._filter(
            "add table bridge faults\ndelete table bridge faults\n"
            "table bridge faults {\n  chain forward {\n"
            "    type filter hook forward priority 0;\n"
            f"{body}\n  }}\n}}\n"
        )

    def heal(self) -> None:
        self._filter("add table bridge faults\ndelete table bridge faults\n")

    # ---- rules for apply()

    @staticmethod
    def cut(source: Host | None, target: Host | None) -> list[str]:
        """Nothing from ``source`` reaches ``target``; None: anybody."""
        return [f"{_between(source, target)} drop"]

    @staticmethod
    def isolate(host: Host) -> list[str]:
        return Network.cut(host, None) + Network.cut(None, host)

    @staticmethod
    def refuse_connections(target: Host, port: int) -> list[str]:
        """Nobody can connect to the port; connections that ``target`` opens itself work."""
        return [
            f'oifname "{target.port}" tcp dport {port} drop',
            f'iifname "{target.port}" tcp sport {port} drop',
        ]

    @staticmethod
    def loss(percent: int, host: Host | None = None) -> list[str]:
        """Frames are lost, each way, between all hosts or on the cable of one."""
        chance = f"numgen random mod 100 < {percent} drop"
        if host is None:
            return [chance]
        return [f"{_between(host, None)} {chance}", f"{_between(None, host)} {chance}"]

    # ---- helpers

    def _add_namespace(self, name: str) -> None:
        _run(["ip", "netns", "add", name])
        self._namespaces.append(name)

    def _ip(self, *commands: str) -> None:
        _run(["ip", "-n", self.switch, "-batch", "-"], "\n".join(commands) + "\n")

    def _filter(self, text: str) -> None:
        _run(["ip", "netns", "exec", self.switch, "nft", "-f", "-"], text)

    def _delayed_cable(self, host: Host) -> subprocess.Popen[str]:
        link = subprocess.Popen(
            [
                sys.executable,
                str(Path(__file__).with_name("delay_link.py")),
                str(NAMESPACES / self.switch),
                host.port,
                str(NAMESPACES / host.namespace),
                "eth0",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert link.stdout is not None
        if link.stdout.readline().strip() != "ok":
            raise NetworkUnavailable("the delayed cable did not start: is /dev/net/tun there?")
        return link


def _between(source: Host | None, target: Host | None) -> str:
    parts = []
    if source is not None:
        parts.append(f'iifname "{source.port}"')
    if target is not None:
        parts.append(f'oifname "{target.port}"')
    return " ".join(parts)

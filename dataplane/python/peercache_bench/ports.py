"""TCP ports for servers that start later."""

from __future__ import annotations

import random
import socket
from pathlib import Path

from peercache_bench.errors import BenchError

# Kubernetes has node ports from 30000.
FIRST, END = 15_000, 30_000
RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")

# An end of the process frees them.
_claims: list[socket.socket] = []


def _end() -> int:
    """Where the ports begin that the kernel gives to connections, or node ports do."""
    try:
        connections = int(RANGE.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return END
    # Where connections begin lower, the claim still keeps servers apart.
    return min(connections, END) if connections > FIRST + 1000 else END


def claim(port: int) -> socket.socket | None:
    """The claim of a port, which lasts until it is closed; nothing when somebody has the port.

    The tests in C++ and Go claim the same name, so no two processes of a network namespace have a
    port.
    """
    claimed = socket.socket(socket.AF_UNIX)
    try:
        claimed.bind(f"\0peercache-test-port-{port}")
        # Somebody who claims nothing may have it. Without SO_REUSEADDR, any socket on it is in the
        # way.
        with socket.socket() as probe:
            probe.bind(("", port))
    except OSError:
        claimed.close()
        return None
    return claimed


def free_port() -> int:
    """A port that nobody else gets while this process lives, and no connection is given.

    A port that was bound to 0 and closed may be anybody's before its server listens.
    """
    end = _end()
    start = random.SystemRandom().randrange(end - FIRST)  # tests seed the other one
    for n in range(end - FIRST):
        port = FIRST + (start + n) % (end - FIRST)
        if claimed := claim(port):
            _claims.append(claimed)
            return port
    raise BenchError(f"no TCP port from {FIRST} to {end} is free: end the processes that listen")

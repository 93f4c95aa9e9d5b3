"""A node inside this process, for engines on machines without a ``peercached``.

All stores of a process share one node: the first starts it, the last stops it.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from peercache.core.config import ConfigError
from peercache.core.extension import load

logger = logging.getLogger(__name__)

DEFAULT_METRICS_PORT = 31997
# The start of the node's id, because host names and process ids recur in containers.
NODE_VARIABLE = "PEERCACHE_NODE_ID"
# The first member is ready at once. A member whose discovery host starts later joins in background.
_READY_SECONDS = 3.0


@dataclass
class _Running:
    node: Any
    options: dict[str, str]
    folder: str
    users: int = field(default=1)


_lock = threading.Lock()
_running: _Running | None = None


def acquire(options: Mapping[str, str]) -> str:
    """The socket of this process's node; starts the node if there is none.

    Every ``acquire`` is paired with a ``release``. Raises ConfigError when the node does not start
    or runs with other options.
    """
    global _running
    with _lock:
        if _running is not None:
            _check_same(_running.options, options)
            _running.users += 1
            return str(_running.node.socket)
        _running = _start(dict(options))
        return str(_running.node.socket)


def release() -> None:
    """Ends one ``acquire``. After the last one the node leaves the cluster and stops."""
    global _running
    with _lock:
        if _running is None:
            return
        _running.users -= 1
        if _running.users > 0:
            return
        stopped, _running = _running, None
    _stop(stopped)


def status() -> str:
    """The node's status as JSON; "" if no node runs in this process."""
    with _lock:
        return str(_running.node.status()) if _running is not None else ""


def free_metrics_port() -> str:
    """31997, or "0" (any) if that is taken: several engines can share a machine."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0", DEFAULT_METRICS_PORT))
        except OSError:
            return "0"
    return str(DEFAULT_METRICS_PORT)


def _start(options: dict[str, str]) -> _Running:
    extension = load()
    if not extension.has_node:
        raise ConfigError(
            "discovery_addr needs a node inside this process, which this build of peercache does "
            "not contain. Build it with pip install ./dataplane, or run peercached on this machine "
            'and set "socket" to its Unix socket instead'
        )
    folder = tempfile.mkdtemp(prefix="peercache-")
    arguments = {
        "node-id": f"{os.environ.get(NODE_VARIABLE) or socket.gethostname()}.{os.getpid()}",
        "peer-port": "0",
        **options,
        "socket": os.path.join(folder, "node.sock"),
        "socket-mode": "0600",
    }
    if "http-port" not in arguments:
        arguments["http-port"] = free_metrics_port()
    _make_rank_folders(options)
    node, reason = extension.start_node(arguments)
    if node is None:
        shutil.rmtree(folder, ignore_errors=True)
        raise ConfigError(f"the embedded node did not start: {reason}")
    _wait_until_ready(node)
    logger.info(
        "PeerCache node %s runs in this process: peer port %d, metrics on port %d",
        arguments["node-id"],
        node.peer_port,
        node.http_port,
    )
    return _Running(node, options, folder)


def _make_rank_folders(options: Mapping[str, str]) -> None:
    """The folder above is the user's, on a mounted drive: the node says if it is missing."""
    for folder in filter(None, options.get("disk-path", "").split(",")):
        with contextlib.suppress(OSError):
            os.mkdir(folder, 0o700)


def _wait_until_ready(node: Any) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while not node.ready:
        if time.monotonic() > deadline:
            logger.warning(
                "the embedded node has not joined within %.0f s: is a node at discovery_addr? It "
                "keeps trying, and caches on its own until then",
                _READY_SECONDS,
            )
            return
        time.sleep(0.02)


def _stop(running: _Running) -> None:
    running.node.close()
    shutil.rmtree(running.folder, ignore_errors=True)


def _check_same(running: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    for name in sorted({*running, *wanted}):
        if running.get(name) != wanted.get(name):
            raise ConfigError(
                f"this process already runs a node with {name} = {running.get(name)!r}, not "
                f"{wanted.get(name)!r}: give all stores of a process the same options"
            )


@atexit.register
def _stop_at_exit() -> None:
    global _running
    with _lock:
        stopped, _running = _running, None
    if stopped is not None:
        _stop(stopped)

"""Clusters of real processes, stopped and checked for crashes at the end of a test module."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .processes import Engine, Node, Process, free_port

SHM = {"interface_v1": 1, "allocator": "shm"}


class Cluster:
    """Starts nodes and engines, and stops them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.discovery_port = free_port()
        self.discovery = f"127.0.0.1:{self.discovery_port}"
        self.processes: list[Process] = []

    def node(self, name: str, **flags: str) -> Node:
        first = not any(isinstance(process, Node) for process in self.processes)
        port = self.discovery_port if first else free_port()
        node = Node(name, self.folder, port, self.discovery, **flags)
        self.processes.append(node)
        return node

    def restart(self, node: Node) -> Node:
        again = Node(node.name, self.folder, node.peer_port, self.discovery)
        self.processes.append(again)
        return again

    def engine(self, name: str, node: Node, **options: Any) -> Engine:
        extra = {"socket": node.socket, **SHM, **options.pop("extra", {})}
        return self.bare_engine(name, extra, **options)

    def bare_engine(self, name: str, extra: dict[str, object], **options: Any) -> Engine:
        engine = Engine(name, self.folder, extra, **options)
        self.processes.append(engine)
        return engine

    def stop(self) -> None:
        """Engines first; a process that ends with an error when it is asked to end is a failure."""
        crashes = []
        for process in reversed(self.processes):
            asked = process.popen.poll() is None
            status = process.stop()
            if asked and status != 0:
                crashes.append(f"{process.name} ended with {status}:\n{process.output()[-4000:]}")
        assert not crashes, "\n".join(crashes)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        yield made
    finally:
        made.stop()

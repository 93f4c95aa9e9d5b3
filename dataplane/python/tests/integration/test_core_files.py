"""Who sees the memory of a node: its keys, and the pages of engines."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from .processes import binary

NOBODY = 65534


def unprivileged() -> dict[str, Any]:
    """For Popen: a user without privilege, whom the kernel asks what it asks others."""
    return {} if os.geteuid() else {"user": NOBODY, "group": NOBODY, "extra_groups": []}


@contextmanager
def node(folder: Path, *options: str) -> Iterator[int]:
    """The process id of a node that has started."""
    log = folder / "log"
    with log.open("w") as to:
        process = subprocess.Popen(
            [
                folder / "peercached",
                "--http=off",
                "--bind-addr=127.0.0.1",
                "--peer-port=0",
                "--pool-size=16Mi",
                "--transport=tcp",
                f"--socket={folder}/node.sock",
                *options,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            **unprivileged(),
        )
        assert process.stdout is not None
        try:
            for line in process.stdout:
                to.write(line)
                if "peers at" in line:
                    break
            assert process.poll() is None, log.read_text()
            yield process.pid
        finally:
            process.kill()
            process.communicate()


@pytest.fixture
def folder() -> Iterator[Path]:
    """With the program, for another user: pytest's own folders are for one alone."""
    path = Path(tempfile.mkdtemp(prefix="peercache-test-", dir="/var/tmp"))
    try:
        shutil.copy(binary(), path / "peercached")
        path.chmod(0o777)
        yield path
    finally:
        shutil.rmtree(path)


def reads_memory(of: int) -> bool:
    """Whether a process of the same user may read it: only then the kernel writes core files."""
    command = ["cat", f"/proc/{of}/environ"]
    read = subprocess.run(command, capture_output=True, check=False, **unprivileged())
    assert read.returncode == 0 or b"Permission denied" in read.stderr, read
    return bool(read.returncode == 0)


def test_a_node_leaves_no_core_file_and_its_memory_to_nobody(folder: Path) -> None:
    with node(folder) as process:
        assert not reads_memory(of=process)
    with node(folder, "--core-files=on") as process:
        assert reads_memory(of=process)

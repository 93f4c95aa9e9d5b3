"""Flags and commands of the original's peercache-bench that this one refuses, with reasons.

Ignoring such a flag would measure something else than the user asked for.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

_DISK = "`disk` measures the disk tier; nodes get one by --node-option disk-path=/mnt/nvme0"

FLAGS: Mapping[str, str] = {
    "--ib-port": "the port is part of the device's name: --devices mlx5_0:2",
    "--gid-index": "GIDs are chosen by address, because indexes change: --node-option "
    "rdma-gid=10.1.0.0/16",
    "--gpu": "`drive` alone reads pages into a GPU; others into host memory, where HiCache "
    "needs them, so leave it out",
    "--disk": _DISK,
    "--disk-path": _DISK,
    "--disk-size": _DISK,
    "--max-channels": "connections between nodes are opened as they are needed; leave it out",
}

COMMANDS: Mapping[str, str] = {
    "mooncake": "`others --mooncake PYTHON` measures Mooncake Store beside PeerCache; PYTHON is an "
    "interpreter that has it",
}


class _Refuse(argparse.Action):
    """An error about the flag, whatever follows it."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> NoReturn:
        parser.error(f"{option_string}: {FLAGS[str(option_string)]}")


def add_refused(parser: argparse.ArgumentParser, but: Sequence[str] = ()) -> None:
    """``but``: flags that this command has."""
    for flag in FLAGS.keys() - set(but):
        parser.add_argument(flag, dest="refused", nargs="?", action=_Refuse, help=argparse.SUPPRESS)

"""The host of a measurement: the facts that every published figure needs beside it."""

from __future__ import annotations

import os
import platform
import socket
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from peercache_bench.idle import halt_poll_ns


def host() -> dict[str, Any]:
    memory = _fields(Path("/proc/meminfo"))
    return {
        "name": socket.gethostname(),
        "cpu": cpu_model(_text(Path("/proc/cpuinfo"))) or platform.processor(),
        "cores": os.cpu_count(),
        "usable_cores": len(os.sched_getaffinity(0)),
        "numa_nodes": len(list(Path("/sys/devices/system/node").glob("node[0-9]*"))) or 1,
        "memory": memory.get("MemTotal", "unknown"),
        "huge_pages_free": memory.get("HugePages_Free", "unknown"),
        "halt_poll_ns": halt_poll_ns(),
        "load_before": round(os.getloadavg()[0], 2),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


def cpu_model(cpuinfo: str) -> str:
    for line in cpuinfo.splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return ""


def available_bytes() -> int | None:
    """Memory that programs may still have; None where it is not known."""
    text = _fields(Path("/proc/meminfo")).get("MemAvailable", "")
    return int(text.split()[0]) * 1024 if text else None


def _fields(path: Path) -> dict[str, str]:
    pairs = (line.partition(":") for line in _text(path).splitlines())
    return {name: value.strip() for name, _, value in pairs}


def _text(path: Path) -> str:
    return path.read_text() if path.is_file() else ""

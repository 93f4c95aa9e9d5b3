"""peercache-perf: the native measurements, one JSON object each."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from peercache.bench.nodes import BenchError

Result = dict[str, Any]

LIMIT_SECONDS = 120


class Perf:
    """Runs the peercache-perf of one build."""

    def __init__(self, build: Path) -> None:
        self._binary = build / "bench" / "peercache-perf"
        if not self._binary.is_file():
            raise BenchError(f"{self._binary} does not exist: build it with `make build`")

    def __call__(self, what: str, **options: object) -> Result:
        """``perf("get", page_bytes=4096, cpu_of=[1, 2])``; a list repeats its option."""
        command = [str(self._binary), what]
        for name, value in options.items():
            flag = "--" + name.replace("_", "-")
            if value is True:
                command.append(flag)
                continue
            for each in value if isinstance(value, list) else [value]:
                command += [flag, str(each)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_SECONDS)
        if done.returncode != 0:
            raise BenchError(f"{' '.join(command)} failed: {done.stderr.strip()}")
        result: Result = json.loads(done.stdout)
        return result

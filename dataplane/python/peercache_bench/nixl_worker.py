"""An agent of NIXL that writes or reads objects, and checks every byte. Run by nixl.py.

A script of its own, which imports nothing of peercache_bench: NIXL has its own interpreter.
Commands come as lines of JSON on standard input, and each is answered by a line on standard output:

    {"do": "WRITE" | "READ", "size": bytes of an object, "objects": [names],
     "together": objects of a request, "ranges": of each object in a request}

A request is prepared, posted and released anew each time, as nixlbench does with --recreate_xfer.
Seconds are of that alone. READs poison their memory before and compare it after.
"""

from __future__ import annotations

import json
import mmap
import os
import sys
import time
import zlib
from typing import Any

import numpy as np
from nixl_cu12._api import nixl_agent, nixl_agent_config

NAME = "bench"
BACKEND = "PEERCACHE"


class Worker:
    """One agent, and the memory of its requests."""

    def __init__(self, socket: str, memory: int) -> None:
        self._agent = nixl_agent(NAME, nixl_agent_config(backends=[]))
        self._agent.create_backend(BACKEND, {"socket": socket})
        fd = os.memfd_create("nixl")
        os.ftruncate(fd, memory)
        self._memory = np.frombuffer(mmap.mmap(fd, memory), np.uint8)
        place = (self._memory.ctypes.data, memory, 0, "")
        self._agent.register_memory([place], "DRAM", backends=[BACKEND])
        self._pattern = np.random.default_rng(1).integers(0, 256, memory + 4096, np.uint8)

    def __call__(self, order: dict[str, Any]) -> dict[str, float]:
        size, together, ranges = order["size"], order["together"], order["ranges"]
        names: list[str] = order["objects"]
        places = [(0, size, number, name) for number, name in enumerate(names)]
        registered = self._agent.register_memory(places, "OBJ", backends=[BACKEND])
        total = {"seconds": 0.0, "failed": 0, "wrong": 0}
        for first in range(0, len(names), together):
            some = range(first, min(first + together, len(names)))
            wanted = [number for number in some for _ in range(ranges)]
            reads = order["do"] == "READ"
            parts = [self._memory[at * size :][:size] for at in range(len(wanted))]
            contents = [self._content(names[number], size) for number in wanted]
            for place, content in zip(parts, contents, strict=True):
                place[:] = 0 if reads else content
            seconds, done = self._move(order["do"], wanted, size)
            total["seconds"] += seconds
            total["failed"] += not done
            if reads and done:
                total["wrong"] += sum(
                    not np.array_equal(place, content)
                    for place, content in zip(parts, contents, strict=True)
                )
        self._agent.deregister_memory(registered, backends=[BACKEND])
        return total

    def _content(self, name: str, size: int) -> Any:
        start = zlib.crc32(name.encode()) % 4096
        return self._pattern[start : start + size]

    def _move(self, operation: str, objects: list[int], size: int) -> tuple[float, bool]:
        base = self._memory.ctypes.data
        start = time.perf_counter()
        handle = self._agent.initialize_xfer(
            operation,
            self._agent.get_xfer_descs(
                [(base + at * size, size, 0) for at in range(len(objects))], "DRAM"
            ),
            self._agent.get_xfer_descs([(0, size, number) for number in objects], "OBJ"),
            NAME,
            backends=[BACKEND],
        )
        try:
            state = self._agent.transfer(handle)
            while state == "PROC":
                state = self._agent.check_xfer_state(handle)
        except Exception:  # NIXL has a class for each status
            state = "ERR"
        self._agent.release_xfer_handle(handle)
        return time.perf_counter() - start, state == "DONE"


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # NIXL logs there
    worker = Worker(sys.argv[1], int(sys.argv[2]))
    print("{}", file=answers)
    for line in sys.stdin:
        print(json.dumps(worker(json.loads(line))), file=answers)


if __name__ == "__main__":
    main()

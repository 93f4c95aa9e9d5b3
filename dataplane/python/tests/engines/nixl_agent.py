"""An agent of NIXL that is told what to do by lines of JSON, in NIXL's own interpreter.

    {"do": "write" | "read", "ranges": [[object, offset, length], ...]}
    {"do": "query", "objects": [...]}
    {"do": "register", "objects": {name: length}}

Each range of a request has memory of its own, one after the other. A write fills it with the bytes
of the object. A read fills it with 0xee first, as `--check_consistency` of nixlbench does, and
reports how many ranges have other bytes than the object.
"""

from __future__ import annotations

import json
import mmap
import os
import sys
import time
from typing import Any

import numpy as np
from nixl_cu12._api import nixl_agent, nixl_agent_config

NAME = "agent"
BYTES = 64 << 20
PATIENCE = 60.0


def content(name: str, length: int) -> Any:
    """The bytes of an object."""
    seed = int.from_bytes(name.encode(), "little") % (1 << 63)
    return np.random.default_rng(seed).integers(0, 256, length, np.uint8)


class Agent:
    def __init__(self, socket: str, shared: bool) -> None:
        self.agent = nixl_agent(NAME, nixl_agent_config(backends=[]))
        self.agent.create_backend("PEERCACHE", {"socket": socket})
        fd = os.memfd_create("nixl") if shared else -1
        if shared:
            os.ftruncate(fd, BYTES)
        self.memory = np.frombuffer(mmap.mmap(fd, BYTES), np.uint8)
        place = (self.memory.ctypes.data, self.memory.nbytes, 0, "")
        self.agent.register_memory([place], "DRAM", backends=["PEERCACHE"])
        self.names: list[str] = []
        self.lengths: dict[str, int] = {}

    def register(self, objects: dict[str, int]) -> None:
        places = []
        for name, length in objects.items():
            places.append((0, length, len(self.names), name))
            self.names.append(name)
            self.lengths[name] = length
        self.agent.register_memory(places, "OBJ", backends=["PEERCACHE"])

    def move(self, operation: str, ranges: list[tuple[str, int, int]]) -> dict[str, Any]:
        local, remote, at = [], [], 0
        for name, offset, length in ranges:
            place = self.memory[at : at + length]
            if operation == "WRITE":
                place[:] = content(name, self.lengths[name])[offset : offset + length]
            else:
                place[:] = 0xEE
            local.append((place.ctypes.data, length, 0))
            remote.append((offset, length, self.names.index(name)))
            at += length
        try:
            handle = self.agent.initialize_xfer(
                operation,
                self.agent.get_xfer_descs(local, "DRAM"),
                self.agent.get_xfer_descs(remote, "OBJ"),
                NAME,
                backends=["PEERCACHE"],
            )
        except Exception as error:  # NIXL has a class for each status
            return {"state": type(error).__name__, "wrong": 0}
        try:
            state = self.agent.transfer(handle)
            deadline = time.monotonic() + PATIENCE
            while state == "PROC" and time.monotonic() < deadline:
                state = self.agent.check_xfer_state(handle)
        except Exception as error:
            state = type(error).__name__
        self.agent.release_xfer_handle(handle)
        return {"state": state, "wrong": self._wrong(ranges) if state == "DONE" else 0}

    def _wrong(self, ranges: list[tuple[str, int, int]]) -> int:
        """Ranges of the memory that do not have the bytes of their objects."""
        wrong = at = 0
        for name, offset, length in ranges:
            wanted = content(name, self.lengths[name])[offset : offset + length]
            wrong += not np.array_equal(self.memory[at : at + length], wanted)
            at += length
        return wrong

    def query(self, objects: list[str]) -> list[bool]:
        places = [(0, 0, 0, name) for name in objects]
        found = self.agent.query_memory(places, "PEERCACHE", "OBJ")
        return [one is not None for one in found]


def main() -> None:
    agent = Agent(sys.argv[1], sys.argv[2] == "shared")
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        if order["do"] == "register":
            agent.register(order["objects"])
            answer: Any = {}
        elif order["do"] == "query":
            answer = {"found": agent.query(order["objects"])}
        else:
            answer = agent.move(order["do"].upper(), order["ranges"])
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()

"""What a GPU makes of an engine's host pool, which is memory that its node maps too.

    python3 dataplane/bench/gpu/host_pool.py

Prints the rates of copies from and to the GPU, beside those of memory that torch has pinned. Then
the node's mapping is written and the GPU reads through the engine's, and the reverse; bytes that
are not what was written are an error. Needs a GPU, torch with CUDA, and 6 GiB of memory.
"""

from __future__ import annotations

import mmap
import os
import sys
import time
from collections.abc import Callable

import torch

POOL = 4 << 30
COPY = 1 << 30
CHECKED = 256 << 20
TURNS = 20


def rate(copy: Callable[[], object], repeat: int = 5) -> float:
    """GB/s of a copy of COPY bytes."""
    copy()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(repeat):
        copy()
    torch.cuda.synchronize()
    return repeat * COPY / (time.perf_counter() - start) / 1e9


def pool() -> tuple[torch.Tensor, torch.Tensor]:
    """The engine's mapping, which is registered with the GPU, and the node's."""
    file = os.memfd_create("host-pool")
    os.ftruncate(file, POOL)
    engine, node = (torch.frombuffer(mmap.mmap(file, POOL), dtype=torch.uint8) for _ in range(2))
    engine.fill_(1)
    start = time.perf_counter()
    failed = int(torch.cuda.cudart().cudaHostRegister(engine.data_ptr(), POOL, 0))
    if failed:
        sys.exit(f"error: cudaHostRegister of {POOL >> 30} GiB: CUDA error {failed}")
    print(f"cudaHostRegister of {POOL >> 30} GiB: {time.perf_counter() - start:.2f} s")
    return engine, node


def wrong_bytes(engine: torch.Tensor, node: torch.Tensor, gpu: torch.Tensor) -> int:
    """Of what one side has written and the other has read."""
    wrong = 0
    for turn in range(TURNS):
        node[:CHECKED].fill_(turn + 3)
        gpu.copy_(engine[:CHECKED], non_blocking=True)
        torch.cuda.synchronize()
        wrong += int((gpu != turn + 3).sum())
        gpu.fill_(turn + 100)
        engine[:CHECKED].copy_(gpu, non_blocking=True)
        torch.cuda.synchronize()
        wrong += int((node[:CHECKED] != turn + 100).sum())
    return wrong


def main() -> int:
    if not torch.cuda.is_available():
        sys.exit("error: torch finds no GPU: run this on a GPU machine, with a torch for CUDA")
    engine, node = pool()
    gpu = torch.empty(COPY, dtype=torch.uint8, device="cuda")
    pinned = torch.empty(COPY, dtype=torch.uint8, pin_memory=True)
    for name, host in (("pinned by torch", pinned), ("host pool", engine[:COPY])):
        to_gpu = rate(lambda host=host: gpu.copy_(host, non_blocking=True))  # type: ignore[misc]
        from_gpu = rate(lambda host=host: host.copy_(gpu, non_blocking=True))  # type: ignore[misc]
        print(f"{name}: to the GPU {to_gpu:.1f} GB/s, from it {from_gpu:.1f} GB/s")
    wrong = wrong_bytes(engine, node, gpu[:CHECKED])
    print(f"wrong bytes: {wrong}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

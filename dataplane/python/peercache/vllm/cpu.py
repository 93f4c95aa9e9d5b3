"""CpuTieringSpec: vLLM's tiers where the KV cache is in the memory of a CPU.

vLLM's own worker copies blocks between a GPU and the host pool, and does not start without a GPU.
This one copies them between two places of host memory; all else is vLLM's. It copies in the
worker's thread, so a transfer is done when it has been submitted. A chunk is one block.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import torch
from vllm.v1.kv_offload.base import OffloadingWorker, TransferResult
from vllm.v1.kv_offload.cpu.shared_offload_region import SharedOffloadRegion
from vllm.v1.kv_offload.tiering.spec import TieringOffloadingSpec


class CpuWorker(OffloadingWorker):
    def __init__(self, kv_caches: Any, region: Any) -> None:
        tensors = [kv.tensor.view(torch.int8) for kv in kv_caches.tensors]
        self._blocks = [tensor.reshape(tensor.shape[0], -1) for tensor in tensors]
        self._rows = [region.create_next_worker_view(t.shape[1]) for t in self._blocks]
        self._block_bytes = sum(t.shape[1] for t in self._blocks)
        self._region = region
        self._done: list[TransferResult] = []

    def submit_store(self, job_id: int, source: Any, to: Any) -> bool:
        began = time.perf_counter()
        for block, row in zip(source.block_ids, rows_of(to), strict=True):
            for blocks, rows in zip(self._blocks, self._rows, strict=True):
                rows[int(row)].copy_(blocks[int(block)])
        return self._finish(job_id, len(source.block_ids), began)

    def submit_load(self, job_id: int, source: Any, to: Any) -> bool:
        began = time.perf_counter()
        for row, block in zip(rows_of(source), to.block_ids, strict=True):
            for blocks, rows in zip(self._blocks, self._rows, strict=True):
                blocks[int(block)].copy_(rows[int(row)])
        return self._finish(job_id, len(to.block_ids), began)

    def _finish(self, job_id: int, blocks: int, began: float) -> bool:
        size, seconds = blocks * self._block_bytes, time.perf_counter() - began
        self._done.append(TransferResult(job_id, True, size, seconds))
        return True

    def get_finished(self) -> list[TransferResult]:
        done, self._done = self._done, []
        return done

    def wait(self, job_ids: Any) -> None:
        pass

    def shutdown(self) -> None:
        self._rows.clear()
        self._region.cleanup()


def rows_of(spec: Any) -> Iterable[int]:
    found: Iterable[int] = spec.chunk_ids if hasattr(spec, "chunk_ids") else spec.block_ids
    return found


class CpuTieringSpec(TieringOffloadingSpec):
    _worker: Any  # vLLM's spec shuts it down

    def get_worker(self, kv_caches: Any) -> Any:
        if not self._worker:
            region = SharedOffloadRegion(
                engine_id=self._engine_id,
                num_chunks=self.num_chunks,
                rank=self.config.parallel.rank,
                kv_bytes_per_chunk=self.kv_bytes_per_chunk,
                cpu_page_size=self.cpu_page_size_per_worker,
            )
            self._worker = CpuWorker(kv_caches, region)
        return self._worker

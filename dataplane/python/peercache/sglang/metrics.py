"""TransferMetrics: the transfers that SGLang's own metrics show of a storage backend."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

# SGLang collects every few seconds; the limit bounds the memory when it does not.
_MAX_SAMPLES = 4096
_GIGABYTE = 1e9


class TransferMetrics:
    """Pages and GB/s of each backup and prefetch since the last collection. Thread-safe."""

    def __init__(self, enabled: bool) -> None:
        self.enabled = enabled
        self._lock = threading.Lock()
        self._samples: deque[tuple[str, int, float]] = deque(maxlen=_MAX_SAMPLES)

    def add(self, operation: str, pages: int, size: int, seconds: float) -> None:
        with self._lock:
            self._samples.append((operation, pages, size / _GIGABYTE / max(seconds, 1e-9)))

    def take(self) -> Any:
        """SGLang's StorageMetrics; None if SGLang does not collect them."""
        if not self.enabled:
            return None
        from sglang.srt.observability.metrics_collector import StorageMetrics

        with self._lock:
            samples = list(self._samples)
            self._samples.clear()
        metrics = StorageMetrics()
        for operation, pages, bandwidth in samples:
            backup = operation == "set"
            (metrics.backup_pgs if backup else metrics.prefetch_pgs).append(pages)
            (metrics.backup_bandwidth if backup else metrics.prefetch_bandwidth).append(bandwidth)
        return metrics

"""The device: a CPU with plain torch, without Triton, graphs and kernels of HiCache."""

from __future__ import annotations

import os

import torch
from sglang.srt.platforms.device_mixin import PlatformEnum
from sglang.srt.platforms.interface import SRTPlatform


class CpuPlatform(SRTPlatform):
    # Not CPU: with that SGLang imports sgl_kernel.
    _enum = PlatformEnum.OOT
    device_name = "cpu"
    device_type = "cpu"

    def get_default_attention_backend(self) -> str:
        return "torch_native"

    def get_device_total_memory(self, device_id: int = 0) -> int:
        return memory("SC_PHYS_PAGES")

    def get_current_memory_usage(self, device: torch.device | None = None) -> float:
        return float(memory("SC_PHYS_PAGES") - memory("SC_AVPHYS_PAGES"))

    def get_available_memory(self, device_id: int = 0) -> tuple[int, int]:
        return memory("SC_AVPHYS_PAGES"), memory("SC_PHYS_PAGES")

    def get_device(self, device_id: int = 0) -> torch.device:
        return torch.device("cpu")

    def set_device(self, device: torch.device) -> None:
        pass

    def get_compile_backend(self, mode: str | None = None) -> str:
        return "eager"


def memory(pages: str) -> int:
    """Bytes."""
    return os.sysconf(pages) * os.sysconf("SC_PAGE_SIZE")

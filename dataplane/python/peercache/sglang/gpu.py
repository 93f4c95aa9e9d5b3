"""The GPU of this rank."""

from __future__ import annotations

from typing import Any

import torch


def pci_address() -> str:
    """The PCI address of the current GPU, as sysfs writes it; "" where torch does not say.

    SGLang has made the GPU of the rank the current one, whatever CUDA_VISIBLE_DEVICES numbers.
    """
    if not torch.cuda.is_available():
        return ""
    return address_of(torch.cuda.get_device_properties(torch.cuda.current_device()))


def address_of(properties: Any) -> str:
    """Older torch has no such properties."""
    domain, bus, device = (
        getattr(properties, f"pci_{part}_id", -1) for part in ("domain", "bus", "device")
    )
    return f"{domain:04x}:{bus:02x}:{device:02x}.0" if min(domain, bus, device) >= 0 else ""

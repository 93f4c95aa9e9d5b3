"""Segments: the addresses that a call to the node names."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Segments:
    """Addresses and lengths of pages, page after page, equally many for each page."""

    ptrs: list[int]
    sizes: list[int]

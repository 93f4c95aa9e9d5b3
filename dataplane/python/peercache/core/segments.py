"""Memory of the engine, as calls to the node name it: shared regions, and segments of pages."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Region:
    """Shared memory that another process can map: the descriptor and where it is mapped here."""

    fd: int
    base: int
    length: int
    offset: int = 0  # of the first byte in the file


@dataclass(frozen=True)
class Segments:
    """Addresses and lengths of pages, page after page, equally many for each page."""

    ptrs: list[int]
    sizes: list[int]

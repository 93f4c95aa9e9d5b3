"""PageMap: where the pages of a host pool lie, learnt once.

SGLang computes addresses page by page in Python: a tenth of the time of a call of 32 pages. All its
layouts put segment s of a page that starts at row r at ``base[s] + r * stride[s]``. The map is
learnt when a pool is registered, and compared with SGLang's answers for (nearly) all pages. A pool
with another layout has no map, and SGLang computes the addresses in every call.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from peercache.core.extension import load
from peercache.core.segments import Segments

if TYPE_CHECKING:
    from peercache._peercache import PageMap as NativeMap

logger = logging.getLogger(__name__)

# At most this many pages are compared, spread evenly: all pages of 128 KiB in a pool of 8 GiB, in
# 0.2 s.
MOST_COMPARED = 64 << 10
_AT_ONCE = 4096
_INT64 = torch.int64


@dataclass(frozen=True)
class PageMap:
    """The argument ``map`` of Client.set_rows and get_rows, and the bytes of a page."""

    native: NativeMap
    page_bytes: int

    def segments(self, indices: Any) -> Segments | None:
        """The addresses of the pages; None for rows that are not pages of this pool: ask SGLang."""
        rows = row_numbers(indices)
        found = rows and self.native.segments(*rows)
        return Segments(*found) if found else None


def row_numbers(indices: Any) -> tuple[int, int] | None:
    """Address and length of an array of row numbers; None unless they are int64, as SGLang's."""
    if indices is None or indices.dtype is not _INT64 or not indices.is_cpu:
        return None
    if not indices.is_contiguous():
        return None
    return indices.data_ptr(), indices.numel()


def learn(pool: Any) -> PageMap | None:
    """The map of a pool; None if its pages do not lie as described above."""
    try:
        found = _learn(pool)
    except Exception as error:  # pools refuse with various exceptions, and SGLang can be asked
        logger.debug("no map of the pages of %s: %s", type(pool).__name__, error)
        return None
    return found


def _learn(pool: Any) -> PageMap | None:
    page_rows = int(getattr(pool, "page_size", 0))
    rows = int(getattr(pool, "size", 0))
    if page_rows < 1 or rows < 2 * page_rows or int(getattr(pool, "dcp_size", 1)) != 1:
        return None
    first, sizes = _ask_sglang(pool, [0], page_rows)
    second, _ = _ask_sglang(pool, [page_rows], page_rows)
    differences = [b - a for a, b in zip(first, second, strict=True)]
    if any(difference % page_rows for difference in differences):
        return None
    pages = rows // page_rows
    strides = [difference // page_rows for difference in differences]
    places = list(zip(first, strides, sizes, strict=True))
    native, reason = load().page_map(page_rows, pages * page_rows, places)
    if native is None:
        raise ValueError(reason)
    found = PageMap(native, sum(sizes))
    step = max(1, -(-pages // MOST_COMPARED))
    compared = [*range(0, pages, step), pages - 1]
    for at in range(0, len(compared), _AT_ONCE):
        starts = [page * page_rows for page in compared[at : at + _AT_ONCE]]
        answer = Segments(*_ask_sglang(pool, starts, page_rows))
        if found.segments(_rows(starts, page_rows)) != answer:
            return None
    return found


def _ask_sglang(pool: Any, starts: list[int], page_rows: int) -> tuple[list[int], list[int]]:
    ptrs, sizes = pool.get_page_buffer_meta(_rows(starts, page_rows))[:2]
    return [int(ptr) for ptr in ptrs], [int(size) for size in sizes]


def _rows(starts: list[int], page_rows: int) -> Any:
    begin = torch.tensor(starts, dtype=torch.int64)
    return (begin[:, None] + torch.arange(page_rows, dtype=torch.int64)).reshape(-1)

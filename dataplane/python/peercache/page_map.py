"""PageMap: where the pages of a host pool lie, learnt once.

SGLang answers addresses page by page in Python: a tenth of the time of a call of 32 pages. All its
layouts put segment s of a page that starts at row r at ``base[s] + r * stride[s]``. That is learnt
when a pool is registered and compared with what SGLang answers for (nearly) all pages; a pool that
does otherwise has no map, and SGLang is asked every time.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from peercache.segments import Segments

logger = logging.getLogger(__name__)

# Pages that are compared: all of a pool of 8 GiB with pages of 128 KiB, in 0.2 s; of a
# larger pool so many, spread evenly.
MOST_COMPARED = 64 << 10
_AT_ONCE = 4096


@dataclass(frozen=True)
class PageMap:
    """Rows are SGLang's indices into the pool; a page starts at every ``page_rows``-th."""

    page_rows: int
    rows: int  # of the pool
    bases: tuple[int, ...]
    strides: tuple[int, ...]
    sizes: tuple[int, ...]

    def segments(self, indices: Any) -> Segments | None:
        """The pages whose rows are ``indices``; None when one of them is none of this pool's."""
        starts = indices[:: self.page_rows].tolist()
        if not starts:
            return Segments([], [])
        if min(starts) < 0 or max(starts) > self.rows - self.page_rows:
            return None
        if any(start % self.page_rows for start in starts):
            return None
        if len(self.bases) == 1:
            base, stride = self.bases[0], self.strides[0]
            ptrs = [base + start * stride for start in starts]
        else:
            places = tuple(zip(self.bases, self.strides, strict=True))
            ptrs = [base + start * stride for start in starts for base, stride in places]
        return Segments(ptrs, list(self.sizes) * len(starts))


def learn(pool: Any) -> PageMap | None:
    """The map of a pool; None when its pages do not lie as described above."""
    try:
        found = _learn(pool)
    except Exception as error:  # pools say no with various exceptions, and SGLang can be asked
        logger.debug("no map of the pages of %s: %s", type(pool).__name__, error)
        return None
    return found


def _learn(pool: Any) -> PageMap | None:
    page_rows = int(getattr(pool, "page_size", 0))
    rows = int(getattr(pool, "size", 0))
    if page_rows < 1 or rows < 2 * page_rows or int(getattr(pool, "dcp_size", 1)) != 1:
        return None
    first, sizes = _asked(pool, [0], page_rows)
    second, _ = _asked(pool, [page_rows], page_rows)
    differences = [b - a for a, b in zip(first, second, strict=True)]
    if any(difference % page_rows for difference in differences):
        return None
    strides = tuple(difference // page_rows for difference in differences)
    found = PageMap(page_rows, rows // page_rows * page_rows, tuple(first), strides, tuple(sizes))
    pages = rows // page_rows
    step = max(1, -(-pages // MOST_COMPARED))
    compared = [*range(0, pages, step), pages - 1]
    for at in range(0, len(compared), _AT_ONCE):
        starts = [page * page_rows for page in compared[at : at + _AT_ONCE]]
        if found.segments(_rows(starts, page_rows)) != Segments(*_asked(pool, starts, page_rows)):
            return None
    return found


def _asked(pool: Any, starts: list[int], page_rows: int) -> tuple[list[int], list[int]]:
    ptrs, sizes = pool.get_page_buffer_meta(_rows(starts, page_rows))[:2]
    return [int(ptr) for ptr in ptrs], [int(size) for size in sizes]


def _rows(starts: list[int], page_rows: int) -> Any:
    import torch

    begin = torch.tensor(starts, dtype=torch.int64)
    return (begin[:, None] + torch.arange(page_rows, dtype=torch.int64)).reshape(-1)

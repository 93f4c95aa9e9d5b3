"""Files too large to be sources: what somebody built and committed."""

from __future__ import annotations

from collections.abc import Callable, Iterable

MOST_BYTES = 512 << 10  # the largest, a picture, has 300 KiB


def large(files: Iterable[str], size: Callable[[str], int]) -> list[str]:
    """One sentence for each file of more than MOST_BYTES."""
    sizes = ((name, size(name)) for name in files)
    return [
        f"{name}: {count} bytes; a source has {MOST_BYTES} at most: remove it"
        for name, count in sizes
        if count > MOST_BYTES
    ]

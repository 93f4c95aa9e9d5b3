"""Says that a page read from the cache has other bytes than were set: the one place in tests.

hack/dev/lanes fails a run that prints the token.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

TOKEN = "PEERCACHE-WRONG-BYTES"


def report(what: str) -> str:
    return f"{TOKEN}: {what}"


def check_page(page: object, got: bytes | str, want: bytes | str) -> None:
    """Two pages, or their digests."""
    if got != want:
        raise AssertionError(report(f"page {page}: {_difference(got, want)}"))


def check_pages(
    got: Sequence[bytes] | Sequence[str], want: Sequence[bytes] | Sequence[str]
) -> None:
    """All pages, in order. One that is missing at the end did not come: a miss."""
    for page, pair in enumerate(zip(got, want, strict=False)):
        check_page(page, *pair)
    assert len(got) == len(want), f"{len(got)} of {len(want)} pages came"


def check_none(count: int, details: object) -> None:
    """``count`` wrong pages were found by another process, which gives the details."""
    if count:
        raise AssertionError(report(f"{count} pages: {details}"))


def _difference(got: bytes | str, want: bytes | str) -> str:
    if isinstance(got, str) or isinstance(want, str):
        return f"the digest of its bytes is {got!r}, expected {want!r}"
    differing = [at for at, (a, b) in enumerate(zip_longest(got, want)) if a != b]
    first = differing[0]
    return (
        f"{len(differing)} of {len(want)} bytes differ, from offset {first} on: "
        f"got {got[first : first + 8].hex()}, expected {want[first : first + 8].hex()}"
    )

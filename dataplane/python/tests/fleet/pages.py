"""Pages whose every byte follows from their number, so that any reader can check any page.

Used by the engine processes, which import nothing but numpy and the extension.
"""

from __future__ import annotations

import hashlib
import os

import numpy as np
from numpy.typing import NDArray

from .. import wrong_bytes

# Engines of a fleet that wants others are told so.
PAGE_BYTES_VARIABLE = "FLEET_PAGE_BYTES"
PAGE_BYTES = int(os.environ.get(PAGE_BYTES_VARIABLE, 32 << 10))
WORDS = PAGE_BYTES // 8
# Unequal parts show mix-ups.
SEGMENTS = (PAGE_BYTES // 4, PAGE_BYTES - PAGE_BYTES // 4)
# Pages of holder h have the numbers h * HOLDER_STRIDE ...
HOLDER_STRIDE = 1_000_000
POISON = np.uint64(0xEEEEEEEEEEEEEEEE)

Words = NDArray[np.uint64]

# The same random words in every process; words of one page differ from each other, so that bytes
# at the wrong offset do not pass either.
_BASE: Words = np.random.default_rng(20).integers(0, 2**63, WORDS, dtype=np.uint64)


def key(number: int) -> str:
    return hashlib.sha256(b"page %d" % number).hexdigest()


def content(number: int) -> Words:
    own = int.from_bytes(hashlib.sha256(b"bytes %d" % number).digest()[:8], "little")
    return _BASE ^ np.uint64(own)


def matches(words: Words, number: int) -> bool:
    return bool(np.array_equal(words, content(number)))


def describe(words: Words, number: int, candidates: range) -> str:
    """What is in the page instead of what should be."""
    differing = np.flatnonzero(words != content(number))
    first = int(differing[0])
    for other in candidates:
        if words[first] == content(other)[first]:
            kind = f"of page {other}"
            break
    else:
        kind = "never written" if words[first] == POISON else hex(int(words[first]))
    return wrong_bytes.report(
        f"page {number} has {len(differing)} wrong words from word {first}: {kind}"
    )

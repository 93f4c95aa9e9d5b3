"""Namespace: what makes the bytes of two pages interchangeable, as a digest.

SGLang names a page by the hash of its tokens alone. Model, dtype, layout and rank are not in that
name, so an engine with another configuration would read wrong bytes under the right key. Everything
that decides the bytes goes through ``prefix``, and the extension XORs it onto every page hash.

Pure: no SGLang, no torch, no extension.
"""

from __future__ import annotations

import hashlib
import string
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from peercache.core.digest import digest

_HEX_DIGITS = frozenset(string.hexdigits)
_KEY_DIGITS = 64


@dataclass(frozen=True)
class Rank:
    """Which shard of a page this process holds; each pair is (rank, size)."""

    tp: tuple[int, int] | None  # None: the bytes are the same on all TP ranks (MLA)
    pp: tuple[int, int]
    cp: tuple[int, int]
    dcp: tuple[int, int]


@dataclass(frozen=True)
class Namespace:
    """All that two engines must agree on to share pages."""

    model: str  # the served name; "" if it only repeats the path of identified weights
    tag: str  # from the extra-config
    pool: str  # SGLang's name of the host pool: kv, mamba, ...
    encoding: str  # "segments" (zero copy) or "flat" (SGLang's generic pages): byte orders differ
    rank: Rank
    shape: Mapping[str, object]  # dtype, layout, page size, heads, ... of the host pool
    weights: str = ""  # weights_name(); "" until it is known

    def prefix(self) -> bytes:
        """The 32 bytes that are XORed onto the page hashes of this namespace."""
        fields = asdict(self)
        if not self.weights:
            del fields["weights"]
        return digest("pages", fields)


def weights_name(
    *, target: str, draft: str, adapters: Mapping[str, str], from_memory: bool, version: str
) -> str:
    """The name of weights, from the identities of their files and SGLang's weight version."""
    fields = {
        "target": target,
        "draft": draft,
        "adapters": dict(adapters),
        "from_memory": from_memory,
        "version": version,
    }
    return digest("weights", fields).hex()


def is_page_hash(key: str) -> bool:
    """Whether the extension can take the key as it is: 64 hex digits."""
    return len(key) == _KEY_DIGITS and _HEX_DIGITS.issuperset(key)


def all_page_hashes(keys: Sequence[str]) -> bool:
    """Whether all keys are page hashes; much faster than one by one."""
    if any(len(key) != _KEY_DIGITS for key in keys):
        return False
    try:
        # The length is compared because fromhex() skips white space.
        return len(bytes.fromhex("".join(keys))) * 2 == len(keys) * _KEY_DIGITS
    except ValueError:
        return False


def page_hash(key: str) -> str:
    """The key as 64 hex digits: SGLang's own hashes as they are, anything else digested.

    Because of the marker, a plain SHA-256 of the same text is another key.
    """
    if is_page_hash(key):
        return key.lower()
    return hashlib.sha256(b"peercache key\0" + key.encode("utf-8", "surrogatepass")).hexdigest()

"""Digests of what makes the bytes of two pages interchangeable.

Pure: no engine, no extension.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

# Part of every digest. Raise it when the meaning of a field changes; old pages then are misses.
SCHEMA = 1
_KEY_BYTES = 32


def digest(purpose: str, fields: Mapping[str, object]) -> bytes:
    """32 bytes that are equal for equal fields, whatever their order."""
    text = json.dumps([purpose, SCHEMA, fields], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).digest()


def clear_tag(model: str, tag: str) -> int:
    """Identifies the pages that one ``clear`` drops: all pages of a model under the user's tag."""
    return int.from_bytes(digest("clear", {"model": model, "tag": tag})[:8], "little")


def block_hash(given: bytes) -> bytes:
    """An engine's hash of a block as the 32 bytes of a key; those of xxhash have 16."""
    return given if len(given) == _KEY_BYTES else hashlib.sha256(given).digest()

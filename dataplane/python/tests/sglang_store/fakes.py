"""A client that keeps pages in this process, and moves real bytes at real addresses."""

from __future__ import annotations

import ctypes
import types
from collections.abc import Sequence
from typing import Any

from peercache.sglang.namespace import all_page_hashes


class FakeCluster:
    """What all clients of a test share."""

    def __init__(self) -> None:
        self.pages: dict[tuple[bytes, str], bytes] = {}
        self.tags: dict[tuple[bytes, str], int] = {}
        self.clients: list[FakeClient] = []
        # (operation, pages, tokens of each) of the calls that a node would count.
        self.counted: list[tuple[str, int, int]] = []
        self.refuse_connect = ""
        self.refuse_region = ""
        self.knows_presence = True  # False: nodes of an older release

    def connect(
        self, socket: str, engine: str, timeout_ms: int, staging_bytes: int
    ) -> tuple[FakeClient | None, str]:
        if self.refuse_connect:
            return None, self.refuse_connect
        client = FakeClient(self, socket, engine)
        self.clients.append(client)
        return client, ""

    def extension(self) -> Any:
        return types.SimpleNamespace(connect=self.connect, has_node=False, __version__="0")


class FakeClient:
    def __init__(self, cluster: FakeCluster, socket: str, engine: str) -> None:
        self.cluster = cluster
        self.socket = socket
        self.engine = engine
        self.regions: list[tuple[int, int]] = []
        self.calls: list[str] = []
        self.faults = 0
        self.broken = False
        self.closed = False
        self.attached = True
        self.unheard = ""  # what clear answers
        self.prefill: list[int] = []

    def _enter(self, name: str) -> None:
        self.calls.append(name)
        if self.broken:
            raise OSError("the client is broken")

    def set_prefill(self, tokens_per_second: int) -> None:
        self.prefill.append(tokens_per_second)

    def register_region(self, fd: int, base: int, length: int, offset: int = 0) -> str:
        if self.cluster.refuse_region:
            return self.cluster.refuse_region
        self.regions.append((base, length))
        return ""

    def set(
        self,
        prefix: bytes,
        tag: int,
        keys: Sequence[str],
        ptrs: Sequence[int],
        sizes: Sequence[int],
    ) -> list[bool]:
        self._enter("set")
        per_page = len(ptrs) // max(1, len(keys))
        for i, key in enumerate(keys):
            at = slice(i * per_page, (i + 1) * per_page)
            page = b"".join(map(ctypes.string_at, ptrs[at], sizes[at]))
            self.cluster.pages[prefix, key] = page
            self.cluster.tags[prefix, key] = tag
        return [True] * len(keys)

    def get(
        self,
        prefix: bytes,
        keys: Sequence[str],
        ptrs: Sequence[int],
        sizes: Sequence[int],
        page_tokens: int | None = 0,
    ) -> list[bool]:
        self._enter("get")
        if page_tokens is not None:
            self.cluster.counted.append(("get", len(keys), page_tokens))
        per_page = len(ptrs) // max(1, len(keys))
        done = []
        for i, key in enumerate(keys):
            page = self.cluster.pages.get((prefix, key))
            at = slice(i * per_page, (i + 1) * per_page)
            done.append(page is not None and len(page) == sum(sizes[at]))
            if page is None or not done[-1]:
                self.faults += 1
                continue
            for ptr, size in zip(ptrs[at], sizes[at], strict=True):
                ctypes.memmove(ptr, page[:size], size)
                page = page[size:]
        return done

    def set_rows(
        self, prefix: bytes, tag: int, keys: Sequence[str], map: Any, rows: int, count: int
    ) -> list[bool] | None:
        found = _addresses(keys, map, rows, count)
        return None if found is None else self.set(prefix, tag, keys, *found)

    def get_rows(
        self,
        prefix: bytes,
        keys: Sequence[str],
        map: Any,
        rows: int,
        count: int,
        page_tokens: int | None = 0,
    ) -> list[bool] | None:
        found = _addresses(keys, map, rows, count)
        return None if found is None else self.get(prefix, keys, *found, page_tokens=page_tokens)

    def exists(self, prefix: bytes, keys: Sequence[str], page_tokens: int | None = 0) -> int:
        self._enter("exists")
        if page_tokens is not None:
            self.cluster.counted.append(("exists", len(keys), page_tokens))
        for i, key in enumerate(keys):
            if (prefix, key) not in self.cluster.pages:
                return i
        return len(keys)

    def presence(self, prefixes: Sequence[bytes], keys: Sequence[str]) -> list[bytes] | None:
        if not self.cluster.knows_presence or not all_page_hashes(keys):
            return None
        self._enter("presence")
        return [bytes((prefix, key) in self.cluster.pages for key in keys) for prefix in prefixes]

    def clear(self, tag: int) -> str:
        self._enter("clear")
        for name in [name for name, own in self.cluster.tags.items() if own == tag]:
            del self.cluster.pages[name], self.cluster.tags[name]
        return self.unheard

    def stats(self) -> dict[str, int | str]:
        return {"faults": self.faults, "last_fault": "page lost" if self.faults else ""}

    def close(self) -> None:
        self.closed = True


def _addresses(
    keys: Sequence[str], map: Any, rows: int, count: int
) -> tuple[list[int], list[int]] | None:
    if not all_page_hashes(keys) or count != len(keys) * map.page_rows:
        return None
    found: tuple[list[int], list[int]] | None = map.segments(rows, count)
    return found

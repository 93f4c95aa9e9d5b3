"""The C++ extension. No function raises for a fault of the cache."""

from collections.abc import Sequence

__version__: str
has_node: bool

Hash = str | bytes  # of a page: 64 hex digits, or 32 bytes

class PageMap:
    @property
    def page_rows(self) -> int: ...
    def segments(self, rows: int, count: int) -> tuple[list[int], list[int]] | None: ...

class DmaBufWays:
    """How pages come into device memory."""

    @property
    def rdma(self) -> bool: ...
    @property
    def copies(self) -> bool: ...
    @property
    def missing(self) -> str: ...

class Client:
    @property
    def attached(self) -> bool: ...
    def register_region(self, fd: int, base: int, length: int, offset: int = ...) -> str: ...
    def register_dmabuf(
        self, fd: int, address: int, length: int, offset: int = ...
    ) -> tuple[DmaBufWays | None, str]: ...
    def register_device_pointer(
        self, address: int, length: int
    ) -> tuple[DmaBufWays | None, str]: ...
    def set(
        self,
        prefix: bytes,
        tag: int,
        keys: Sequence[Hash],
        ptrs: Sequence[int],
        sizes: Sequence[int],
    ) -> list[bool]: ...
    # page_tokens: for the node's hit ratio (docs/hit-ratio.md), tokens of a page, 0 when not known;
    # None when other calls count these pages.
    def get(
        self,
        prefix: bytes,
        keys: Sequence[Hash],
        ptrs: Sequence[int],
        sizes: Sequence[int],
        page_tokens: int | None = 0,
    ) -> list[bool]: ...
    def set_rows(
        self,
        prefix: bytes,
        tag: int,
        keys: Sequence[Hash],
        map: PageMap,
        rows: int,
        count: int,
    ) -> list[bool] | None: ...
    def get_rows(
        self,
        prefix: bytes,
        keys: Sequence[Hash],
        map: PageMap,
        rows: int,
        count: int,
        page_tokens: int | None = 0,
    ) -> list[bool] | None: ...
    def exists(self, prefix: bytes, keys: Sequence[Hash], page_tokens: int | None = 0) -> int: ...
    def presence(self, prefixes: Sequence[bytes], keys: Sequence[Hash]) -> list[bytes] | None: ...
    def set_prefill(self, tokens_per_second: int) -> None: ...
    def clear(self, tag: int) -> str: ...
    def asynchronous(self, window: int = ..., max_pending: int = ...) -> AsyncClient | None: ...
    def stats(self) -> dict[str, int | str]: ...
    def close(self) -> None: ...

class AsyncCall:
    def done(self) -> bool: ...
    def wait(self, seconds: float) -> bool: ...
    def pages(self) -> list[bool] | None: ...

class AsyncClient:
    def set(
        self,
        prefix: bytes,
        tag: int,
        keys: Sequence[Hash],
        ptrs: Sequence[int],
        sizes: Sequence[int],
    ) -> tuple[AsyncCall | None, str]: ...
    def get(
        self,
        prefix: bytes,
        keys: Sequence[Hash],
        ptrs: Sequence[int],
        sizes: Sequence[int],
        page_tokens: int | None = 0,
    ) -> tuple[AsyncCall | None, str]: ...
    def presence(
        self, prefix: bytes, keys: Sequence[Hash], page_tokens: int | None = 0
    ) -> tuple[AsyncCall | None, str]: ...
    def close(self) -> None: ...

class Node:
    @property
    def socket(self) -> str: ...
    @property
    def ready(self) -> bool: ...
    @property
    def peer_port(self) -> int: ...
    @property
    def http_port(self) -> int: ...
    def status(self) -> str: ...
    def close(self, limit_ms: int = ...) -> None: ...

def connect(
    socket: str, engine: str, timeout_ms: int, staging_bytes: int
) -> tuple[Client | None, str]: ...
def page_map(
    page_rows: int, rows: int, places: Sequence[tuple[int, int, int]]
) -> tuple[PageMap | None, str]: ...
def start_node(options: dict[str, str]) -> tuple[Node | None, str]: ...

"""AbsentClient: what an engine has instead of a client where the extension does not load."""

from __future__ import annotations


class AbsentClient:
    """Never attached, so a store answers misses without asking it for a page.

    The host's image, architecture or mount may be why, and an engine must start all the same.
    """

    attached = False

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def register_region(self, fd: int, base: int, length: int, offset: int = 0) -> str:
        return ""

    def asynchronous(self, window: int = 0, max_pending: int = 0) -> AbsentAsyncClient:
        return AbsentAsyncClient(self._reason)

    def set_prefill(self, tokens_per_second: int) -> None:
        pass

    def clear(self, tag: int) -> str:
        return self._reason

    def stats(self) -> dict[str, int | str]:
        return {"faults": 0, "last_fault": "", "detached": self._reason}

    def close(self) -> None:
        pass


class AbsentAsyncClient:
    """Takes no call."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def _refuse(self, *_: object) -> tuple[None, str]:
        return None, self._reason

    set = get = presence = _refuse

    def close(self) -> None:
        pass

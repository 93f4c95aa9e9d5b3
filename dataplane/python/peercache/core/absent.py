"""AbsentClient: what an engine has instead of a client where the extension does not load."""

from __future__ import annotations


class AbsentClient:
    """Never attached, so a store answers misses without asking it for a page.

    The host's image, architecture or mount may be why, and an engine must start all the same.
    """

    attached = False

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def register_region(self, fd: int, base: int, length: int) -> str:
        return ""

    def clear(self, tag: int) -> str:
        return self._reason

    def stats(self) -> dict[str, int | str]:
        return {"faults": 0, "last_fault": "", "detached": self._reason}

    def close(self) -> None:
        pass

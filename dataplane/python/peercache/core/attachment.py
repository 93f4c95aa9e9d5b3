"""Attachment: a client of a node, and the node itself if it runs inside this process."""

from __future__ import annotations

import atexit
import logging
import os
import threading
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from peercache.core import embedded
from peercache.core.absent import AbsentClient
from peercache.core.config import ConfigError, StoreConfig
from peercache.core.extension import ExtensionMissing, load
from peercache.core.prefill import PrefillRate
from peercache.core.segments import Region

if TYPE_CHECKING:
    from peercache._peercache import AsyncClient, Client

logger = logging.getLogger(__name__)

HELD_OUT = "it is held out, so that others can be compared with it (PEERCACHE_HOLDOUT)"


class Attachment:
    """A client, and the node in this process if the configuration asks for one.

    Neither an absent node is an error, nor a host or a node that does not let this user in: the
    client attaches when it can. Where the extension does not load, and in an engine that is held
    out, there is an AbsentClient. Raises ConfigError for a configuration that names something else
    than a node.
    """

    def __init__(self, config: StoreConfig, engine: str) -> None:
        self._lock = threading.Lock()
        self._shared: set[tuple[int, int]] = set()
        self._seen_faults = 0
        self._embedded = config.node_options is not None and not config.holdout
        self._closed = False
        self.client = self._client(config, engine)
        self.prefill = PrefillRate(config.prefill, self.client.set_prefill)
        _open.add(self)

    def _client(self, config: StoreConfig, engine: str) -> Client:
        if config.holdout:
            logger.info("PeerCache: this engine works without cache: %s", HELD_OUT)
            return cast("Client", AbsentClient(HELD_OUT))
        try:
            return self._connect(config, engine)
        except ExtensionMissing as error:
            self._embedded = False
            logger.warning("PeerCache: this engine works without cache: %s", error)
            return cast("Client", AbsentClient(str(error)))

    def _connect(self, config: StoreConfig, engine: str) -> Client:
        socket = config.socket
        if config.node_options is not None:
            socket = embedded.acquire(config.node_options)
        client: Client | None
        client, reason = load().connect(socket, engine, config.timeout_ms, config.staging_bytes)
        if client is None:
            if self._embedded:
                embedded.release()
                raise ConfigError(f"the embedded node refuses this engine: {reason}")
            raise ConfigError.of(
                "socket",
                socket,
                f"leads to no node of PeerCache ({reason})",
                "name the socket of this machine's peercached",
            )
        return client

    def share(self, regions: Sequence[Region]) -> int:
        """Shares memory with the node, now or when the node comes. Returns the number of new bytes.

        Pages of a region that cannot be shared go through the staging ring.
        """
        shared = 0
        for region in regions:
            place = (region.base, region.length)
            with self._lock:
                if place in self._shared:
                    continue
                self._shared.add(place)
            reason = self.client.register_region(
                region.fd, region.base, region.length, region.offset
            )
            if reason:
                with self._lock:
                    self._shared.discard(place)
                logger.warning(
                    "PeerCache copies pages through its staging ring, because the node cannot map "
                    "%d bytes of the host pool: %s",
                    region.length,
                    reason,
                )
                continue
            shared += region.length
        return shared

    def asynchronous(self, window: int) -> AsyncClient:
        """Calls that are awaited later, with so many requests at work at once."""
        made = self.client.asynchronous(window)
        assert made is not None, "only a closed client has none"
        return made

    def new_faults(self) -> tuple[int, str]:
        """The number of the client's faults since the last call, and the text of the latest."""
        stats = self.client.stats()
        with self._lock:
            seen, self._seen_faults = self._seen_faults, int(stats["faults"])
        return int(stats["faults"]) - seen, str(stats["last_fault"])

    def close(self) -> None:
        """Waits for calls in flight, then releases the node. Idempotent."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self.client.close()
        if self._embedded:
            embedded.release()


_open: weakref.WeakSet[Attachment] = weakref.WeakSet()


# atexit runs its hooks in reverse order, so clients close before embedded.py stops their node.
# Otherwise a client's thread would log the loss of its node while the interpreter exits.
@atexit.register
def _close_at_exit() -> None:
    for attachment in list(_open):
        attachment.close()


def engine_name(model: str, ranks: str) -> str:
    """The name of this engine in the node's status."""
    return f"{os.uname().nodename}/{os.getpid()} {ranks} {model}"[:128]

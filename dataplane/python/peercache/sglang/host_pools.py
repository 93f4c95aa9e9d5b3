"""HostPools: the host pools that SGLang has registered with a store.

KV comes first. Hybrid models have more pools: Mamba states, index keys, sliding windows, the pools
of DeepSeek-V4, and pools of draft models, which SGLang registers after the attach. A pool that
cannot be stored does not fail the attach. The log says so once, because every prefix that needs the
pool is a miss.
"""

from __future__ import annotations

import logging
from typing import Any

from peercache.core.config import ConfigError
from peercache.sglang import identity, writers
from peercache.sglang.identity import Pages
from peercache.sglang.weights import LiveWeights

logger = logging.getLogger(__name__)


class HostPools:
    """Host pools by name. One thread registers them; any thread looks them up."""

    def __init__(self, storage: Any, weights: LiveWeights) -> None:
        self._storage = storage
        self._weights = weights
        self._pages: dict[str, Pages | None] = {}  # None: its pages cannot be stored
        self._warned = False  # about a pool that SGLang keeps this rank from storing

    def add(self, name: str, pool: Any) -> Pages | None:
        """Registers a pool beside the KV; logs what is lost if its pages cannot be stored."""
        try:
            pages = identity.side_pages(self._storage, self._weights, name, pool)
        except ConfigError as error:
            self._pages[name] = None
            logger.warning(
                "PeerCache stores no page of host pool %s, so every prompt whose prefix needs it "
                "is a miss: %s",
                name,
                error,
            )
            return None
        self.put(pages)
        return pages

    def put(self, pages: Pages) -> None:
        """Registers a pool whose pages are known."""
        self._pages[pages.name] = pages
        if identity.writes_for_all(self._storage) or pages.name in writers.KNOWN_TO_SGLANG:
            return
        reason = writers.widen() if self.stores_alone(pages.name) else ""
        if reason and not self._warned:
            self._warned = True
            logger.warning(
                "PeerCache finds nothing in L3 for this model, because this SGLang lets only TP "
                "rank 0 store host pool %s, which differs from rank to rank (%s): use SGLang "
                "0.5.23, TP size 1, or no draft model",
                pages.name,
                reason,
            )

    def find(self, name: Any) -> Pages | None:
        """The pool's pages; None if they cannot be stored. Raises LookupError for unknown pools."""
        try:
            return self._pages[str(name)]
        except KeyError:
            raise LookupError(f"host pool {name} is not registered") from None

    def stores_alone(self, name: Any) -> bool:
        """Whether this rank of a model with replicated KV holds bytes that no other rank has."""
        pages = self._pages.get(str(name))
        return pages is not None and bool(self._storage.is_mla_model) and not pages.replicated

    def log_pools(self) -> None:
        """Logs how the pages of each pool travel; called once per attach."""
        known = [pages for pages in self._pages.values() if pages is not None]
        if len(self._pages) < 2:
            return
        logger.info(
            "PeerCache stores the host pools %s",
            ", ".join(
                f"{pages.name} ({'copied by SGLang' if pages.whole else 'zero copy'}, "
                f"{'shared by all TP ranks' if pages.replicated else 'of this TP rank'})"
                for pages in known
            ),
        )

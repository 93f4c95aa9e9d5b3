"""LiveWeights: the name of the weights in the engine's memory, as it changes with updates.

The name is a digest of the checkpoint's identity, SGLang's weight version, and whether an update
came from memory. The weights have no name, and every look-up is a miss, in these cases:

- during an update, and after an update that did not change the weight version;
- after an update from memory without "tag", because other training runs have the same versions.

After an update nothing is stored until SGLang has flushed its caches: they hold KV of the weights
before. Caches that were empty when the update began need no flush.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, replace
from typing import Any

from peercache.core.checkpoint import Checkpoint, Unidentified
from peercache.core.config import ConfigError
from peercache.core.digest import clear_tag
from peercache.sglang import server_args
from peercache.sglang.namespace import Namespace, weights_name

logger = logging.getLogger(__name__)


class Unnamed(Exception):
    """The loaded weights have no name now; the text says what gives them one."""


@dataclass(frozen=True)
class WeightsState:
    """Replaced as a whole, so that readers need no lock."""

    target: str  # identity of the checkpoint; "": unknown, and the tag alone names the weights
    draft: str
    from_memory: bool = False  # another process has sent weights since the load
    updating: bool = False
    clean: bool = True  # all KV in the engine's caches was computed with these weights
    stale_version: str | None = None  # the weight version before the last update


class LiveWeights:
    """The weights of one engine rank. SGLang's scheduler thread calls the methods for updates."""

    def __init__(self, storage: Any, tag: str) -> None:
        server_args.refuse_older()
        self.tag = tag
        self._lock = threading.Lock()
        self.version = server_args.version_reader()
        self._sources: server_args.WeightSources | None = None
        self._adapters: dict[str, str] = {}
        self.pools: list[Any] = []  # host pools that may hold KV of these weights
        self.model = str(storage.model_name or "")
        self.state = WeightsState("", "")
        try:
            self._identify()
        except Unidentified as reason:
            if not tag:
                raise ConfigError(
                    'extra-config "tag" is missing, and pages of different weights would get '
                    f'the same keys without it ({reason}): set "tag" to a text that names these '
                    "weights, the same in all engines that serve exactly them, and in no others"
                ) from reason
            logger.info("PeerCache: the tag %r alone names the weights: %s", tag, reason)
        if server_args.initial_version() not in (None, self.version()):
            # The version changed before the attach, so what changed the weights is unknown.
            self.state = replace(self.state, from_memory=True, clean=False)
        self.clear_tag = self._clear_tag()

    def _identify(self) -> None:
        started = time.perf_counter()
        sources = server_args.read()
        target = sources.target.identity()
        draft = sources.draft.identity() if sources.draft else ""
        self._adapters = {name: each.identity() for name, each in sources.adapters.items()}
        self._sources = sources
        self.state = WeightsState(target, draft)
        logger.info(
            "PeerCache: the weights at %s are %s, found in %.2f s",
            sources.target.path,
            target[:16],
            time.perf_counter() - started,
        )
        # Paths differ between machines, and the weights are identified without them.
        if sources.is_default(self.model):
            self.model = ""

    def name(self, state: WeightsState, version: str, with_draft: bool) -> str:
        """The part of a page's key that stands for the weights. Raises Unnamed."""
        if state.updating:
            raise Unnamed("an update of the weights is under way")
        if version == state.stale_version:
            raise Unnamed(
                f"the weights were updated and their version is still {version!r}: "
                'give "weight_version" with each update, a new one for new weights'
            )
        if state.from_memory and not self.tag:
            raise Unnamed(
                "the weights were updated from memory, and other training runs have the same "
                'versions: name this one with "tag" in the extra-config'
            )
        return weights_name(
            target=state.target,
            draft=state.draft if with_draft else "",
            adapters=self._adapters,
            from_memory=state.from_memory,
            version=version,
        )

    # ---- called by updates.py -------------------------------------------------------------------

    def update_began(self, *, session: bool, empty: bool) -> None:
        """SGLang is about to write weights.

        ``session``: an ``update_ended`` follows. ``empty``: the device pool holds no KV.
        """
        with self._lock:
            state = self.state
            in_session = state.updating
            self.state = replace(
                state,
                from_memory=True,
                updating=session or in_session,
                clean=empty and all(map(_is_empty, self.pools)),
                stale_version=state.stale_version if in_session else self.version(),
            )

    def inherit(self, former: LiveWeights) -> None:
        """Takes over the updates that ``former`` has seen, which this process attached before."""
        with self._lock:
            was = former.state
            self.state = replace(
                self.state,
                from_memory=was.from_memory,
                updating=was.updating,
                clean=was.clean,
                stale_version=was.stale_version,
            )

    def update_ended(self) -> None:
        with self._lock:
            self.state = replace(self.state, updating=False)

    def loaded_from_disk(self, path: str, load_format: str | None) -> None:
        """SGLang has loaded these files, which identify the weights from now on."""
        try:
            identity = self._identity_at(path, load_format)
        except Unidentified as reason:
            logger.warning("PeerCache cannot identify the weights at %s: %s", path, reason)
            return
        with self._lock:
            self.state = replace(
                self.state,
                target=identity[0],
                draft=identity[1],
                from_memory=False,
                stale_version=None,
            )
            self.clear_tag = self._clear_tag()

    def caches_flushed(self) -> None:
        """SGLang has dropped all KV and all waiting backups."""
        with self._lock:
            self.state = replace(self.state, clean=True)

    def _identity_at(self, path: str, load_format: str | None) -> tuple[str, str]:
        if self._sources is None:
            raise Unidentified("the weights that were loaded first are unknown")

        def at(checkpoint: Checkpoint | None) -> str:
            if checkpoint is None:
                return ""
            moved = replace(checkpoint, path=path, load_format=load_format or "auto")
            return moved.identity()

        return at(self._sources.target), at(self._sources.draft)

    def _clear_tag(self) -> int:
        return clear_tag(self.model or f"weights {self.state.target}", self.tag)


class KeyPrefixes:
    """The prefixes of the keys of one pool's pages, for the weights that are loaded now.

    Costs: a call reads SGLang's weight version and compares it; only a change makes new digests.
    """

    def __init__(
        self, weights: LiveWeights, namespaces: tuple[Namespace, ...], with_draft: bool
    ) -> None:
        self._weights = weights
        self._namespaces = namespaces
        self._with_draft = with_draft
        self._cached: tuple[str, WeightsState | None, tuple[bytes, ...]] = ("", None, ())

    def __len__(self) -> int:
        return len(self._namespaces)

    def for_reads(self) -> tuple[bytes, ...]:
        """Prefixes to look pages up with. Raises Unnamed."""
        return self._now()[1]

    def for_writes(self) -> tuple[bytes, ...]:
        """Prefixes to store pages with. Raises Unnamed, also until SGLang's caches are flushed."""
        state, prefixes = self._now()
        if not state.clean:
            raise Unnamed("SGLang's caches hold KV of the weights before the update: flush them")
        return prefixes

    def _now(self) -> tuple[WeightsState, tuple[bytes, ...]]:
        version = self._weights.version()
        # Read the state once, and after the version: the caller's KV is older than this call.
        state = self._weights.state
        cached = self._cached
        if cached[1] is state and cached[0] == version:
            return state, cached[2]
        return state, self._make(state, version)

    def _make(self, state: WeightsState, version: str) -> tuple[bytes, ...]:
        name = self._weights.name(state, version, self._with_draft)
        prefixes = tuple(
            replace(namespace, weights=name).prefix() for namespace in self._namespaces
        )
        self._cached = (version, state, prefixes)
        return prefixes


def _is_empty(pool: Any) -> bool:
    try:
        return int(pool.available_size()) >= int(pool.size)
    except Exception:  # a pool of unknown fill counts as full
        return False

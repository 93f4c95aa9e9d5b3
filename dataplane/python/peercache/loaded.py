"""Loaded: the name of the weights that are in the engine's memory at this moment.

It is made of what the checkpoint is, of SGLang's weight version, which is live, and of what updates
did since. While no name is true there is none, and the store answers with misses:

- during an update, and after one that left the weight version as it was;
- after an update from memory without "tag": versions are names within one training run only.

Nothing is stored either, until SGLang has flushed its caches after an update: what they hold was
computed by the weights before. A cache that was empty when the update began needs no flush.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, replace
from typing import Any

from peercache import told as sglang
from peercache.checkpoint import Checkpoint, Unidentified
from peercache.config import ConfigError
from peercache.namespace import Namespace, clear_tag, weights_name

logger = logging.getLogger(__name__)


class Unnamed(Exception):
    """The weights that are loaded have no name; the text says what gives them one."""


@dataclass(frozen=True)
class State:
    """Replaced as a whole, so that readers need no lock."""

    target: str  # identity of the checkpoint; "": unknown, the tag alone stands for it
    draft: str
    from_memory: bool = False  # an update came from another process since
    updating: bool = False
    clean: bool = True  # whether all KV in the engine's caches is of these weights
    stale_version: str | None = None  # the weight version of before the last update


class Loaded:
    """The weights of one engine rank. Its hooks run in SGLang's scheduler thread."""

    def __init__(self, storage: Any, tag: str) -> None:
        sglang.refuse_older()
        self.tag = tag
        self._lock = threading.Lock()
        self.version = sglang.version_reader()
        self._told: sglang.Told | None = None
        self._adapters: dict[str, str] = {}
        self.pools: list[Any] = []  # host pools, which are empty when no KV is in them
        self.model = str(storage.model_name or "")
        self.state = State("", "")
        try:
            self._identify()
        except Unidentified as reason:
            if not tag:
                raise ConfigError(
                    'extra-config "tag" is missing, and pages of different weights could not be '
                    f'told apart without it ({reason}): set "tag" to a text that names these '
                    "weights, the same in all engines that serve exactly them, and in no others"
                ) from reason
            logger.info("PeerCache: the tag %r alone names the weights: %s", tag, reason)
        if sglang.started_version() not in (None, self.version()):
            # SGLang was up before the attach. Nobody saw what changed the version.
            self.state = replace(self.state, from_memory=True, clean=False)
        self.clear_tag = self._clear_tag()

    def _identify(self) -> None:
        started = time.perf_counter()
        told = sglang.read()
        target = told.target.identity()
        draft = told.draft.identity() if told.draft else ""
        self._adapters = {name: each.identity() for name, each in told.adapters.items()}
        self._told = told
        self.state = State(target, draft)
        logger.info(
            "PeerCache: the weights at %s are %s, found in %.2f s",
            told.target.path,
            target[:16],
            time.perf_counter() - started,
        )
        # A path is another one on each machine; the weights are what it stands for.
        if told.is_default(self.model):
            self.model = ""

    def name(self, state: State, version: str, with_draft: bool) -> str:
        """What pages of these weights are filed under; Unnamed where that would be a lie."""
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

    # ---- updates: see updates.py ----------------------------------------------------------------

    def began(self, *, session: bool, empty: bool) -> None:
        """New weights are about to be written. ``empty``: no KV is in the engine's device pool."""
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

    def succeed(self, former: Loaded) -> None:
        """``former`` was attached in this process before: it knows what became of the weights."""
        with self._lock:
            was = former.state
            self.state = replace(
                self.state,
                from_memory=was.from_memory,
                updating=was.updating,
                clean=was.clean,
                stale_version=was.stale_version,
            )

    def ended(self) -> None:
        with self._lock:
            self.state = replace(self.state, updating=False)

    def loaded_from_disk(self, path: str, load_format: str | None) -> None:
        """The files tell what the weights are now, whatever was loaded before."""
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

    def flushed(self) -> None:
        """SGLang has dropped all KV, and all backups that were waiting."""
        with self._lock:
            self.state = replace(self.state, clean=True)

    def _identity_at(self, path: str, load_format: str | None) -> tuple[str, str]:
        if self._told is None:
            raise Unidentified("the weights that were loaded first are unknown")

        def at(checkpoint: Checkpoint | None) -> str:
            if checkpoint is None:
                return ""
            moved = replace(checkpoint, path=path, load_format=load_format or "auto")
            return moved.identity()

        return at(self._told.target), at(self._told.draft)

    def _clear_tag(self) -> int:
        return clear_tag(self.model or f"weights {self.state.target}", self.tag)


class Names:
    """The prefixes of one pool's pages, under the weights of this moment.

    Costs: a call reads SGLang's weight version and compares; digests are made when it changed.
    """

    def __init__(self, loaded: Loaded, namespaces: tuple[Namespace, ...], with_draft: bool) -> None:
        self._loaded = loaded
        self._namespaces = namespaces
        self._with_draft = with_draft
        self._cached: tuple[str, State | None, tuple[bytes, ...]] = ("", None, ())

    def __len__(self) -> int:
        return len(self._namespaces)

    def read(self) -> tuple[bytes, ...]:
        """To look pages up under. Raises Unnamed."""
        return self._now()[1]

    def write(self) -> tuple[bytes, ...]:
        """To store pages under. Raises Unnamed."""
        state, prefixes = self._now()
        if not state.clean:
            raise Unnamed("SGLang's caches hold KV of the weights before the update: flush them")
        return prefixes

    def _now(self) -> tuple[State, tuple[bytes, ...]]:
        version = self._loaded.version()
        # Read once, and last: whoever stores holds KV that is older than the call.
        state = self._loaded.state
        cached = self._cached
        if cached[1] is state and cached[0] == version:
            return state, cached[2]
        return state, self._make(state, version)

    def _make(self, state: State, version: str) -> tuple[bytes, ...]:
        weights = self._loaded.name(state, version, self._with_draft)
        prefixes = tuple(
            replace(namespace, weights=weights).prefix() for namespace in self._namespaces
        )
        self._cached = (version, state, prefixes)
        return prefixes


def _is_empty(pool: Any) -> bool:
    try:
        return int(pool.available_size()) >= int(pool.size)
    except Exception:  # a pool that does not say it is taken for full
        return False

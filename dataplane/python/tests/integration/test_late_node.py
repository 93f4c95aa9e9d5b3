"""Engines first: SGLang starts without its node, and has it soon after its coming.

SGLang's own HiCacheController in this process, and real nodes that come late, die during the
attach, and come back as others.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from .. import patience, wrong_bytes
from ..patience import HANG_SECONDS, NEVER_SECONDS
from .conftest import SHM, Cluster
from .processes import Node, Process, extension_folder, free_port, peercached

PAGES = 100
TOKENS = PAGES * 16
# Who has nothing to wait for attaches in a small part of it, at one of the tries on any machine. An
# attach that waits does so for six seconds, each time.
AT_ONCE_SECONDS, TRIES = 3.0, 3
# The wait of a call that has nothing to wait for.
NEVER = {"timeout_ms": int(1000 * NEVER_SECONDS)}
SCENARIO: dict[str, Any] = {"kind": "mha", "layout": "page_first", "seed": 11, "pages": PAGES}

Attach = Callable[..., Any]


@pytest.fixture
def socket(tmp_path: Path) -> str:
    return str(tmp_path / "late.sock")


@pytest.fixture
def attach(socket: str) -> Iterator[Attach]:
    """Attaches a HiCacheController, as SGLang does when it starts."""
    import peercache
    import sglang  # noqa: F401 -- puts the stand-ins of hicache_engine.shim in place first
    from hicache_engine.cache import Cache
    from hicache_engine.flags import Flags

    folder = str(extension_folder())
    if folder not in peercache.__path__:
        peercache.__path__.append(folder)
    made = []

    def attach(kind: str = "mha", v1: bool = True, **extra: object) -> Any:
        backend = {
            "backend_name": "peercache",
            "module_path": "peercache.store",
            "class_name": "PeerCacheStore",
            **SHM,
            **({} if "discovery_addr" in extra else {"socket": socket}),
            **extra,
        }
        flags = Flags.of_backend("late", 16, json.dumps(backend))
        made.append(Cache(flags, kind, "page_first", v1, PAGES + 1))
        return made[-1]

    yield attach
    for cache in made:
        cache.__exit__()


class Late:
    """A node that is started, killed and started again at one socket."""

    def __init__(self, folder: Path, socket: str) -> None:
        self._folder = folder
        self._socket = socket
        self._process: Process | None = None

    def start(self, wait: bool = True) -> float:
        """When it was ready."""
        http = free_port()
        command = peercached(
            "late", "127.0.0.1", free_port(), http, "", self._socket, "256Mi", {"log_level": "warn"}
        )
        self._process = Process("late", self._folder, command, {})
        if wait:
            self._process.wait_for(f"http://127.0.0.1:{http}/readyz")
        return time.monotonic()

    def start_stopped(self) -> None:
        """It takes connections and answers none."""
        self.start()
        self.signal(signal.SIGSTOP)

    def signal(self, number: int) -> None:
        assert self._process
        self._process.signal(number)

    def kill(self) -> None:
        assert self._process
        self._process.kill()

    def stop(self) -> None:
        if self._process:
            self._process.stop()


@pytest.fixture
def late(tmp_path: Path, socket: str) -> Iterator[Late]:
    node = Late(tmp_path, socket)
    yield node
    node.stop()


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + HANG_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.01)


def at_once(seconds: Callable[[], float]) -> bool:
    return any(seconds() < AT_ONCE_SECONDS for _ in range(TRIES))


def waiting_connections(socket: str) -> int:
    """To a socket, that its process has not accepted: the kernel gives these no inode."""
    lines = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()]
    return sum(line[6:] == ["0", socket] for line in lines)


def hits_through_zero_copy(cache: Any, seed: int) -> None:
    """The next set is stored, and the next get is a hit in SGLang's own pool."""
    written = cache.backup(seed, PAGES)
    cache.scribble()
    read = cache.prefetch(seed, PAGES)
    assert (written.prefetched, read.hit, read.prefetched) == (TOKENS, TOKENS, TOKENS)
    wrong_bytes.check_pages(read.sha256s, written.sha256s)
    assert cache.pool.fd is not None, "the host pool is shared memory"
    assert cache.stats()["staged_bytes"] == 0, "it is mapped by the node"


@pytest.mark.node
@pytest.mark.parametrize("kind", ["mha", "mla"])
def test_sglang_starts_without_a_node_and_misses(attach: Attach, kind: str) -> None:
    def seconds() -> float:
        started = time.monotonic()
        attach(kind, **NEVER)
        return time.monotonic() - started

    assert at_once(seconds)
    cache = attach(kind, **NEVER)
    assert cache.store.attached is False
    assert (cache.backup(1, PAGES).prefetched, cache.prefetch(1, PAGES).hit) == (0, 0)
    assert cache.max_call_seconds < patience.AT_ONCE_SECONDS
    stats = cache.stats()
    assert (stats["faults"], stats["store_faults"]) == (0, {})


@pytest.mark.node
def test_a_late_node_is_attached_without_a_restart_of_sglang(attach: Attach, late: Late) -> None:
    cache, generic = attach(), attach(v1=False)
    assert cache.prefetch(1, PAGES).hit == 0
    late.start()
    until(lambda: cache.store.attached and generic.store.attached)
    hits_through_zero_copy(cache, 1)
    assert generic.backup(2, PAGES).prefetched == TOKENS
    assert cache.stats()["faults"] == 0


@pytest.mark.node
def test_another_incarnation_maps_the_pool_anew(attach: Attach, late: Late) -> None:
    late.start()
    cache = attach()
    hits_through_zero_copy(cache, 1)
    for seed in (2, 3):
        late.kill()
        until(lambda: not cache.store.attached)
        assert cache.prefetch(1, PAGES).hit == 0
        late.start()
        until(lambda: cache.store.attached)
        assert cache.prefetch(1, PAGES).hit == 0, "its pages went with the node"
        hits_through_zero_copy(cache, seed)
    assert cache.stats()["reconnects"] == 2


@pytest.mark.node
def test_a_node_that_is_killed_during_the_attach_is_a_miss(
    attach: Attach, late: Late, socket: str
) -> None:
    made: list[Any] = []

    def seconds() -> float:
        late.start_stopped()
        before = len(made)
        attaching = threading.Thread(target=lambda: made.append(attach()))
        attaching.start()
        until(lambda: waiting_connections(socket) > 0)
        assert len(made) == before, "the attach waits for a node that has taken its connection"
        killed = time.monotonic()
        late.kill()
        attaching.join(HANG_SECONDS)
        return time.monotonic() - killed

    assert at_once(seconds)
    cache = made[-1]
    assert cache.prefetch(1, PAGES).hit == 0
    late.start()
    until(lambda: cache.store.attached)
    hits_through_zero_copy(cache, 1)


@pytest.mark.node
@pytest.mark.parametrize("before", ["absent", "there"])
def test_a_node_may_come_or_go_between_the_steps_of_the_attach(
    attach: Attach, late: Late, before: str, socket: str
) -> None:
    """SGLang makes the store first, and registers its pools later."""
    from peercache.store import PeerCacheStore

    donor = attach(socket="/nowhere/late.sock")
    if before == "there":
        late.start()
    config = donor.controller.storage_config
    config.extra_config = {**config.extra_config, "socket": socket}
    store = PeerCacheStore(config, {})
    try:
        assert store.attached is (before == "there")
        if before == "there":
            late.kill()
        else:
            late.start()
        store.register_mem_pool_host(donor.pool)
        if before == "there":
            late.start()
        until(lambda: store.attached)
        hashes, rows = donor.hashes(1, PAGES), donor.pool.alloc(TOKENS)
        assert store.batch_set_v1(hashes, rows) == [True] * PAGES
        assert store.batch_get_v1(hashes, rows) == [True] * PAGES
        assert store.stats()["staged_bytes"] == 0
    finally:
        store.close()


@pytest.mark.node
def test_the_log_says_once_that_there_is_no_node_and_once_that_there_is(
    tmp_path: Path, late: Late, socket: str
) -> None:
    cluster = Cluster(tmp_path)
    try:
        engine = cluster.bare_engine("early", {"socket": socket, **SHM})
        time.sleep(1)
        assert engine.output().count("works without cache") == 1
        assert f"connecting to {socket} no such file" in engine.output()
        assert "attached to the node" not in engine.output()
        late.start()
        until(lambda: "attached to the node late" in engine.output())
        written = engine.ask("write", **SCENARIO)
        read = engine.ask("read", **SCENARIO)
        assert (written["backup"], read["prefetched"]) == (TOKENS, TOKENS)
        wrong_bytes.check_pages(read["sha256s"], written["sha256s"])
        assert "staging ring" not in engine.output()
        assert engine.popen.poll() is None
    finally:
        cluster.stop()


@pytest.mark.node
def test_a_cluster_that_nobody_answers_for_does_not_fail_an_embedded_node(attach: Attach) -> None:
    cache = attach(
        discovery_addr=f"127.0.0.1:{free_port()},nobody.invalid:31998",
        insecure_peers=True,
        local_hostname="127.0.0.1",
        global_segment_size="64mb",
        huge_pages="off",
        metrics_port=0,
    )
    assert cache.store.attached
    hits_through_zero_copy(cache, 1)


@pytest.mark.node
def test_what_waiting_does_not_mend_fails_the_attach(
    attach: Attach, tmp_path: Path, socket: str
) -> None:
    # SGLang's factory makes a ValueError of whatever the store raises.
    with pytest.raises(ValueError, match=r'"socket" = ".*is a folder: name the node.s socket'):
        attach(socket=str(tmp_path))


def test_a_node_that_does_not_admit_the_user_costs_the_cache_and_not_the_engine(
    attach: Attach, tmp_path: Path
) -> None:
    cluster = Cluster(tmp_path)
    try:
        node: Node = cluster.node("picky", socket_uids=str(os.geteuid() + 1))
        cache = attach(socket=node.socket)
        assert cache.store.attached is False
        assert "--socket-uids" in cache.stats()["detached"]
    finally:
        cluster.stop()

"""Faults under real processes: bounded calls, no wrong byte, and hits return."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from .. import wrong_bytes
from ..patience import AT_ONCE_SECONDS, HANG_SECONDS
from .conftest import Cluster
from .processes import Engine, Node

PAGES = 100
TOKENS = PAGES * 16
SCENARIO: dict[str, Any] = {"kind": "mha", "layout": "page_first", "seed": 7, "pages": PAGES}
STORED = "peercache_write_stored_total"
LOAD_SECONDS = 5 * HANG_SECONDS  # a load is stopped before


class Background:
    """A request of an engine in a thread."""

    def __init__(self, engine: Engine, action: str, **request: Any) -> None:
        self._result: Any = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(engine, action, request))
        self._thread.start()

    def _run(self, engine: Engine, action: str, request: dict[str, Any]) -> None:
        try:
            self._result = engine.ask(action, **request)
        except BaseException as error:
            self._error = error

    def result(self) -> Any:
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._result


def until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + HANG_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"not yet: {what}"
        time.sleep(0.02)


class Load(Background):
    """Goes on until it is stopped."""

    def __init__(self, engine: Engine, node: Node, **request: Any) -> None:
        self._engine, self._node = engine, node
        begun = self._delivered()
        super().__init__(engine, "load", **SCENARIO, seconds=LOAD_SECONDS, **request)
        until(lambda: self._delivered() >= begun + 3 * PAGES, "three rounds of the load")

    def _delivered(self) -> int:
        ways = self._node.status()["lookups"]["delivered"].values()
        return sum(int(way["pages"]) for way in ways)

    def stop(self) -> Any:
        self._engine.ask("stop")
        done = self.result()
        # A dead peer costs a call at most 1 s, an own node that just starts the client's time-out
        # of 1.5 s; what has no bound takes longer than any machine.
        print(f"the longest call: {done['max_call_seconds']} s")
        assert done["max_call_seconds"] <= AT_ONCE_SECONDS
        return done


def stored(node: Node) -> float:
    lines = node.metrics().splitlines()
    return sum(float(line.split()[1]) for line in lines if line.startswith(STORED))


@pytest.mark.node
@pytest.mark.parametrize(
    "how",
    [
        pytest.param(signal.SIGKILL, id="killed"),
        pytest.param(signal.SIGSTOP, id="stopped", marks=pytest.mark.full),
    ],
)
def test_a_peer_that_dies_costs_a_bounded_wait(
    tmp_path_factory: pytest.TempPathFactory, how: signal.Signals
) -> None:
    cluster = Cluster(tmp_path_factory.mktemp("peer"))
    try:
        # Without replicas, which would go on serving what was read before.
        near, far = cluster.node("near", promotion_percent="0"), cluster.node("far")
        writer, reader = cluster.engine("writer", far), cluster.engine("reader", near)
        written = writer.ask("write", **SCENARIO)
        load = Load(reader, near, sha256s=written["sha256s"])
        far.signal(how)
        until(lambda: reader.ask("read", **SCENARIO)["prefetched"] == 0, "the fault is noticed")
        assert reader.ask("read", **SCENARIO)["prefetched"] == 0
        done = load.stop()
        assert done["wrong"] == 0
        assert 0 < done["full_rounds"] < done["rounds"]
        # The engine of the lost node goes on as well, and hits return with the node.
        if how is signal.SIGSTOP:
            far.signal(signal.SIGCONT)
        else:
            far.popen.wait()
            far = cluster.restart(far)
            until(lambda: writer.ask("write", **SCENARIO)["backup"] == TOKENS, "all is written")
        until(lambda: reader.ask("read", **SCENARIO)["prefetched"] == TOKENS, "hits return")
        final = reader.ask("load", **SCENARIO, seconds=1, sha256s=written["sha256s"])
        assert (final["wrong"], final["empty_rounds"]) == (0, 0)
    finally:
        cluster.stop()


@pytest.mark.node
def test_an_engine_survives_its_own_nodes_restart(cluster: Cluster) -> None:
    node = cluster.node("solo")
    engine = cluster.engine("engine", node)
    written = engine.ask("write", **SCENARIO)
    load = Load(engine, node, sha256s=written["sha256s"])
    node.kill()
    until(lambda: engine.ask("read", **SCENARIO)["prefetched"] == 0, "the fault is noticed")
    node = cluster.restart(node)
    until(lambda: engine.ask("write", **SCENARIO)["backup"] == TOKENS, "all is written")
    done = load.stop()
    assert done["wrong"] == 0
    assert done["full_rounds"] > 0
    read = engine.ask("read", **SCENARIO)
    wrong_bytes.check_pages(read["sha256s"], written["sha256s"])
    assert read["prefetched"] == TOKENS
    # The store that was attached all the time follows its node as well.
    assert engine.popen.poll() is None


@pytest.mark.node
def test_an_engine_killed_in_the_middle_of_a_set_harms_nobody(cluster: Cluster) -> None:
    node = cluster.node("shared")
    victim = cluster.engine("victim", node)
    witness = cluster.engine("witness", node)
    written = witness.ask("write", **SCENARIO)
    load = Load(witness, node, sha256s=written["sha256s"])
    before = stored(node)
    writing = Background(
        victim, "load-write", kind="mla", layout="layer_first", seconds=LOAD_SECONDS
    )
    until(lambda: stored(node) > before + 2 * PAGES, "the victim writes")
    victim.kill()
    with pytest.raises((AssertionError, OSError)):
        writing.result()
    done = load.stop()
    assert (done["wrong"], done["empty_rounds"]) == (0, 0)
    assert node.popen.poll() is None
    until(
        lambda: all("victim" not in str(engine) for engine in node.status()["engines"]),
        "the dead engine is attached no more",
    )


@pytest.mark.node
@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"socket": "/usr"}, '"socket" = "/usr" leads to no node of PeerCache'),
        ({"sockte": "/x"}, 'extra-config "sockte" = "/x" is an unknown key: did you mean "socket"'),
        ({"socket": 5}, 'extra-config "socket" = 5 is not an absolute path'),
        ({"socket": "/x", "gid_index": 3}, 'extra-config "gid_index" = 3'),
        ({}, "extra-config names no node"),
    ],
    ids=["folder", "unknown", "type", "refused", "missing"],
)
def test_a_wrong_configuration_ends_the_server_with_the_reason(
    cluster: Cluster, extra: dict[str, object], message: str
) -> None:
    engine = cluster.bare_engine("wrong", extra, wait=False)
    assert engine.popen.wait(HANG_SECONDS) == 1
    assert message in engine.output()

"""Faults under real processes: bounded calls, no wrong byte, and hits return."""

from __future__ import annotations

import signal
import threading
import time
from typing import Any

import pytest

from .. import wrong_bytes
from .conftest import Cluster
from .processes import Engine

# A dead peer costs a call at most 1 s, an own node that just starts the client's time-out of 1.5 s;
# the rest is for a loaded machine and SGLang around the call.
LONGEST_CALL_SECONDS = 1.5 + 0.3
SCENARIO: dict[str, Any] = {"kind": "mha", "layout": "page_first", "seed": 7, "pages": 100}


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
        load = Background(reader, "load", **SCENARIO, seconds=8, sha256s=written["sha256s"])
        time.sleep(2)
        far.signal(how)
        done = load.result()
        assert done["wrong"] == 0
        assert done["full_rounds"] > 0
        assert done["empty_rounds"] > 0
        assert done["max_call_seconds"] <= LONGEST_CALL_SECONDS
        # The engine of the lost node goes on as well, and hits return with the node.
        if how is signal.SIGSTOP:
            far.signal(signal.SIGCONT)
        else:
            far.popen.wait()
            far = cluster.restart(far)
            assert writer.ask("write", **SCENARIO)["backup"] == 1600
        deadline = time.monotonic() + 15
        while reader.ask("read", **SCENARIO)["prefetched"] < 1600:
            assert time.monotonic() < deadline, "hits did not return"
        final = reader.ask("load", **SCENARIO, seconds=1, sha256s=written["sha256s"])
        assert (final["wrong"], final["empty_rounds"]) == (0, 0)
    finally:
        cluster.stop()


@pytest.mark.node
def test_an_engine_survives_its_own_nodes_restart(cluster: Cluster) -> None:
    node = cluster.node("solo")
    engine = cluster.engine("engine", node)
    written = engine.ask("write", **SCENARIO)
    load = Background(engine, "load", **SCENARIO, seconds=6, sha256s=written["sha256s"])
    time.sleep(1.5)
    node.kill()
    time.sleep(1)
    node = cluster.restart(node)
    done = load.result()
    assert done["wrong"] == 0
    assert done["full_rounds"] > 0
    assert done["max_call_seconds"] <= LONGEST_CALL_SECONDS
    assert engine.ask("write", **SCENARIO)["sha256s"] == written["sha256s"]
    read = engine.ask("read", **SCENARIO)
    wrong_bytes.check_pages(read["sha256s"], written["sha256s"])
    assert read["prefetched"] == 1600
    # The store that was attached all the time follows its node as well.
    assert engine.popen.poll() is None


@pytest.mark.node
def test_an_engine_killed_in_the_middle_of_a_set_harms_nobody(cluster: Cluster) -> None:
    node = cluster.node("shared")
    victim = cluster.engine("victim", node)
    witness = cluster.engine("witness", node)
    written = witness.ask("write", **SCENARIO)
    load = Background(witness, "load", **SCENARIO, seconds=6, sha256s=written["sha256s"])
    writing = Background(victim, "load-write", kind="mla", layout="layer_first", seconds=30)
    time.sleep(3)
    victim.kill()
    with pytest.raises((AssertionError, OSError)):
        writing.result()
    done = load.result()
    assert (done["wrong"], done["empty_rounds"]) == (0, 0)
    assert node.popen.poll() is None
    deadline = time.monotonic() + 10
    while any("victim" in str(engine) for engine in node.status()["engines"]):
        assert time.monotonic() < deadline, "the dead engine is still attached"
        time.sleep(0.1)


@pytest.mark.node
@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"socket": "/usr"}, '"socket" = "/usr" leads to no node that takes this engine'),
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
    assert engine.popen.wait(60) == 1
    assert message in engine.output()

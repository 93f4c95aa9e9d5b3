"""Of the node in this process, what needs none: the options that it is started with."""

from __future__ import annotations

import os
import socket
from types import SimpleNamespace

import pytest
from peercache.core import embedded


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """The options of every node that is started."""
    calls: list[dict[str, str]] = []

    def start_node(arguments: dict[str, str]) -> tuple[object, str]:
        calls.append(arguments)
        node = SimpleNamespace(
            ready=True, socket=arguments["socket"], peer_port=1, http_port=2, close=lambda: None
        )
        return node, ""

    fake = SimpleNamespace(has_node=True, start_node=start_node)
    monkeypatch.setattr(embedded, "load", lambda: fake)
    return calls


def start_with(options: dict[str, str]) -> None:
    embedded.acquire(options)
    embedded.release()


def test_a_node_is_named_after_host_and_process(
    started: list[dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(embedded.NODE_VARIABLE, raising=False)
    start_with({"http-port": "0"})
    assert started[0]["node-id"] == f"{socket.gethostname()}.{os.getpid()}"


def test_in_a_pod_a_node_is_named_after_the_pod(
    started: list[dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(embedded.NODE_VARIABLE, "serving.engine-0.main")
    start_with({"http-port": "0"})
    assert started[0]["node-id"] == f"serving.engine-0.main.{os.getpid()}"


def test_an_option_wins(started: list[dict[str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(embedded.NODE_VARIABLE, "serving.engine-0.main")
    start_with({"http-port": "0", "node-id": "mine"})
    assert started[0]["node-id"] == "mine"

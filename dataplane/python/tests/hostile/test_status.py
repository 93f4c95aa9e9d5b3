"""What a node tells strangers of itself and others at /v1/status."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pytest

from ..fleet.network import Host, Network, inside
from ..fleet.nodes import HTTP_PORT, Fleet
from .conftest import Table

PAGES_EACH = 16
HIDDEN = ('"config"', '"pid"', '"uid"', '"address', '"events"', '"machine"', '"reads_from"')


@dataclass(frozen=True)
class Asker:
    """Somebody who reaches a node's port: from another host, or from its own."""

    who: str
    other_host: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)


STRANGERS = [
    Asker("another host", other_host=True),
    Asker("another host says it is this one", True, {"Host": f"127.0.0.1:{HTTP_PORT}"}),
    Asker("a proxy on this host, X-Forwarded-For", headers={"X-Forwarded-For": "127.0.0.1"}),
    Asker("a proxy on this host, Forwarded", headers={"Forwarded": "for=127.0.0.1"}),
    Asker("a page in a browser on this host, by its name", headers={"Host": "evil.example"}),
]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    network = Network()
    hosts = [network.host(f"h{i}") for i in range(2)]
    made = Fleet(tmp_path_factory.mktemp("status"), network, hosts, PAGES_EACH)
    try:
        made.start()
        made.wait_full()  # each reads from the other
        yield made
    finally:
        made.stop()


def ask(node: Host, asker: Host, headers: Mapping[str, str]) -> str:
    """/v1/status as its text."""

    def connect() -> socket.socket:
        return socket.create_connection((node.address, HTTP_PORT), 5)

    connection = http.client.HTTPConnection(node.address, HTTP_PORT)
    connection.sock = inside(asker.namespace, connect)
    try:
        connection.request("GET", "/v1/status", headers=dict(headers))
        answer = connection.getresponse()
        assert answer.status == 200
        return answer.read().decode()
    finally:
        connection.close()


@pytest.mark.parametrize("stranger", STRANGERS, ids=[asker.who for asker in STRANGERS])
def test_strangers_are_not_told_who_and_where(fleet: Fleet, table: Table, stranger: Asker) -> None:
    """What a stranger reads in /v1/status names no process, no address and no setting."""
    own, other = fleet.hosts
    whole = json.loads(ask(own, own, {}))
    assert whole["asker"] == "own_machine"
    assert whole["engines"][0]["pid"] > 0
    assert whole["members"][1]["address"]
    assert whole["config"]
    assert whole["events"] is not None
    assert whole["activity"]["machine"]

    text = ask(own, other if stranger.other_host else own, stranger.headers)
    told = json.loads(text)
    addresses = [f'"{host.address}' for host in fleet.hosts]
    secret = (*HIDDEN, whole["engines"][0]["name"], *addresses)
    shown = [word for word in secret if word in text]
    table(f"/v1/status: {stranger.who}", f"0 of {len(secret)} told", f"{len(shown)} told")
    assert not shown, text
    assert told["asker"] == "stranger"
    assert len(told["engines"]) == len(whole["engines"])
    assert [member["id"] for member in told["members"]] == [m["id"] for m in whole["members"]]

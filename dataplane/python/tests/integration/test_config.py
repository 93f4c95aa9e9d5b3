"""Fields of a PeerCacheCluster reach a node: what the operator makes of them, and /v1/status."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ..conftest import ROOT
from .processes import Process, binary, http

MACHINE = ".".join(["m" * 63] * 4)[:253]  # the longest name that Kubernetes allows
# A Go test of the operator compares these files with what it renders.
FILES = ROOT / "operator" / "plan" / "testdata" / "roundtrip"
# Of this test alone, so that the ports of the object are free on it.
ADDRESS = "127.41.99.8"


def environment() -> dict[str, str]:
    lines = (FILES / "environment").read_text().splitlines()
    return {
        name: value.replace("$(NODE_NAME)", MACHINE)
        for name, value in (line.split("=", 1) for line in lines)
    }


def expected(spec: dict[str, Any], metadata: dict[str, str]) -> dict[str, object]:
    """The node's options by field of the object. But for the transport, none has its default."""
    (rail,) = spec["rails"]
    timing = spec["timing"]
    return {
        "cluster": f"{metadata['namespace']}/{metadata['name']}",
        "tenant": metadata["namespace"],
        "node-id": f"{MACHINE}.numa{rail['numaNode']}",
        "group": f"numa{rail['numaNode']}",
        "numa-node": str(rail["numaNode"]),
        "device-name": rail["hostNetwork"]["device"],
        "transport": spec["transport"].lower(),
        "pool-size": spec["memory"]["pool"],
        "huge-pages": {"None": "off"}[spec["memory"]["hugePages"]],
        "drain-budget": spec["update"]["drainBudget"],
        "peer-port": spec["discovery"]["port"],
        "advertise-addr": spec["discovery"]["interface"],
        "http-port": spec["monitoring"]["port"],
        "lease-ms": timing["leaseMilliseconds"],
        "peer-timeout-ms": timing["peerTimeoutMilliseconds"],
        "heartbeat-ms": timing["heartbeatMilliseconds"],
        "member-ttl-ms": timing["memberTTLMilliseconds"],
    }


@pytest.mark.node
def test_fields_of_the_object_are_in_the_status(tmp_path: Path) -> None:
    document = json.loads((FILES / "cluster.json").read_text())
    fields = expected(document["spec"], document["metadata"])
    peers, status = document["spec"]["discovery"]["port"], document["spec"]["monitoring"]["port"]
    token, secret = tmp_path / "token", tmp_path / "secret"
    for file in (token, secret):
        file.write_text("of at least 16 bytes")
    tenants = tmp_path / "tenants"
    tenants.mkdir()
    # What only machines of a cluster have: sockets' folder, a name for discovery hosts, a Secret.
    here = {
        "bind-addr": ADDRESS,
        "discovery-addr": f"{ADDRESS}:{peers}",
        "socket": str(tmp_path / "node.sock"),
        "auth-token-file": str(token),
        "tenant-secret-file": str(secret),
        "tenants-dir": str(tenants),
        "bypass-file": str(tmp_path / "bypass"),
    }
    command = [str(binary()), f"--config={FILES / 'peercached.toml'}"]
    command += [f"--{name}={value}" for name, value in here.items()]
    node = Process("node", tmp_path, command, environment())
    try:
        node.wait_for(f"http://{ADDRESS}:{status}/readyz")
        shown = http(f"http://{ADDRESS}:{status}/v1/status")["config"]
    finally:
        assert node.stop() == 0, node.output()
    assert {name: shown[name] for name in fields} == fields
    assert {name: shown[name] for name in here} == here
    lines = (FILES / "peercached.toml").read_text().splitlines()
    written = {line.split(" = ")[0] for line in lines if not line.startswith("#")}
    written |= {name.removeprefix("PEERCACHE_").lower().replace("_", "-") for name in environment()}
    assert written <= fields.keys() | here.keys(), (
        "options that the operator writes and nobody compares"
    )

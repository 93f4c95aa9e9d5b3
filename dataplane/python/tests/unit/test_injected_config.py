"""What the operator's webhook writes is what this package reads.

Both sides have their own tests; here the pods that the webhook's tests expect meet the parser.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from peercache.core.config import parse

PODS = Path(__file__).parents[4] / "operator" / "inject" / "testdata"


def written() -> Iterator[tuple[str, dict[str, object]]]:
    """Every extra-config in PEERCACHE_SGLANG_ARGS, which holds it as one word."""
    for pod in sorted(PODS.glob("*.out.yaml")):
        if not any(f"peercache.io/{key}: kv" in pod.read_text() for key in ("injected", "partly")):
            continue
        for line in pod.read_text().splitlines():
            word = line.strip()
            if word.startswith('{"backend_name":"peercache"') and word.endswith("}"):
                yield pod.name.removesuffix(".out.yaml"), json.loads(word)


CONFIGS = list(written())


@pytest.mark.parametrize(("name", "extra"), CONFIGS, ids=[name for name, _ in CONFIGS])
def test_parses(name: str, extra: dict[str, object]) -> None:
    config = parse(extra, {})
    assert config.shm
    assert config.interface_v1
    if name.startswith("embedded"):
        assert config.node_options is not None
        namespace, _, cluster = config.node_options["cluster"].partition("/")
        assert (namespace in ("serving", "caches"), cluster) == (True, "kv")
        # A token can be mounted in the cluster's own namespace alone.
        trust = {"auth-token-file": "/etc/peercache-token/token", "insecure-peers": "on"}
        wanted = "auth-token-file" if namespace == "serving" else "insecure-peers"
        assert {name: config.node_options.get(name) for name in trust} == {
            name: trust[name] if name == wanted else None for name in trust
        }
        assert config.node_options["discovery-addr"].startswith("kv-discovery.")
        assert config.node_options["heartbeat-ms"] == "500"
        assert config.node_options["member-ttl-ms"] == "3000"
        # The whole pod's: this is one rank of one.
        assert int(config.node_options["pool-size"]) in (8 << 30, 64 << 30)
    else:
        assert config.socket.startswith("/run/peercache/")


def test_all_modes_are_among_them() -> None:
    names = [name for name, _ in CONFIGS]
    assert len(names) > 60
    assert any(name.startswith("sidecar") for name in names)
    assert {"embedded", "embedded-tls", "embedded-rdma"} <= set(names)

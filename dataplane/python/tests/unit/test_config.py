"""The extra-config: every key known, refused by name, or an error that says what to write."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from peercache.core import config, values
from peercache.core.config_keys import KEYS, REFUSED, SGLANG_KEYS, Scope

SOCKET = {"socket": "/run/peercache/default.sock"}
EMBEDDED = {"discovery_addr": "10.0.0.1:31998"}
SGLANG = {
    "backend_name": "peercache",
    "module_path": "peercache.store",
    "class_name": "PeerCacheStore",
}


def parse(extra: dict[str, object], environ: dict[str, str] | None = None, ranks: int = 1):
    return config.parse(extra, environ or {}, config.EngineRank("tp0", ranks))


def test_socket_mode_takes_the_injected_configuration() -> None:
    parsed = parse({**SGLANG, **SOCKET, "interface_v1": 1, "allocator": "shm", "tag": "blue"})
    assert parsed == config.StoreConfig(
        socket="/run/peercache/default.sock", tag="blue", interface_v1=True, shm=True
    )


def test_the_socket_may_come_from_the_environment() -> None:
    parsed = parse(SGLANG, {"PEERCACHE_SOCKET": "/run/peercache/numa0.sock"})
    assert parsed.socket == "/run/peercache/numa0.sock"
    assert parsed.node_options is None


@pytest.mark.parametrize(
    ("tag", "scope", "scoped"),
    [
        ("run-7", "team-a", "team-a/run-7"),
        ("team-a/run-7", "team-a", "team-a/run-7"),  # as users have written it
        ("team-ab/run-7", "team-a", "team-a/team-ab/run-7"),
        ("run-7", "", "run-7"),
        ("", "team-a", ""),  # the weights are known: nothing keeps namespaces apart
    ],
)
def test_a_tag_is_of_its_scope(tag: str, scope: str, scoped: str) -> None:
    assert parse({**SOCKET, "tag": tag}, {"PEERCACHE_TAG_SCOPE": scope}).tag == scoped


def test_an_explicit_choice_wins_over_the_environment() -> None:
    environ = {"PEERCACHE_SOCKET": "/run/peercache/default.sock"}
    assert parse({"socket": "/a.sock"}, environ).socket == "/a.sock"
    assert parse(EMBEDDED, environ).socket == ""


def test_a_bad_socket_in_the_environment_names_the_variable() -> None:
    with pytest.raises(config.ConfigError, match=r'"PEERCACHE_SOCKET" = "relative.sock"'):
        parse({}, {"PEERCACHE_SOCKET": "relative.sock"})


def test_the_configuration_of_the_original_works_embedded() -> None:
    parsed = parse(
        {
            **SGLANG,
            "discovery_addr": "10.0.0.1:31998",
            "protocol": "rdma",
            "device_name": "mlx5_0",
            "global_segment_size": "4gb",
        },
        ranks=2,
    )
    assert parsed.node_options == {
        "discovery-addr": "10.0.0.1:31998",
        "transport": "auto",
        "device-name": "mlx5_0",
        "pool-size": str(2 << 30),
    }
    assert parsed.notes == (
        '"protocol" and "device_name" ask for RDMA: pages travel over TCP where the node has none',
    )


def test_every_embedded_key_reaches_the_node() -> None:
    parsed = parse(
        {
            **EMBEDDED,
            "protocol": "tcp",
            "metrics_port": 9100,
            "metrics_enabled": False,
            "node_id": "auto",
            "vnodes": 64,
            "local_hostname": "10.0.0.7",
            "control_bind_host": "10.0.0.7",
            "control_port": 31998,
            "heartbeat_interval": 2.0,
            "member_ttl": 6,
            "lease_ms": 500,
            "peer_timeout_ms": 700,
            "huge_pages": "2Mi",
            "eviction": "s3fifo",
            "cluster": "blue",
            "tenant": "team-a",
            "tenant_secret_file": "/etc/tenant-secret",
            "auth_token_file": "/etc/token",
            "insecure_peers": True,
            "tls_cert_file": "/etc/tls/tls.crt",
            "tls_key_file": "/etc/tls/tls.key",
            "tls_ca_file": "/etc/tls/ca.crt",
            "tls_peer_name": "kv.example",
            "log_level": "debug",
            "mode": "p2p",
            "write_policy": "local",
            "role": "auto",
            "disk_enabled": False,
            "metrics_dashboard": False,
        }
    )
    assert parsed.node_options == {
        "discovery-addr": "10.0.0.1:31998",
        "transport": "tcp",
        "http-port": "9100",
        "http": "off",
        "vnodes": "64",
        "advertise-addr": "10.0.0.7",
        "bind-addr": "10.0.0.7",
        "peer-port": "31998",
        "heartbeat-ms": "2000",
        "member-ttl-ms": "6000",
        "lease-ms": "500",
        "peer-timeout-ms": "700",
        "huge-pages": "2Mi",
        "eviction": "s3fifo",
        "cluster": "blue",
        "tenant": "team-a",
        "tenant-secret-file": "/etc/tenant-secret",
        "auth-token-file": "/etc/token",
        "insecure-peers": "on",
        "tls-cert-file": "/etc/tls/tls.crt",
        "tls-key-file": "/etc/tls/tls.key",
        "tls-ca-file": "/etc/tls/ca.crt",
        "tls-peer-name": "kv.example",
        "log-level": "debug",
    }
    assert parsed.notes == ()


def test_each_rank_has_a_folder_and_its_share_of_the_disk() -> None:
    def disk(name: str = "tp0", count: int = 1, **keys: object) -> dict[str, str]:
        rank = config.EngineRank(name, count)
        options = config.parse({**EMBEDDED, **keys}, {}, rank).node_options or {}
        return {flag: value for flag, value in options.items() if flag.startswith("disk-")}

    assert disk() == {}
    assert disk(disk_enabled=False, disk_path="/data", disk_size="8gb") == {}
    assert disk(disk_enabled=True) == {
        "disk-path": "/data/peercache/tp0",
        "disk-size": str(100 << 30),
    }
    assert disk("tp3", 4, disk_path="/nvme0/,/nvme1", disk_size="8gb", disk_write_budget="3") == {
        "disk-path": "/nvme0/tp3,/nvme1/tp3",
        "disk-size": str(2 << 30),
        "disk-write-budget": "3",
    }


def test_each_rank_has_a_name_of_its_own() -> None:
    def name(rank: config.EngineRank) -> str:
        options = config.parse({**EMBEDDED, "node_id": "mine"}, {}, rank).node_options or {}
        return options["node-id"]

    assert name(config.EngineRank("tp0", 1)) == "mine"
    assert [name(config.EngineRank(f"pp{i}-tp0", 2)) for i in range(2)] == [
        "mine.pp0-tp0",
        "mine.pp1-tp0",
    ]


def test_sglangs_own_keys_are_left_alone() -> None:
    extra = {**SOCKET, **{name: object() for name in SGLANG_KEYS}}
    assert parse(extra).socket == SOCKET["socket"]


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({}, "names no node"),
        ({**SOCKET, **EMBEDDED}, r'"socket" = .* is given together with "discovery_addr"'),
        ({**SOCKET, "sokcet": "/x"}, r'"sokcet" = "/x" is an unknown key: did you mean "socket"'),
        ({**SOCKET, "zzz": 1}, r'"zzz" = 1 is an unknown key: known keys: .*\bsocket\b'),
        ({"socket": "run/x.sock"}, r'"socket" = "run/x.sock" is not an absolute path'),
        ({"socket": 7}, r'"socket" = 7 is not an absolute path'),
        ({"socket": "/" + "x" * 200}, r"at most 107 bytes"),
        ({**SOCKET, "interface_v1": "yes"}, r'"interface_v1" = "yes" is not a boolean: write true'),
        ({**SOCKET, "allocator": "mooncake"}, r'"allocator" = "mooncake" .*"shm", "default"'),
        ({**SOCKET, "timeout_ms": "fast"}, r'"timeout_ms" = "fast" is not an integer of 100'),
        ({**SOCKET, "timeout_ms": True}, r'"timeout_ms" = true is not an integer'),
        ({**SOCKET, "timeout_ms": 5}, r'"timeout_ms" = 5 is not an integer of 100..60000'),
        ({**SOCKET, "staging_size": "4G"}, r'"staging_size" = "4G" is not a size: write bytes'),
        ({**SOCKET, "staging_size": 0}, r'"staging_size" = 0 is not a size'),
        ({**SOCKET, "tag": 3}, r'"tag" = 3 is not a string'),
        ({**SOCKET, "tag": "a", "prefix": "b"}, r'"prefix" = "b" differs from "tag"'),
        ({**SOCKET, "metrics_port": 1}, r'"metrics_port" = 1 configures a node.*"discovery_addr"'),
        ({**EMBEDDED, "protocol": "udp"}, r'"protocol" = "udp".*"tcp", "auto", "rdma"'),
        ({**EMBEDDED, "mode": "hybrid"}, r'"mode" = "hybrid" is not supported.*write "p2p"'),
        ({**EMBEDDED, "disk_size": "much"}, r'"disk_size" = "much" is not a size'),
        ({**EMBEDDED, "gid_index": 3}, r'"gid_index" = 3 .*chosen by address'),
        ({**EMBEDDED, "device_name": 3}, r'"device_name" = 3 is not a list of names'),
        ({**EMBEDDED, "heartbeat_interval": "2s"}, r'"heartbeat_interval" = "2s" is not a number'),
        ({**EMBEDDED, "heartbeat_interval": True}, r'"heartbeat_interval" = true is not a number'),
        ({**EMBEDDED, "discovery_addr": ""}, r'"discovery_addr" = "" is not a non-empty string'),
        ({**EMBEDDED, "control_port": 70000}, r'"control_port" = 70000 is not an integer'),
    ],
)
def test_wrong_configurations_name_key_value_and_remedy(
    extra: dict[str, object], message: str
) -> None:
    with pytest.raises(config.ConfigError, match=message):
        parse(extra)


def test_all_wrong_keys_are_told_at_once() -> None:
    with pytest.raises(config.ConfigError) as caught:
        parse({**EMBEDDED, "gid_index": 3, "ib_port": 1, "control_port": 70000, "zzz": 1})
    said = str(caught.value).splitlines()
    assert said[0] == "the extra-config has 4 errors:"
    for line, name in zip(said[1:], ("gid_index", "ib_port", "control_port", "zzz"), strict=True):
        assert line.startswith(f'  - extra-config "{name}" = ')
    with pytest.raises(config.ConfigError, match="has 2 errors:") as caught:
        parse({**SOCKET, "metrics_port": 1, "vnodes": 64})
    assert str(caught.value).count("configures a node") == 2


def test_a_key_of_another_sglang_gets_no_wrong_guess() -> None:
    for name in ("prefetch_policy", "write_back_threshold", "storage_timeout"):
        with pytest.raises(config.ConfigError, match="is an unknown key: known keys: "):
            parse({**SOCKET, name: 1})


def test_the_originals_dashboard_is_accepted() -> None:
    assert parse({**EMBEDDED, "metrics_dashboard": True}).node_options == {
        "discovery-addr": "10.0.0.1:31998"
    }


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_keys_without_a_meaning_are_refused_by_name(name: str) -> None:
    with pytest.raises(config.ConfigError, match=rf'"{name}" = 1 is not a key of this version: \w'):
        parse({**EMBEDDED, name: 1})


def test_all_keys_of_the_original_are_decided_on() -> None:
    original = [
        "discovery_addr",
        "mode",
        "write_policy",
        "role",
        "vnodes",
        "directory_replicas",
        "directory_read_cache_ttl",
        "prefix",
        "node_id",
        "interface_v1",
        "protocol",
        "device_name",
        "device_names",
        "ib_port",
        "gid_index",
        "max_channels_per_peer",
        "rdma_bind_host",
        "rdma_port",
        "global_segment_size",
        "disk_enabled",
        "disk_path",
        "disk_size",
        "local_hostname",
        "control_bind_host",
        "control_port",
        "meta_bind_host",
        "heartbeat_interval",
        "member_ttl",
        "max_masters",
        "metrics_enabled",
        "metrics_bind_host",
        "metrics_port",
        "metrics_dashboard",
    ]
    assert not [name for name in original if name not in KEYS and name not in REFUSED]
    assert not set(KEYS) & set(REFUSED)


def test_node_options_exist_in_peercached() -> None:
    source = (Path(__file__).parents[3] / "src" / "node" / "config" / "config.cc").read_text()
    known = set(re.findall(r'^\s*\{"([a-z-]+)",', source, re.MULTILINE))
    flags = {key.flag for key in KEYS.values() if key.flag}
    assert flags <= known


@given(
    st.dictionaries(
        st.one_of(st.sampled_from(sorted([*KEYS, *REFUSED])), st.text(max_size=8)),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=200),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(st.text(max_size=3), inner, max_size=3)
            ),
            max_leaves=5,
        ),
        max_size=6,
    )
)
def test_anything_is_a_configuration_or_a_config_error(extra: dict[str, object]) -> None:
    try:
        parsed = parse(extra)
    except config.ConfigError:
        pass
    else:
        assert bool(parsed.socket) != (parsed.node_options is not None)


@given(st.integers(1, 1 << 20), st.sampled_from(["", "b", "kb", "Ki", "MiB", "gb", "TiB"]))
def test_sizes_are_powers_of_1024(number: int, unit: str) -> None:
    shift = {"": 0, "b": 0, "k": 10, "m": 20, "g": 30, "t": 40}[unit[:1].lower()]
    assert values.size("x", f"{number}{unit}") == number << shift
    assert values.size("x", number) == number


def test_scopes_are_used() -> None:
    assert {key.scope for key in KEYS.values()} == set(Scope)

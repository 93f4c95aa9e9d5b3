"""The keys of the extra-config: the one table that the parser, the messages and the docs share.

It also holds the keys of the original PeerCache, which its users have in their configurations. Keys
that have a meaning here are accepted; the others are refused by name, each with its reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from peercache.core.values import (
    Parser,
    boolean,
    integer,
    long_text,
    names,
    on_off,
    one_of,
    only,
    seconds,
    size,
    socket_path,
    text,
    unless,
)


class Scope(Enum):
    """Where a key has a meaning."""

    ANY = "any"
    SOCKET = "socket"  # the node runs already
    EMBEDDED = "embedded"  # the node runs in this process


@dataclass(frozen=True)
class Key:
    parse: Parser
    scope: Scope
    flag: str = ""  # the option of peercached that it sets
    help: str = ""


_PORT = integer(0, 65535)
_RAILS = "RDMA ports of this node: mlx5_0,mlx5_1:2; default: all usable"

KEYS: Mapping[str, Key] = {
    # SGLang reads these to find the backend
    "backend_name": Key(text, Scope.ANY, help="any name; SGLang logs it"),
    "module_path": Key(text, Scope.ANY, help="peercache.store"),
    "class_name": Key(text, Scope.ANY, help="PeerCacheStore"),
    "interface_v1": Key(boolean, Scope.ANY, help="zero copy; recommended"),
    "allocator": Key(one_of("shm", "default"), Scope.ANY, help="shm shares the host pool"),
    # the engine's side
    "socket": Key(socket_path, Scope.SOCKET, help="Unix socket of the node on this machine"),
    "tag": Key(text, Scope.ANY, help="separates pages that would otherwise be shared"),
    "prefix": Key(text, Scope.ANY, help="the original's name of tag"),
    # Choose more than the node's peer_timeout_ms: else a slow peer looks like a node that hangs.
    "timeout_ms": Key(integer(100, 60_000), Scope.ANY, help="longest stall of a call"),
    "prefill_tokens_per_second": Key(
        integer(0, 100_000_000), Scope.ANY, help="of this engine; 0: wait for slow pages, too"
    ),
    "staging_size": Key(size, Scope.ANY, help="ring for pools that are not shared memory"),
    # the node in this process
    "discovery_addr": Key(long_text, Scope.EMBEDDED, "discovery-addr", "host:port[,host:port]"),
    "protocol": Key(
        one_of("tcp", "auto", rdma="auto"), Scope.EMBEDDED, "transport", "rdma means auto"
    ),
    "device_name": Key(unless("", names), Scope.EMBEDDED, "device-name", _RAILS),
    "device_names": Key(unless("", names), Scope.EMBEDDED, "device-name", _RAILS),
    "global_segment_size": Key(size, Scope.EMBEDDED, "pool-size", "divided by the ranks"),
    "metrics_enabled": Key(on_off, Scope.EMBEDDED, "http", "whether to serve metrics at all"),
    "metrics_port": Key(_PORT, Scope.EMBEDDED, "http-port", "metrics and status; 0: any"),
    "node_id": Key(
        unless("auto", text), Scope.EMBEDDED, "node-id", "with the rank; default: host name and pid"
    ),
    "vnodes": Key(integer(1, 4096), Scope.EMBEDDED, "vnodes", "points on the ring"),
    "local_hostname": Key(text, Scope.EMBEDDED, "advertise-addr", "or an interface"),
    "control_bind_host": Key(text, Scope.EMBEDDED, "bind-addr", "address to listen on"),
    "control_port": Key(_PORT, Scope.EMBEDDED, "peer-port", "0: any"),
    "heartbeat_interval": Key(seconds(0.05, 60), Scope.EMBEDDED, "heartbeat-ms", "seconds"),
    "member_ttl": Key(seconds(0.2, 600), Scope.EMBEDDED, "member-ttl-ms", "seconds"),
    "lease_ms": Key(integer(10, 60_000), Scope.EMBEDDED, "lease-ms", "life of a record"),
    "peer_timeout_ms": Key(integer(10, 60_000), Scope.EMBEDDED, "peer-timeout-ms"),
    "huge_pages": Key(one_of("auto", "off", "2Mi", "1Gi"), Scope.EMBEDDED, "huge-pages"),
    "eviction": Key(one_of("lru", "s3fifo"), Scope.EMBEDDED, "eviction", "which pages go first"),
    "disk_enabled": Key(boolean, Scope.EMBEDDED, help="keep pages in disk_path, too"),
    "disk_path": Key(long_text, Scope.EMBEDDED, "disk-path", "each rank has a folder in it"),
    "disk_size": Key(size, Scope.EMBEDDED, "disk-size", "divided by the ranks; default: 100gb"),
    "disk_write_budget": Key(
        text, Scope.EMBEDDED, "disk-write-budget", "drive writes a day, bytes a day, unlimited"
    ),
    "cluster": Key(text, Scope.EMBEDDED, "cluster", "nodes of other clusters are refused"),
    "tenant": Key(text, Scope.EMBEDDED, "tenant", "a tenant sees only its own pages"),
    "tenant_secret_file": Key(
        long_text, Scope.EMBEDDED, "tenant-secret-file", "of which tenants' keys are made"
    ),
    "auth_token_file": Key(long_text, Scope.EMBEDDED, "auth-token-file", "shared secret"),
    "insecure_peers": Key(on_off, Scope.EMBEDDED, "insecure-peers", "let strangers be members"),
    "tls_cert_file": Key(long_text, Scope.EMBEDDED, "tls-cert-file", "PEM; peers speak TLS"),
    "tls_key_file": Key(long_text, Scope.EMBEDDED, "tls-key-file", "of the certificate"),
    "tls_ca_file": Key(long_text, Scope.EMBEDDED, "tls-ca-file", "of the peers' certificates"),
    "tls_peer_name": Key(long_text, Scope.EMBEDDED, "tls-peer-name", "DNS name they must carry"),
    "log_level": Key(text, Scope.EMBEDDED, "log-level"),
    # keys of the original, accepted with the one value that this version supports
    "mode": Key(only("p2p", "there is no other topology"), Scope.EMBEDDED),
    "write_policy": Key(only("local", "pages stay on the node that wrote them"), Scope.EMBEDDED),
    "role": Key(only("auto", "all nodes are equal"), Scope.EMBEDDED),
    "metrics_dashboard": Key(boolean, Scope.EMBEDDED, help="the HTTP port always has it"),
}

_ONE_PORT = 'members use one port for everything; set "control_port" and "control_bind_host"'

# Keys of the original that have no meaning here, each with the reason.
REFUSED: Mapping[str, str] = {
    "directory_replicas": "owners publish their records again when a shard is lost; remove the key",
    "directory_read_cache_ttl": 'records live for a lease; set "lease_ms" instead',
    "ib_port": "the port is found by the device's address; remove the key",
    "gid_index": "GIDs are chosen by address, because indexes change; remove the key",
    "max_channels_per_peer": "connections are pooled as needed; remove the key",
    "rdma_bind_host": _ONE_PORT,
    "rdma_port": _ONE_PORT,
    "meta_bind_host": _ONE_PORT,
    "metrics_bind_host": 'the HTTP port listens where members do; set "control_bind_host"',
    "max_masters": 'any number of discovery hosts works; list them in "discovery_addr"',
}

# SGLang reads these itself; some of its callers do not remove them.
SGLANG_KEYS = frozenset(
    {
        "prefetch_threshold",
        "prefetch_timeout_base",
        "prefetch_timeout_per_ki_token",
        "hicache_storage_pass_prefix_keys",
        "tp_lcm_size",
    }
)

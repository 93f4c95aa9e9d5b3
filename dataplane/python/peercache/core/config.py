"""The extra-config of ``--hicache-storage-backend-extra-config``, checked.

Every key is known, refused by name, or an error: a cache that ignores a misspelt key looks healthy
and caches nothing. Errors name the key, the value and what to write instead.

Pure: no SGLang, no torch, no extension.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field

from peercache.core import values
from peercache.core.config_keys import KEYS, REFUSED, SGLANG_KEYS, Scope
from peercache.core.values import ConfigError

__all__ = ["ConfigError", "EngineRank", "StoreConfig", "parse", "parse_of_socket"]

SOCKET_VARIABLE = "PEERCACHE_SOCKET"
# Whose tag it is, where several may choose the same one: in Kubernetes the pod's namespace.
TAG_SCOPE_VARIABLE = "PEERCACHE_TAG_SCOPE"
# "true" keeps this engine from its node, so that engines with a cache can be compared with it.
HOLDOUT_VARIABLE = "PEERCACHE_HOLDOUT"
DEFAULT_TIMEOUT_MS = 1500
DEFAULT_STAGING_BYTES = 64 << 20
# Those of the original PeerCache.
_DISK_PATH = "/data/peercache"
_DISK_SIZE = 100 << 30
# A misspelt key, such as "sokcet", is closer than one of another release of SGLang.
_CLOSE = 0.75


@dataclass(frozen=True)
class EngineRank:
    """One process of an engine. A node of its own runs in it."""

    name: str = "tp0"  # no other process of the engine has it
    count: int = 1  # of all processes of the engine, which share its sizes


@dataclass(frozen=True)
class StoreConfig:
    """The checked extra-config. Exactly one of ``socket`` and ``node_options`` is set."""

    socket: str = ""  # the Unix socket of a node outside this process
    node_options: Mapping[str, str] | None = (
        None  # options of peercached for a node in this process
    )
    tag: str = ""  # with its scope
    holdout: bool = False  # never attaches
    interface_v1: bool = False
    shm: bool = False
    timeout_ms: int = DEFAULT_TIMEOUT_MS
    prefill: int | None = None  # tokens a second; 0: unlimited patience; None: learned
    staging_bytes: int = DEFAULT_STAGING_BYTES
    notes: tuple[str, ...] = field(default=())  # worth a log line


def parse(
    extra: Mapping[str, object], environ: Mapping[str, str], rank: EngineRank | None = None
) -> StoreConfig:
    """Checks an extra-config. All ranks of the engine share its sizes and ``disk_path``. Raises one
    ConfigError for all keys that are wrong by themselves, or for the first that does not suit the
    others.
    """
    parsed, errors = _parse_keys(extra)
    if errors:
        raise ConfigError.of_all(errors)
    host = _choose_host(parsed, environ)
    _refuse_out_of_place(extra, host)
    common = {
        "tag": _scoped(_tag(parsed), environ.get(TAG_SCOPE_VARIABLE, "")),
        "holdout": _holdout(environ.get(HOLDOUT_VARIABLE, "")),
        "interface_v1": parsed.get("interface_v1", False),
        "shm": parsed.get("allocator") == "shm",
        "timeout_ms": parsed.get("timeout_ms", DEFAULT_TIMEOUT_MS),
        "prefill": parsed.get(PREFILL),
        "staging_bytes": parsed.get("staging_size", DEFAULT_STAGING_BYTES),
    }
    if host is Scope.SOCKET:
        path = parsed.get("socket") or values.socket_path(SOCKET_VARIABLE, environ[SOCKET_VARIABLE])
        return StoreConfig(socket=str(path), **common)  # type: ignore[arg-type]
    options = _node_options(parsed, rank or EngineRank())
    return StoreConfig(node_options=options, notes=_notes(extra), **common)  # type: ignore[arg-type]


# What an engine's configuration says of a node that runs already; the rest is SGLang's.
_OF_SOCKET = ("socket", "tag", "timeout_ms", "staging_size")
PREFILL = "prefill_tokens_per_second"


def parse_of_socket(
    given: object, environ: Mapping[str, str], where: str, *more: str
) -> StoreConfig:
    """Checks the object at the key ``where`` of an engine that uses a node outside its process, and
    has the keys ``more``. Raises ConfigError.
    """
    names = (*_OF_SOCKET, *more)
    known = ", ".join(names)
    if not isinstance(given, Mapping):
        raise ConfigError.of(where, given, "is not an object", f"write {{...}} with {known}")
    for name, value in given.items():
        if name not in names:
            raise ConfigError.of(
                f"{where}.{name}", value, "is an unknown key", f"known keys: {known}"
            )
    return parse(given, environ)


def _holdout(value: str) -> bool:
    if value not in ("", "true", "false"):
        raise ConfigError.of(
            HOLDOUT_VARIABLE, value, "is neither true nor false", 'write "true", or remove it'
        )
    return value == "true"


def _parse_keys(extra: Mapping[str, object]) -> tuple[dict[str, object], list[ConfigError]]:
    parsed: dict[str, object] = {}
    errors = []
    for name, value in extra.items():
        if name in SGLANG_KEYS:
            continue
        try:
            parsed[name] = _parse_key(name, value)
        except ConfigError as error:
            errors.append(error)
    return parsed, errors


def _parse_key(name: str, value: object) -> object:
    if name in REFUSED:
        raise ConfigError.of(name, value, "is not a key of this version", REFUSED[name])
    key = KEYS.get(name)
    if key is None:
        close = difflib.get_close_matches(name, KEYS, n=1, cutoff=_CLOSE)
        remedy = (
            f'did you mean "{close[0]}"?' if close else f"known keys: {', '.join(sorted(KEYS))}"
        )
        raise ConfigError.of(name, value, "is an unknown key", remedy)
    return key.parse(name, value)


def _choose_host(parsed: Mapping[str, object], environ: Mapping[str, str]) -> Scope:
    if "socket" in parsed and "discovery_addr" in parsed:
        raise ConfigError.of(
            "socket",
            parsed["socket"],
            'is given together with "discovery_addr"',
            'keep "socket" to use a node that runs on this machine, or "discovery_addr" to start '
            "one in this process",
        )
    if "discovery_addr" in parsed:
        return Scope.EMBEDDED
    if "socket" in parsed or environ.get(SOCKET_VARIABLE):
        return Scope.SOCKET
    raise ConfigError(
        'extra-config names no node: set "socket" to the Unix socket of this machine\'s peercached '
        f'(or {SOCKET_VARIABLE} in the environment), or "discovery_addr" to host:port of any '
        "member to start a node in this process"
    )


def _refuse_out_of_place(extra: Mapping[str, object], host: Scope) -> None:
    errors = [
        ConfigError.of(
            name,
            value,
            "configures a node, but this engine uses one that runs already",
            'remove the key, or give "discovery_addr" instead of "socket" to start a node in '
            "this process",
        )
        for name, value in extra.items()
        if name in KEYS and KEYS[name].scope not in (Scope.ANY, host)
    ]
    if errors:
        raise ConfigError.of_all(errors)


def _tag(parsed: Mapping[str, object]) -> str:
    tag, prefix = parsed.get("tag"), parsed.get("prefix")
    if tag is not None and prefix is not None and tag != prefix:
        raise ConfigError.of("prefix", prefix, f'differs from "tag" {tag!r}', 'give "tag" alone')
    chosen = tag if tag is not None else prefix
    return str(chosen) if chosen is not None else ""


def _scoped(tag: str, scope: str) -> str:
    """A tag of this scope. One that begins with the scope already stays as it is."""
    if not tag or not scope or tag.startswith(f"{scope}/"):
        return tag
    return f"{scope}/{tag}"


def _notes(extra: Mapping[str, object]) -> tuple[str, ...]:
    wants_rdma = [name for name in ("device_name", "device_names") if extra.get(name)]
    if extra.get("protocol") == "rdma":
        wants_rdma.insert(0, "protocol")
    if not wants_rdma or extra.get("protocol") == "tcp":
        return ()
    keys = " and ".join(f'"{name}"' for name in wants_rdma)
    ask = "ask" if len(wants_rdma) > 1 else "asks"
    return (f"{keys} {ask} for RDMA: pages travel over TCP where the node has none",)


def _node_options(parsed: Mapping[str, object], rank: EngineRank) -> dict[str, str]:
    options: dict[str, str] = {}
    origin: dict[str, str] = {}
    for name, value in parsed.items():
        flag = KEYS[name].flag
        if not flag or value is None:
            continue
        if flag in options and options[flag] != str(value):
            raise ConfigError.of(name, value, f'differs from "{origin[flag]}"', "give one of them")
        options[flag] = str(value)
        origin[flag] = name
    if "pool-size" in options:
        options["pool-size"] = str(int(options["pool-size"]) // rank.count)
    # Two members of one name would take each other's place.
    if "node-id" in options and rank.count > 1:
        options["node-id"] += f".{rank.name}"
    return _disk_of_rank(options, parsed.get("disk_enabled"), rank)


def _disk_of_rank(options: dict[str, str], enabled: object, rank: EngineRank) -> dict[str, str]:
    """Each rank has a folder of its own, because only one node can use a folder."""
    if enabled is False or (enabled is None and "disk-path" not in options):
        return {flag: value for flag, value in options.items() if not flag.startswith("disk-")}
    folders = options.get("disk-path", _DISK_PATH).split(",")
    size = int(options.get("disk-size", _DISK_SIZE))
    return {
        **options,
        "disk-path": ",".join(f"{folder.rstrip('/')}/{rank.name}" for folder in folders),
        "disk-size": str(size // rank.count),
    }

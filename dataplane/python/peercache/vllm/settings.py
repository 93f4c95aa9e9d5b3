"""Our part of ``kv_connector_extra_config``: the object under the key ``peercache``.

Every key is known or an error. vLLM's own keys (cpu_bytes_to_use, ...) stay beside it.
"""

from __future__ import annotations

from collections.abc import Mapping

from peercache.core.config import PREFILL, ConfigError, StoreConfig, parse_of_socket

KEY = "peercache"


def parse(extra: Mapping[str, object], environ: Mapping[str, str]) -> StoreConfig:
    """Raises ConfigError, which names the key, the value and the fix."""
    return parse_of_socket(extra.get(KEY, {}), environ, KEY, PREFILL)


def pool_bytes(extra: Mapping[str, object]) -> int:
    """vLLM's ``cpu_bytes_to_use``; 0 where it is not given. Raises ConfigError."""
    given = extra.get("cpu_bytes_to_use", 0)
    if isinstance(given, bool) or not isinstance(given, (int, float)) or given < 0:
        raise ConfigError.of(
            "cpu_bytes_to_use", given, "is not a number of bytes", "write e.g. 4294967296"
        )
    return int(given)

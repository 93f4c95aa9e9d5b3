"""PeerCache for vLLM, in one line of configuration::

    vllm serve MODEL --kv-transfer-config '{"kv_connector": "PeerCacheConnector",
      "kv_connector_module_path": "peercache.vllm", "kv_role": "kv_both",
      "kv_connector_extra_config": {"cpu_bytes_to_use": 4294967296}}'

Engines of a cluster share pages of KV. The connector is vLLM's own OffloadingConnector with
PeerCache as its second tier: vLLM copies KV between the GPU and its host pool, and the node reads
and writes that pool in place. Written against vLLM 0.28 to 0.33. Where it cannot work, because the
release has no tiers or the container no room for the host pool, vLLM starts without a cache, and
its log says why.

connector   what vLLM loads; computes the identity and puts the tier in
tier        vLLM's SecondaryTierManager on a client of the node
identity    what two engines must have in common to share pages
prefill     how fast the engine computes
epoch       when the weights may have changed
host_pool   how large vLLM's host pool can be
cpu         the copies of an engine without a GPU
compat      what differs between releases of vLLM
idle        the connector that caches nothing
settings    our part of kv_connector_extra_config
"""

from __future__ import annotations

import logging
from typing import Any

logger = logging.getLogger(__name__)


def __getattr__(name: str) -> Any:
    # Lazy: vLLM looks the classes up by name, and the pure modules need no vLLM.
    if name == "PeerCacheTier":
        from peercache.vllm.tier import PeerCacheTier

        return PeerCacheTier
    if name == "PeerCacheConnector":
        try:
            from peercache.vllm.connector import PeerCacheConnector
        except ImportError as error:  # this release has no tiers
            import vllm

            logger.warning(
                "PeerCache: this engine works without cache: vLLM %s has no tiered offloading "
                "(%s); use 0.28 or newer",
                getattr(vllm, "__version__", "of unknown version"),
                error,
            )
            from peercache.vllm.idle import IdleConnector

            return IdleConnector
        return PeerCacheConnector
    raise AttributeError(f"module 'peercache.vllm' has no attribute '{name}'")

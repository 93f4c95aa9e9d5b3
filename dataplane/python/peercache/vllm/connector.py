"""PeerCacheConnector: vLLM's OffloadingConnector, told in one line to use PeerCache.

A tier sees the model's name, but neither its weights nor its settings. The connector sees the whole
VllmConfig, so what identifies the KV comes from here.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, MutableMapping
from typing import Any

from vllm.distributed.kv_transfer.kv_connector.v1 import KVConnectorRole
from vllm.distributed.kv_transfer.kv_connector.v1.offloading_connector import OffloadingConnector
from vllm.platforms import current_platform
from vllm.v1.engine.core import EngineCore
from vllm.v1.kv_offload.tiering.spec import TieringOffloadingSpec

from peercache.core.checkpoint import Unidentified
from peercache.core.config import StoreConfig
from peercache.core.digest import clear_tag
from peercache.vllm import epoch, host_pool, settings
from peercache.vllm.epoch import Epoch
from peercache.vllm.identity import Adapters, weights_of
from peercache.vllm.idle import IdleConnector

logger = logging.getLogger(__name__)

_TIER = "PeerCacheTier"


class Engine:
    """What the tier must know about its engine. The scheduler's thread alone uses it."""

    def __init__(self, config: StoreConfig, weights: str) -> None:
        self.settings = config
        self.clear_tag = clear_tag(weights, config.tag)
        self.epoch = Epoch()
        self._adapters = Adapters()
        self._adapter_of: dict[str, str | None] = {}

    def note(self, request: Any) -> None:
        lora = request.lora_request
        if lora is not None:
            self._adapter_of[request.request_id] = self._adapters.identity(lora.lora_path)

    def forget(self, request: str) -> None:
        self._adapter_of.pop(request, None)

    def adapter_of(self, request: str) -> str | None:
        """The identity of the request's LoRA adapter; "" without one, None where it has none."""
        return self._adapter_of.get(request, "")


class PeerCacheConnector(OffloadingConnector):
    def __new__(cls, vllm_config: Any, role: Any, kv_cache_config: Any = None) -> Any:
        reason = _prepare(vllm_config)
        if reason:
            logger.warning("PeerCache: this engine works without cache: %s", reason)
            return IdleConnector(vllm_config, role, kv_cache_config)
        return super().__new__(cls)

    def __init__(self, vllm_config: Any, role: Any, kv_cache_config: Any = None) -> None:
        self._engine: Engine | None = None
        if role == KVConnectorRole.SCHEDULER:
            extra = vllm_config.kv_transfer_config.kv_connector_extra_config
            tier = _tier_of(extra)
            self._engine = Engine(settings.parse(extra, os.environ), tier["weights"])
            tier["engine"] = self._engine
            epoch.watch(EngineCore)
        super().__init__(vllm_config, role, kv_cache_config)

    def on_new_request(self, request: Any) -> None:
        if self._engine is not None:
            self._engine.note(request)
        super().on_new_request(request)

    def reset_cache(self) -> bool | None:
        """A caller that resets the connector's cache must not get a page of before back."""
        done: bool | None = super().reset_cache()
        if self._engine is not None:
            self._engine.epoch.begin("its caches were reset")
        return done

    @classmethod
    def build_prom_metrics(cls, vllm_config: Any, *args: Any, **kwargs: Any) -> Any:
        # In the process of the API server, which has the configuration as the user wrote it.
        if _prepare(vllm_config):
            return IdleConnector.build_prom_metrics(vllm_config, *args, **kwargs)
        return super().build_prom_metrics(vllm_config, *args, **kwargs)


def _prepare(vllm_config: Any) -> str:
    """Completes the user's configuration; returns why this engine cannot cache, or "".

    All processes of the engine do it, and come to the same result. Raises ConfigError for what the
    user wrote wrongly.
    """
    extra: MutableMapping[str, Any] = vllm_config.kv_transfer_config.kv_connector_extra_config
    config = settings.parse(extra, os.environ)
    tier = _tier_of(extra)
    if "weights" in tier:
        return ""
    try:
        weights = weights_of(vllm_config)
    except Unidentified as error:
        if not config.tag:
            return (
                f"its weights cannot be identified ({error}): set peercache.tag in "
                "kv_connector_extra_config to a text that names these weights, the same in all "
                "engines that serve exactly them, and in no others"
            )
        logger.info("PeerCache: the tag %r alone names the weights: %s", config.tag, error)
        weights = ""
    # Each data-parallel rank has a scheduler, and so a pool, of its own.
    pools = getattr(vllm_config.parallel_config, "data_parallel_size_local", 1) or 1
    asked = settings.pool_bytes(extra) or host_pool.DEFAULT_BYTES
    fitting, why = host_pool.fitting_here(asked, pools)
    if not fitting:
        return why
    spec = {"spec_name": TieringOffloadingSpec.__name__}
    if current_platform.is_cpu():
        if "block_size" in extra or "blocks_per_chunk" in extra:
            return "on a CPU a chunk is one block: remove block_size and blocks_per_chunk"
        spec = {"spec_name": "CpuTieringSpec", "spec_module_path": "peercache.vllm.cpu"}
    if why:
        logger.warning("PeerCache: %s", why)
    if "spec_name" not in extra:
        extra.update(spec)
    extra["cpu_bytes_to_use"] = fitting
    tier["weights"] = weights
    if tier not in extra.setdefault("secondary_tiers", []):
        extra["secondary_tiers"].insert(0, tier)
    return ""


def _tier_of(extra: Mapping[str, Any]) -> MutableMapping[str, Any]:
    """Our entry in the configuration, or the one to be."""
    given = (tier for tier in extra.get("secondary_tiers", ()) if tier.get("type") == _TIER)
    return next(given, {"type": _TIER, "module_path": "peercache.vllm"})

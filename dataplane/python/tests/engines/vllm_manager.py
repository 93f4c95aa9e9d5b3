"""vLLM's real TieringOffloadingManager on nodes of PeerCache, without an engine: a program that
reads a JSON object a line and answers with one. It runs in the interpreter that has vLLM, with the
sources of any release first on PYTHONPATH.

  {"do": "make", "name", "socket", ...}   a manager; see Manager.make()
  {"do": "store", "name", "seed", "pages"}
  {"do": "fetch", "name", "seed", "pages", ...}

Pages have two groups of layers in turn, as a hybrid model's. Their bytes follow from their keys.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import sys
import time
from typing import Any

import numpy as np
import vllm
from peercache.vllm import settings
from peercache.vllm.connector import Engine
from vllm.v1.kv_offload import config as offload
from vllm.v1.kv_offload.base import LookupResult, ReqContext, ScheduleEndContext, make_offload_key
from vllm.v1.kv_offload.factory import OffloadingSpecFactory

STEP_SECONDS = 0.005
ROW = 4 * 4096


def with_known_fields(kind: type[Any], **fields: object) -> Any:
    """Of the fields, those that this release has."""
    known = {field.name for field in dataclasses.fields(kind)}
    return kind(**{name: value for name, value in fields.items() if name in known})


@dataclasses.dataclass
class LoRA:
    lora_path: str


@dataclasses.dataclass
class Request:
    request_id: str
    lora_request: LoRA | None


class Manager:
    def __init__(self, name: str, socket: str, weights: str = "w", **given: Any) -> None:
        extra = {"peercache": {"socket": socket, "timeout_ms": given.pop("timeout_ms", 1500)}}
        extra["peercache"].update(given.pop("peercache", {}))
        self.engine = Engine(settings.parse(extra, {}), weights)
        tier = {
            "type": "PeerCacheTier",
            "module_path": "peercache.vllm",
            "weights": weights,
            "engine": self.engine,
        }
        parallel = {
            "rank": 0,
            "world_size": 1,
            "tp_size": 1,
            "pp_size": 1,
            "pcp_size": 1,
            "dcp_size": 1,
            "data_parallel_index": 0,
            "data_parallel_size": 1,
            "data_parallel_rank_local": None,
            "is_parallelism_agnostic": True,
            **given.pop("parallel", {}),
        }
        groups = [
            with_known_fields(
                offload.OffloadingGroupConfig, tokens_per_block=16, layer_names=names, group_id=i
            )
            for i, names in enumerate((("l0", "l1"), ("s0",)))
        ]
        self.name = name
        self.spec = OffloadingSpecFactory.create_spec(
            with_known_fields(
                offload.OffloadingConfig,
                groups=tuple(groups),
                worker_kv_bytes_per_block=ROW,
                enable_kv_cache_events=True,
                extra_config={
                    "spec_name": "TieringOffloadingSpec",
                    "cpu_bytes_to_use": given.pop("bytes", 4 << 20),
                    "secondary_tiers": [tier],
                },
                engine_id=f"contract-{os.getpid()}-{name}",
                model=offload.OffloadingModelConfig(given.pop("model", "m"), "bfloat16"),
                cache=offload.OffloadingCacheConfig(16, 1),
                parallel=offload.OffloadingParallelConfig(**parallel),
                replicated_layout=False,
                canonical_layout=False,
                **given,
            )
        )
        self.manager = self.spec.get_manager()
        self.tier = self.manager.secondary_tiers[0]
        self.requests = 0

    def request(self, lora: str | None = None) -> ReqContext:
        self.requests += 1
        context = ReqContext(f"{self.name}-{self.requests}")
        self.engine.note(Request(context.req_id, LoRA(lora) if lora else None))
        self.manager.on_new_request(context)
        return context

    def rows(self) -> Any:
        return np.asarray(self.manager.primary_tier.get_kv_memoryview())

    def step(self, new: tuple[str, ...] = ()) -> None:
        """The end of a step of the scheduler, and what vLLM's poll between steps would see."""
        self.manager.on_schedule_end(ScheduleEndContext(list(new), []))
        time.sleep(STEP_SECONDS)

    def store(self, keys: list[bytes], lora: str | None = None) -> dict[str, object]:
        """As the connector does when the GPU's blocks have been copied to the host pool."""
        context = self.request(lora)
        out = self.manager.prepare_store(keys, context)
        for key, row in zip(out.keys_to_store, ids(out.store_spec), strict=True):
            fill(self.rows()[row], key)
        self.manager.complete_store(keys, context, True)
        steps = 0
        while self.manager.has_pending_work():
            self.step()
            steps += 1
        self.manager.on_request_finished(context)
        return {"steps": steps, "events": [len(e.keys) for e in self.manager.take_events()]}

    def fetch(
        self,
        keys: list[bytes],
        lora: str | None = None,
        positions: bool = True,
        steps: int = 2000,
        wait_for_file: str = "",
    ) -> dict[str, object]:
        """As the scheduler does for a request that waits: asks in each step until all is known.

        ``wait_for_file``: after the first hit, before the load, names a file and waits until it is
        gone.
        """
        context = self.request(lora)
        if positions and hasattr(context, "set_offload_key_position"):
            for i, key in enumerate(keys):
                context.set_offload_key_position(key, 16 * (i + 1))
        results: list[Any] = []
        step = 0
        for step in range(1, steps + 1):
            results = [self.manager.lookup(key, context) for key in keys]
            if wait_for_file and LookupResult.HIT_PENDING in results:
                with open(wait_for_file, "w"):
                    pass
                while os.path.exists(wait_for_file):
                    time.sleep(STEP_SECONDS)
                wait_for_file = ""
            self.step((context.req_id,) if step == 1 else ())
            if not any(r in (LookupResult.RETRY, LookupResult.HIT_PENDING) for r in results):
                break
        hits = [k for k, r in zip(keys, results, strict=True) if r is LookupResult.HIT]
        right = 0
        if hits:
            found = self.manager.prepare_load(hits, context)
            for key, row in zip(hits, ids(found), strict=True):
                right += bool((self.rows()[row] == content(key, self.rows())).all())
            self.manager.complete_load(hits, context)
        self.manager.on_request_finished(context)
        return {
            "hits": len(hits),
            "right": right,
            "steps": step,
            "open": sum(r in (LookupResult.RETRY, LookupResult.HIT_PENDING) for r in results),
        }

    def reset(self) -> dict[str, object]:
        self.manager.reset_cache()
        if hasattr(self.manager, "on_reset_flushed"):
            self.manager.on_reset_flushed()
        return {}

    def begin_epoch(self) -> dict[str, object]:
        self.engine.epoch.begin("the test says so")
        return {}

    def truncate(self, share: float) -> dict[str, object]:
        """Cuts the file of the host pool off."""
        path = f"/dev/shm/vllm_offload_contract-{os.getpid()}-{self.name}.mmap"
        os.truncate(path, int(self.rows().nbytes * share))
        return {}

    def state(self) -> dict[str, object]:
        return {
            "attached": self.tier.attached,
            "shared": self.tier.shared_bytes,
            "pool": self.rows().nbytes,
            "faults": self.tier.faults.counts(),
        }

    def close(self) -> dict[str, object]:
        self.manager.shutdown()
        return {}


def ids(spec: Any) -> list[int]:
    return [int(i) for i in (spec.chunk_ids if hasattr(spec, "chunk_ids") else spec.block_ids)]


def content(key: bytes, rows: Any) -> Any:
    digest = np.frombuffer(hashlib.sha256(bytes(key)).digest(), np.uint8)
    return np.tile(digest, rows.shape[1] // len(digest)).view(rows.dtype)


def fill(row: Any, key: bytes) -> None:
    digest = np.frombuffer(hashlib.sha256(bytes(key)).digest(), np.uint8)
    row[:] = np.tile(digest, len(row) // len(digest)).view(row.dtype)


def page_keys(seed: str, pages: int) -> list[bytes]:
    hashes = [hashlib.sha256(f"{seed} {i}".encode()).digest() for i in range(pages)]
    return [make_offload_key(h, i % 2) for i, h in enumerate(hashes)]


def main() -> None:
    managers: dict[str, Manager] = {}
    print(json.dumps({"vllm": vllm.__version__}), flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        do, name = order.pop("do"), order.pop("name")
        if "seed" in order:
            order["keys"] = page_keys(order.pop("seed"), order.pop("pages"))
        try:
            if do == "make":
                managers[name] = Manager(name, **order)
                answer = managers[name].state()
            else:
                answer = getattr(managers[name], do)(**order)
        except Exception as error:  # the test says whether that is right
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()

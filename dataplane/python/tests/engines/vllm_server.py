"""vLLM's own OpenAI server on a CPU, on a node of PeerCache or without one."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ..integration.processes import Process, free_port, http, installed_package
from ..patience import HANG_SECONDS

# An engine imports and compiles for a minute of a processor before it answers.
START_SECONDS = 5 * HANG_SECONDS


class Answer:
    """To one prompt: how many of its tokens were cached, and what the model computed."""

    def __init__(self, answer: Any) -> None:
        (choice,) = answer["choices"]
        details = answer["usage"].get("prompt_tokens_details") or {}
        self.cached = int(details.get("cached_tokens") or 0)
        self.computed = (choice["logprobs"]["tokens"], choice["logprobs"]["top_logprobs"])


class Server(Process):
    """Compare ``Answer.computed``, not tokens: wrong KV shows in log-probabilities first."""

    def __init__(
        self,
        name: str,
        folder: Path,
        engines: Path,
        release: str,
        model: Path,
        socket: str | None = None,
        pool: int = 64 << 20,
        lmcache: LMCacheServer | None = None,
    ) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        flags: tuple[str, ...] = ()
        if socket is not None or lmcache is not None:
            used = lmcache.connector() if lmcache else connector(pool)
            flags = ("--kv-transfer-config", json.dumps(used))
        command = [
            str(engines / "venv" / "bin" / "python"),
            *("-m", "vllm.entrypoints.openai.api_server"),
            *("--model", str(model), "--served-model-name", "m"),
            *("--host", "127.0.0.1", "--port", str(self.port)),
            *("--dtype", "bfloat16", "--enforce-eager", "--enable-prompt-tokens-details"),
            *("--max-model-len", "2048", "--max-num-seqs", "4"),
            *flags,
        ]
        path = [engines / "releases" / f"vllm-{release}", installed_package(folder)]
        if lmcache is not None:
            path.append(lmcache.packages)
        env = {
            "PYTHONPATH": os.pathsep.join(map(str, path)),
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
            "TORCHDYNAMO_DISABLE": "1",  # compiling takes longer than all requests of a test
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "VLLM_NO_USAGE_STATS": "1",
            "VLLM_SERVER_DEV_MODE": "1",  # for resets of its caches, and calls of its workers
            "PEERCACHE_SOCKET": socket or "",
        }
        super().__init__(name, folder, command, env)

    def wait(self) -> Server:
        self.wait_for(f"{self.url}/health", START_SECONDS)
        return self

    def ask(self, prompt: list[int], **more: Any) -> Answer:
        request = {
            "model": "m",
            "prompt": prompt,
            "max_tokens": 8,
            "temperature": 0,
            "logprobs": 5,
            "ignore_eos": True,
            **more,
        }
        return Answer(http(f"{self.url}/v1/completions", request))

    def forget(self) -> None:
        """Empties its own caches, but not what the node has."""
        http(f"{self.url}/reset_prefix_cache", {})

    def metric(self, name: str) -> float:
        lines = str(http(f"{self.url}/metrics")).splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(name))


def connector(pool: int) -> dict[str, object]:
    return {
        "kv_connector": "PeerCacheConnector",
        "kv_connector_module_path": "peercache.vllm",
        "kv_role": "kv_both",
        "kv_connector_extra_config": {"cpu_bytes_to_use": pool},
    }


class LMCacheServer(Process):
    """``lmcache server`` with our L2 adapter on a node. Its memory has the name of the server."""

    def __init__(self, name: str, folder: Path, engines: Path, release: str, socket: str) -> None:
        self.packages = engines / "releases" / f"lmcache-{release}"
        self.port, http_port, prometheus_port = free_port(), free_port(), free_port()
        self._health = f"http://127.0.0.1:{http_port}/healthcheck"
        memory = f"{name}-{os.getpid()}"
        self._memory = Path(f"/dev/shm/lmcache_l1_pool_{memory}")
        adapter = {
            "type": "plugin",
            "module_path": "peercache.lmcache",
            "class_name": "PeerCacheL2Adapter",
            "adapter_params": {"socket": socket},
        }
        command = [
            str(engines / "venv" / "bin" / "python"),
            *("-c", "from lmcache.cli.main import main; main()", "server"),
            *("--host", "127.0.0.1", "--port", str(self.port)),
            *("--http-port", str(http_port), "--prometheus-port", str(prometheus_port)),
            *("--chunk-size", "128", "--supported-transfer-mode", "engine_driven"),
            *("--shm-name", memory, "--no-l1-use-lazy", "--l1-size-gb", "0.25"),
            *("--eviction-policy", "LRU", "--l2-adapter", json.dumps(adapter)),
        ]
        path = (self.packages, installed_package(folder))
        env = {"PYTHONPATH": os.pathsep.join(map(str, path)), "LMCACHE_DISABLE_BANNER": "1"}
        super().__init__(name, folder, command, env)

    def wait(self) -> LMCacheServer:
        self.wait_for(self._health, START_SECONDS)
        return self

    def connector(self) -> dict[str, object]:
        address = {"lmcache.mp.host": "tcp://127.0.0.1", "lmcache.mp.port": self.port}
        return {
            "kv_connector": "LMCacheMPConnector",
            "kv_role": "kv_both",
            "kv_connector_extra_config": address,
        }

    def stop(self) -> int:
        status = super().stop()
        self._memory.unlink(missing_ok=True)
        return status

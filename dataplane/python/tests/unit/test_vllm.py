"""The parts of peercache.vllm that need no vLLM."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from peercache.core.checkpoint import Unidentified
from peercache.core.config import ConfigError
from peercache.vllm import epoch, host_pool, identity, settings

MIB = 1 << 20


@pytest.mark.parametrize(
    ("asked", "shm", "limit", "pools", "fitting"),
    [
        (4096, 24000, None, 1, 4096),
        (4096, 64, None, 1, 0),  # a container's default
        (4096, 2048, None, 1, 2048 - 64),
        (4096, 24000, 8192, 1, 2048),
        (4096, 24000, 255, 1, 0),
        (63, 24000, None, 1, 0),
        (4096, 8192 + 64, None, 4, 2048),
        (4096, 24000, 8192, 8, 256),
    ],
)
def test_the_host_pool_fits_in_the_container(
    asked: int, shm: int, limit: int | None, pools: int, fitting: int
) -> None:
    found = host_pool.fitting_bytes(asked * MIB, shm * MIB, limit and limit * MIB, pools)
    assert found == fitting * MIB


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        ({"memory.max": "max"}, None),
        ({"memory.max": "1073741824\n"}, 1 << 30),
        ({"memory/memory.limit_in_bytes": "9223372036854771712"}, None),
        ({"memory/memory.limit_in_bytes": "4096"}, 4096),
        ({}, None),
    ],
)
def test_the_memory_limit_of_either_version_of_cgroups(
    tmp_path: Path, files: dict[str, str], limit: int | None
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert host_pool.memory_limit(tmp_path) == limit


@pytest.mark.parametrize(
    ("extra", "fault"),
    [
        ({"peercache": []}, "is not an object"),
        ({"peercache": {"sokcet": "/x"}}, "known keys: socket, tag"),
        ({"peercache": {"discovery_addr": "a:1"}}, "unknown key"),  # no node in this process
        ({"peercache": {"socket": "relative"}}, "socket"),
        ({"cpu_bytes_to_use": 1}, "names no node"),
    ],
)
def test_settings_that_are_wrong_are_errors(extra: dict[str, Any], fault: str) -> None:
    with pytest.raises(ConfigError, match=fault):
        settings.parse(extra, {})


@pytest.mark.parametrize("given", ["4Gi", -1, None, True, []])
def test_a_pool_of_no_number_of_bytes_is_an_error(given: object) -> None:
    with pytest.raises(ConfigError, match="cpu_bytes_to_use"):
        settings.pool_bytes({"cpu_bytes_to_use": given})
    assert settings.pool_bytes({"cpu_bytes_to_use": 1e9}) == 10**9
    assert settings.pool_bytes({}) == 0


def test_the_webhook_gives_the_socket_by_the_environment() -> None:
    config = settings.parse({"cpu_bytes_to_use": 1}, {"PEERCACHE_SOCKET": "/run/x.sock"})
    assert config.socket == "/run/x.sock"


class Core:
    """The methods of vLLM's EngineCore that can change weights."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def collective_rpc(self, method: Any, *_: Any) -> None:
        self.calls.append(str(method))

    def sleep(self, level: int = 1, mode: str = "abort") -> None:
        self.calls.append(f"sleep {level}")

    def wake_up(self, tags: list[str] | None = None) -> None:
        self.calls.append(f"wake {tags}")


def changed(call: Any) -> bool:
    """Whether a call begins an epoch; it is made in any case."""
    kind = type("Core", (Core,), {})
    epoch.watch(kind)
    epoch.watch(kind)
    core, watched = kind(), epoch.Epoch()
    call(core)
    assert len(core.calls) == 1
    return watched.name != ""


@pytest.mark.parametrize(
    ("call", "changes"),
    [
        (lambda core: core.collective_rpc("reload_weights"), True),
        (lambda core: core.collective_rpc("update_weights", 1, ()), True),
        (lambda core: core.collective_rpc(method="a_method_of_a_trainer"), True),
        (lambda core: core.collective_rpc(print), True),
        (lambda core: core.collective_rpc("profile"), False),
        (lambda core: core.sleep(), False),
        (lambda core: core.sleep(1), False),
        (lambda core: core.sleep(level=2), True),
        (lambda core: core.wake_up(), False),
        (lambda core: core.wake_up(["weights"]), True),
    ],
)
def test_calls_that_may_change_weights_begin_an_epoch(call: Any, changes: bool) -> None:
    assert changed(call) == changes


def test_each_epoch_has_a_name_of_its_own() -> None:
    one, names = epoch.Epoch(), set()
    for _ in range(3):
        one.begin("a test")
        names.add(one.name)
    assert len(names) == 3


class Colour(enum.Enum):
    RED = 1


@dataclass
class Model:
    model: str
    dtype: object = "bfloat16"
    quantization: object = None
    hf_overrides: object = field(default_factory=dict)
    revision: str | None = None
    trust_remote_code: bool = False
    max_model_len: int = 2048
    max_logprobs: int = 20


def config(model: Model, **cache: object) -> Any:
    load = SimpleNamespace(load_format="auto", download_dir=None, model_loader_extra_config={})
    return SimpleNamespace(
        model_config=model,
        load_config=load,
        cache_config=SimpleNamespace(**{"cache_dtype": "auto", **cache}),
        speculative_config=None,
    )


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.bin").write_bytes(b"w" * 8192)
    return str(tmp_path)


def test_settings_that_change_the_kv_change_the_identity(checkpoint: str) -> None:
    plain = identity.weights_of(config(Model(checkpoint)))
    others = [
        config(Model(checkpoint, quantization="fp8")),
        config(Model(checkpoint, dtype=Colour.RED)),
        config(Model(checkpoint, hf_overrides={"rope_theta": 1.0})),
        config(Model(checkpoint), cache_dtype="fp8_e5m2"),
    ]
    assert len({plain, *map(identity.weights_of, others)}) == 5
    assert identity.weights_of(config(Model(checkpoint, max_logprobs=1))) == plain


@pytest.mark.parametrize(
    "given",
    [
        {"hf_overrides": lambda c: c},
        {"hf_overrides": {"x": object()}},
    ],
)
def test_what_has_no_text_has_no_identity(checkpoint: str, given: dict[str, Any]) -> None:
    with pytest.raises(Unidentified, match="Python object"):
        identity.weights_of(config(Model(checkpoint, **given)))


def test_scales_of_the_first_request_have_no_identity(checkpoint: str) -> None:
    with pytest.raises(Unidentified, match="first request"):
        identity.weights_of(config(Model(checkpoint), calculate_kv_scales=True))


def layout(**parallel: Any) -> identity.Layout:
    ranks = {"tp_size": 1, "pp_size": 1, "pcp_size": 1, "dcp_size": 1}
    offloading = SimpleNamespace(
        parallel=SimpleNamespace(**{**ranks, "is_parallelism_agnostic": False, **parallel}),
        replicated_layout=False,
        canonical_layout=False,
        model=SimpleNamespace(dtype="bfloat16"),
        cache=SimpleNamespace(tokens_per_hash=16, blocks_per_chunk=1),
        groups=[SimpleNamespace(tokens_per_block=16, layer_names=("a",))],
    )
    return identity.Layout.of(offloading, 4096, "0.33.0", "cuda H200", "seed")


def test_ranks_count_unless_the_bytes_are_the_same_for_any_number() -> None:
    assert layout(tp_size=1) != layout(tp_size=2)
    assert layout(tp_size=1, is_parallelism_agnostic=True) == layout(
        tp_size=2, is_parallelism_agnostic=True
    )


def test_each_part_of_a_name_changes_the_prefix() -> None:
    same = {"weights": "w", "tag": "", "epoch": "", "adapter": "", "group": 0}
    names = [same, *({**same, part: 1 if part == "group" else "x"} for part in same)]
    prefixes = {layout().prefix(**name) for name in names}
    assert len(prefixes) == 6
    assert all(len(prefix) == 32 for prefix in prefixes)

"""Engines share pages when their weights are the same, and never otherwise.

One test for each row of docs/identity.md, through SGLang's real controller.
"""

from __future__ import annotations

import json
import shutil
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hicache_engine import hub, shim
from peercache.core.config import ConfigError
from peercache.sglang import server_args

from .conftest import host_pool
from .engines import PAGES, engine, hits, write
from .fakes import FakeCluster

Make = Callable[..., Any]


@pytest.fixture(autouse=True)
def _alone(cluster: FakeCluster, published: None) -> None:
    """No node, and a namespace of flags for each test."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "models" / "base"
    hub.write(made, seed="base")
    return made


def shared(one: tuple[Any, ...], other: tuple[Any, ...]) -> int:
    """How many pages of the one engine the other finds."""
    with engine(*one) as cache:
        assert write(cache) == PAGES
        assert hits(cache) == PAGES
    with engine(*other) as cache:
        return hits(cache)


# ---- equal weights ------------------------------------------------------------------------------


def test_equal_weights_under_different_paths_are_shared(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere"
    shutil.copytree(folder, copy)
    assert shared((folder,), (copy,)) == PAGES


def test_a_model_of_the_hub_and_its_copy_are_shared(tmp_path: Path) -> None:
    hub.provide("test/model")
    cache = hub._cache() / "models--test--model"
    commit = (cache / "refs" / "main").read_text()
    shutil.copytree(cache / "snapshots" / commit, tmp_path / "copy")
    assert shared(("test/model",), (tmp_path / "copy",)) == PAGES


# ---- one difference each ------------------------------------------------------------------------


def test_other_weights_at_the_same_path_are_not_shared(folder: Path) -> None:
    with engine(folder) as cache:
        assert write(cache) == PAGES
    hub.write(folder, seed="tuned")
    with engine(folder) as cache:
        assert hits(cache) == 0


def test_two_fine_tunes_under_one_name_are_not_shared(folder: Path, tmp_path: Path) -> None:
    hub.write(tmp_path / "tuned", seed="tuned")
    name = "--served-model-name=production"
    assert shared((folder, name), (tmp_path / "tuned", name)) == 0
    assert shared((folder, name), (folder, name)) == PAGES


def test_another_revision_is_not_shared() -> None:
    assert shared(("test/model",), ("test/model", "--revision=step-2")) == 0


def test_another_rope_in_config_json_is_not_shared(folder: Path, tmp_path: Path) -> None:
    scaled = tmp_path / "scaled"
    hub.write(scaled, seed="base", config={"rope_theta": 500_000.0})
    name = "--served-model-name=production"
    assert shared((folder, name), (scaled, name)) == 0


@pytest.mark.parametrize(
    "flag",
    [
        '--json-model-override-args={"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}',
        "--quantization=fp8",
        "--load-format=bitsandbytes",
        "--weight-version=2",
        "--served-model-name=other",
    ],
    ids=lambda flag: flag.split("=")[0],
)
def test_another_flag_is_not_shared(folder: Path, flag: str) -> None:
    assert shared((folder,), (folder, flag)) == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("dtype", "float16"),
        ("model_impl", "transformers"),
        ("model_config_parser", "mistral"),
        ("modelopt_quant", "fp8"),
        ("quantize_and_serve", True),
        ("qsa_indexer_dtype", "fp8_e4m3"),
    ],
)
def test_each_setting_that_sglang_tells_counts(make_store: Make, name: str, value: object) -> None:
    assert_differs(make_store, lambda: setattr(shim._published["model"], name, value))


def test_the_scales_of_the_kv_cache_count(make_store: Make, tmp_path: Path) -> None:
    scales = tmp_path / "scales.json"

    def use(text: str) -> None:
        scales.write_text(text)
        shim._published["model"].quantization_param_path = str(scales)

    use('{"kv_cache": {"scale": 1}}')
    assert_differs(make_store, lambda: use('{"kv_cache": {"scale": 2}}'))


def test_overrides_are_compared_by_meaning(make_store: Make) -> None:
    before = kv_prefixes(make_store)
    shim._published["model"].json_model_override_args = " { } "
    assert kv_prefixes(make_store) == before


# ---- names, tags, clear -------------------------------------------------------------------------


def test_another_tag_is_not_shared(folder: Path) -> None:
    with engine(folder, tag="blue") as cache:
        assert write(cache) == PAGES
    with engine(folder) as cache:
        assert hits(cache) == 0
    with engine(folder, tag="blue") as cache:
        assert hits(cache) == PAGES


def test_clear_reaches_pages_of_equal_weights_under_another_path(
    folder: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "elsewhere"
    shutil.copytree(folder, copy)
    with engine(folder) as cache:
        assert write(cache) == PAGES
    with engine(copy, "--weight-version=2") as cache:
        assert cache.store.clear()
    with engine(folder) as cache:
        assert hits(cache) == 0


def test_clear_leaves_other_weights(folder: Path, tmp_path: Path) -> None:
    hub.write(tmp_path / "tuned", seed="tuned")
    with engine(folder) as cache:
        assert write(cache) == PAGES
    with engine(tmp_path / "tuned") as cache:
        assert cache.store.clear()
    with engine(folder) as cache:
        assert hits(cache) == PAGES


# ---- where the identity cannot be known ---------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (("--load-format=dummy",), "load format dummy does not read weights from files"),
        (("--load-format=remote_instance",), "load format remote_instance does not read"),
        (("--model-path=s3://bucket/model",), "s3://bucket/model is neither a folder nor"),
    ],
    ids=["dummy", "remote_instance", "s3"],
)
def test_weights_of_no_files_ask_for_a_tag(flags: tuple[str, ...], reason: str) -> None:
    message = rf'"tag" is missing.*{reason}.*set "tag" to a text that names these weights'
    with pytest.raises(ValueError, match=message), engine("test/model", *flags):
        pass
    with engine("test/model", *flags, tag="step-1") as cache:
        assert write(cache) == PAGES
    with engine("test/model", *flags, tag="step-2") as cache:
        assert hits(cache) == 0
    with engine("test/model", *flags, tag="step-1") as cache:
        assert hits(cache) == PAGES


@pytest.mark.parametrize(
    ("field", "value"),
    [("weight_cache_mode", "client"), ("modelopt_checkpoint_restore_path", "/ckpt")],
)
def test_weights_from_elsewhere_ask_for_a_tag(
    make_store: Make, field: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shim._published["model"], field, value)
    with pytest.raises(ConfigError, match='"tag" is missing'):
        make_store(None)
    assert make_store(None, extra={"tag": "blue"})


def test_an_sglang_that_tells_nothing_asks_for_a_tag(make_store: Make) -> None:
    shim._published["model"] = types.SimpleNamespace(kv_cache_dtype="auto")
    with pytest.raises(ConfigError, match="SGLang does not report json_model_override_args, load_"):
        make_store(None)
    assert make_store(None, extra={"tag": "blue"})


def test_an_sglang_without_salted_hashes_is_refused(
    make_store: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sglang.srt.mem_cache import utils

    monkeypatch.delattr(utils, "storage_namespace_seed")
    with pytest.raises(ConfigError, match=r"use SGLang 0\.5\.22 or newer"):
        make_store(None, extra={"tag": "blue"})


# ---- speculation and LoRA -----------------------------------------------------------------------


def draft(path: Path | str | None, **more: object) -> types.SimpleNamespace:
    return shim.declared(
        "spec",
        speculative_algorithm="EAGLE3",
        speculative_draft_model_path=None if path is None else str(path),
        **more,
    )


def kv_prefixes(make_store: Make, target_layers: int | None = None) -> tuple[bytes, ...]:
    pool = host_pool("mha", "page_first")
    if target_layers is not None:
        pool.target_layer_num = target_layers
    prefixes: tuple[bytes, ...] = make_store(pool)._kv.prefixes
    return prefixes


def draft_prefixes(make_store: Make) -> tuple[bytes, ...]:
    store = make_store(host_pool("mha", "page_first"))
    store.register_mem_host_pool_v2(host_pool("mha", "page_first"), "draft")
    prefixes: tuple[bytes, ...] = store._pools.find("draft").prefixes
    return prefixes


def assert_differs(make_store: Make, change: Callable[[], object]) -> None:
    before = kv_prefixes(make_store)
    assert before == kv_prefixes(make_store)
    change()
    assert kv_prefixes(make_store) != before


def test_the_drafts_weights_count_for_its_pool_alone(make_store: Make, tmp_path: Path) -> None:
    for name in ("one", "two"):
        hub.write(tmp_path / name, seed=name)
    target = kv_prefixes(make_store)
    found = {}
    for name in ("one", "two"):
        shim._published["spec"] = draft(tmp_path / name)
        assert kv_prefixes(make_store) == target
        found[name] = draft_prefixes(make_store)
    assert found["one"] != found["two"]
    shutil.copytree(tmp_path / "one", tmp_path / "copy")
    shim._published["spec"] = draft(tmp_path / "copy")
    assert draft_prefixes(make_store) == found["one"]


def test_a_pool_with_the_drafts_layers_in_it_has_the_drafts_weights_in_its_name(
    make_store: Make, tmp_path: Path
) -> None:
    found = []
    for name in ("one", "two"):
        hub.write(tmp_path / name, seed=name)
        shim._published["spec"] = draft(tmp_path / name)
        found.append(kv_prefixes(make_store, target_layers=3))
    assert found[0] != found[1]


@pytest.mark.parametrize(
    "other",
    [
        {"speculative_draft_model_revision": "step-2"},
        {"speculative_draft_model_quantization": "fp8"},
        {"speculative_draft_load_format": "bitsandbytes"},
    ],
    ids=lambda other: next(iter(other)),
)
def test_settings_of_the_draft_count(make_store: Make, other: dict[str, object]) -> None:
    for revision in (None, "step-2"):
        hub.provide("test/draft", revision)
    shim._published["spec"] = draft("test/draft")
    before = draft_prefixes(make_store)
    shim._published["spec"] = draft("test/draft", **other)
    assert draft_prefixes(make_store) != before


def test_the_context_length_counts_for_the_draft(make_store: Make) -> None:
    shim._published["spec"] = draft(None)
    before, target = draft_prefixes(make_store), kv_prefixes(make_store)
    shim._published["model"].context_length = 8192
    assert draft_prefixes(make_store) != before
    assert kv_prefixes(make_store) == target


def test_a_draft_of_no_files_asks_for_a_tag(make_store: Make) -> None:
    shim._published["spec"] = draft("test/model", speculative_draft_load_format="dummy")
    with pytest.raises(ConfigError, match=r'"tag" is missing.*load format dummy'):
        make_store(None)


def adapter(folder: Path, seed: bytes) -> types.SimpleNamespace:
    """As SGLang notes --lora-paths; its id is made of name and path."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "adapter_config.json").write_text(json.dumps({"r": 8, "peft_type": "LORA"}))
    hub.write_safetensors(folder / "adapter_model.safetensors", {"lora_A": seed * 4096})
    return types.SimpleNamespace(lora_id="5d0c", lora_name="chat", lora_path=str(folder))


def test_another_lora_adapter_under_the_same_id_is_not_shared(
    make_store: Make, tmp_path: Path
) -> None:
    shim._published["lora"].lora_paths = [adapter(tmp_path / "chat", b"1")]
    assert_differs(make_store, lambda: adapter(tmp_path / "chat", b"2"))


def test_lora_adapters_that_cannot_be_identified_ask_for_a_tag(
    make_store: Make, tmp_path: Path
) -> None:
    lora = adapter(tmp_path / "chat", b"1")
    shutil.rmtree(tmp_path / "chat")
    shim._published["lora"].lora_paths = [lora]
    with pytest.raises(ConfigError, match=r'"tag" is missing.*is neither a folder'):
        make_store(None)
    shim._published["lora"].lora_paths = ["chat=/adapters/chat"]
    with pytest.raises(ConfigError, match="does not report the id of the LoRA adapter chat="):
        make_store(None)


# ---- SGLang's own declarations ------------------------------------------------------------------


def test_sglang_declares_every_field_that_is_read() -> None:
    for namespace, fields in (
        ("model", server_args.MODEL),
        ("spec", server_args.SPEC),
        ("serving", server_args.SERVING),
    ):
        assert set(fields) <= vars(shim.declared(namespace)).keys(), namespace
    source = Path(shim.source_folder(), "srt/arg_groups/fields/lora.py").read_text()
    assert all(f"    {field}: A[" in source for field in server_args.LORA)
    adapter = Path(shim.source_folder(), "srt/lora/lora_registry.py").read_text()
    assert all(f"    {field}: " in adapter for field in ("lora_id", "lora_path"))


def test_the_format_that_sglang_gives_pages_counts(make_store: Make) -> None:
    plain = host_pool("mha", "page_first")
    tagged = host_pool("mha", "page_first")
    tagged.storage_format_tag = "unified-token-major"
    assert make_store(plain)._kv.prefixes != make_store(tagged)._kv.prefixes

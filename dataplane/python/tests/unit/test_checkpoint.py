"""The identity of a checkpoint: what is in its files, wherever they are."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hicache_engine import hub
from peercache.core import samples
from peercache.core.checkpoint import Checkpoint, Unidentified, hub_cache

SHARD = "model-00001-of-00002.safetensors"
ORG = "test/model"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "a" / "model"
    hub.write(made, seed="base")
    return made


def identity(path: Path | str, **options: object) -> str:
    return Checkpoint(str(path), **options).identity()  # type: ignore[arg-type]


def rewrite(path: Path, change: Callable[[dict[str, object]], None]) -> None:
    described = json.loads(path.read_text())
    change(described)
    path.write_text(json.dumps(described))


def test_a_copy_under_another_path_is_the_same_model(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "b" / "renamed"
    shutil.copytree(folder, copy)
    for file in copy.iterdir():
        os.utime(file, (1, 1))
    (copy / "README.md").write_text("a copy")
    (copy / "tokenizer.json").write_text("{}")
    assert identity(folder) == identity(copy)


def test_the_hubs_cache_and_a_copy_are_the_same_model(tmp_path: Path) -> None:
    cache = tmp_path / "hub"
    snapshot = cache / "models--test--model" / "snapshots" / "abc123"
    hub.write(tmp_path / "blobs", seed="base")
    snapshot.mkdir(parents=True)
    for file in (tmp_path / "blobs").iterdir():
        (snapshot / file.name).symlink_to(file)
    reference = snapshot.parents[1] / "refs" / "main"
    reference.parent.mkdir()
    reference.write_text("abc123")
    by_name = identity(ORG, download_dir=str(cache))
    assert by_name == identity(tmp_path / "blobs")
    assert by_name == identity(ORG, download_dir=str(cache), revision="abc123")


def test_another_revision_is_another_model(tmp_path: Path) -> None:
    cache = tmp_path / "hub"
    repository = cache / "models--test--model"
    (repository / "refs").mkdir(parents=True)
    for revision in ("main", "step-2"):
        hub.write(repository / "snapshots" / f"commit-{revision}", seed=revision)
        (repository / "refs" / revision).write_text(f"commit-{revision}")
    of = [identity(ORG, download_dir=str(cache), revision=each) for each in ("main", "step-2")]
    assert of[0] != of[1]
    assert of[0] == identity(ORG, download_dir=str(cache))


def test_other_weights_of_the_same_sizes_are_another_model(folder: Path, tmp_path: Path) -> None:
    hub.write(tmp_path / "tuned", seed="tuned")
    assert identity(folder) != identity(tmp_path / "tuned")
    assert os.stat(folder / SHARD).st_size == os.stat(tmp_path / "tuned" / SHARD).st_size


def test_one_tensor_that_changed_is_another_model(folder: Path) -> None:
    before = identity(folder)
    data = bytearray((folder / SHARD).read_bytes())
    data[-1] ^= 1  # of the last tensor, which is a block long
    (folder / SHARD).write_bytes(data)
    assert identity(folder) != before


@pytest.mark.parametrize(
    "change",
    [
        lambda config: config.update(rope_theta=500_000.0),
        lambda config: config.update(rope_scaling={"rope_type": "yarn", "factor": 4.0}),
        lambda config: config.update(quantization_config={"quant_method": "fp8"}),
        lambda config: config.update(architectures=["Qwen2ForCausalLM"]),
    ],
    ids=["rope_theta", "rope_scaling", "quantization_config", "architectures"],
)
def test_what_config_json_says_counts(folder: Path, change: Callable[..., None]) -> None:
    before = identity(folder)
    rewrite(folder / "config.json", change)
    assert identity(folder) != before


def test_what_differs_between_copies_of_a_config_does_not_count(folder: Path) -> None:
    before = identity(folder)
    rewrite(
        folder / "config.json",
        lambda config: config.update(
            _name_or_path="/home/me/model",
            transformers_version="5.1",
            text_config={"_name_or_path": "x"},
        ),
    )
    nested = identity(folder)
    rewrite(folder / "config.json", lambda config: config.update(text_config={}))
    assert nested == identity(folder)
    rewrite(folder / "config.json", lambda config: config.pop("text_config"))
    assert identity(folder) == before


def test_a_quantization_file_counts(folder: Path) -> None:
    before = identity(folder)
    (folder / "hf_quant_config.json").write_text('{"quantization": {"quant_algo": "FP8"}}')
    assert identity(folder) != before


def test_configurations_that_sglang_does_not_read_do_not_count(folder: Path) -> None:
    rewrite(folder / "config.json", lambda config: config.update(quantization_config={"bits": 4}))
    before = identity(folder)
    (folder / "params.json").write_text("{}")
    (folder / "quantize_config.json").write_text('{"bits": 4}')
    assert identity(folder) == before


def test_mistrals_own_format_has_its_own_configuration(folder: Path) -> None:
    hub.write_safetensors(folder / "consolidated.safetensors", {"x": b"1" * 100})
    (folder / "params.json").write_text('{"rope_theta": 1}')
    before = identity(folder, load_format="mistral")
    (folder / "config.json").unlink()
    assert identity(folder, load_format="mistral") == before
    (folder / "params.json").write_text('{"rope_theta": 2}')
    assert identity(folder, load_format="mistral") != before


def test_settings_of_the_command_line_count(folder: Path) -> None:
    plain = identity(folder, settings={"quantization": None})
    assert plain != identity(folder, settings={"quantization": "fp8"})
    assert plain == identity(folder, settings={"quantization": None})


def test_code_of_the_checkpoint_counts_where_it_is_executed(folder: Path) -> None:
    auto_map = {
        "AutoConfig": "configuration_mine.Config",
        "AutoModel": ["modeling_mine.Model", None],
        "AutoTokenizer": "other/repository--tokenizing.Tokenizer",
    }
    rewrite(folder / "config.json", lambda config: config.update(auto_map=auto_map))
    (folder / "modeling_mine.py").write_text("scale = 1")
    before, trusted = identity(folder), identity(folder, remote_code=True)
    (folder / "unused.py").write_text("scale = 2")
    assert identity(folder, remote_code=True) == trusted
    (folder / "modeling_mine.py").write_text("scale = 2")
    assert identity(folder) == before
    assert identity(folder, remote_code=True) != trusted


def test_the_context_length_counts_where_rotary_embeddings_depend_on_it(folder: Path) -> None:
    assert identity(folder, context_length=8192) == identity(folder, context_length=4096)
    rewrite(
        folder / "config.json",
        lambda config: config.update(rope_scaling={"rope_type": "dynamic", "factor": 2.0}),
    )
    assert identity(folder, context_length=8192) != identity(folder, context_length=4096)


def test_a_setting_may_choose_such_a_rotary_embedding(folder: Path) -> None:
    settings = {"json_model_override_args": {"rope_scaling": {"type": "dynamic"}}}
    of = [identity(folder, context_length=each, settings=settings) for each in (4096, 8192)]
    assert of[0] != of[1]


def test_loading_on_the_fly_quantized_is_another_model(folder: Path) -> None:
    assert identity(folder) == identity(folder, load_format="safetensors")
    assert identity(folder) != identity(folder, load_format="bitsandbytes")


def test_files_that_are_not_loaded_do_not_count(folder: Path) -> None:
    before = identity(folder)
    hub.write_safetensors(folder / "consolidated.safetensors", {"x": b"1" * 100})
    (folder / "pytorch_model.bin").write_bytes(b"old")
    (folder / "training_args.bin").write_bytes(b"args")
    assert identity(folder) == before
    hub.write_safetensors(folder / "model-mtp.safetensors", {"mtp": b"1" * 100})
    assert identity(folder) != before


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "model.gguf"])
@pytest.mark.parametrize("at", [0, 300_000, 999_999], ids=["start", "middle", "end"])
def test_formats_without_a_header_are_sampled_throughout(
    tmp_path: Path, name: str, at: int
) -> None:
    data = bytearray(os.urandom(1_000_000))
    (tmp_path / name).write_bytes(data)
    path: Path = tmp_path / name if name.endswith("gguf") else tmp_path
    before = identity(path)
    data[at] ^= 1
    (tmp_path / name).write_bytes(data)
    assert identity(path) != before


def test_a_gguf_file_is_the_same_under_another_name_and_has_parts(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(b"GGUF" * 1000)
    (tmp_path / "config.json").write_text('{"of": "something else"}')
    (tmp_path / "b.gguf").write_bytes(b"GGUF" * 1000)
    assert identity(tmp_path / "a.gguf") == identity(tmp_path / "b.gguf")
    first, second = (tmp_path / f"m-0000{part}-of-00002.gguf" for part in (1, 2))
    first.write_bytes(b"1" * 100)
    second.write_bytes(b"2" * 100)
    before = identity(first)
    second.write_bytes(b"3" * 100)
    assert identity(first) != before


@pytest.mark.parametrize("load_format", ["dummy", "remote", "remote_instance", "flash_rl", "x"])
def test_formats_that_read_no_files_have_no_identity(folder: Path, load_format: str) -> None:
    with pytest.raises(Unidentified, match=f"load format {load_format} does not read"):
        identity(folder, load_format=load_format)


@pytest.mark.parametrize("path", ["s3://bucket/model", "redis://host/model", "a/b/c", "../model"])
def test_places_that_are_no_folder_have_no_identity(path: str) -> None:
    with pytest.raises(Unidentified, match="is neither a folder nor a model of the hub"):
        identity(path)


def test_a_model_that_is_not_in_the_hubs_cache_has_no_identity(tmp_path: Path) -> None:
    with pytest.raises(Unidentified, match="models--test--model/snapshots/main does not exist"):
        identity(ORG, download_dir=str(tmp_path))


def test_a_folder_without_weights_has_no_identity(folder: Path) -> None:
    for file in folder.glob("*.safetensors"):
        file.unlink()
    with pytest.raises(Unidentified, match="has no weights of load format auto"):
        identity(folder)


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"\xff" * 8 + b"{}",
        (2).to_bytes(8, "little") + b"[]",
        (9).to_bytes(8, "little") + b'{"a": 12}',
        (40).to_bytes(8, "little") + b'{"a": {"data_offsets": [0, 100]}}       ',
        (40).to_bytes(8, "little") + b'{"a": {"data_offsets": [100, 0]}}       ' + b"x" * 100,
    ],
    ids=["empty", "too long", "list", "number", "cut off", "backwards"],
)
def test_a_damaged_file_has_no_identity(folder: Path, header: bytes) -> None:
    (folder / SHARD).write_bytes(header)
    with pytest.raises(Unidentified, match=SHARD):
        identity(folder)


@pytest.mark.parametrize("index", ["[]", "{", '{"weight_map": 1}', "[" * 100_000], ids=range(4))
def test_a_damaged_index_has_no_identity(folder: Path, index: str) -> None:
    (folder / "model.safetensors.index.json").write_text(index)
    with pytest.raises(Unidentified, match=re.escape(str(folder))):
        identity(folder)


def test_a_damaged_configuration_is_compared_byte_by_byte(folder: Path) -> None:
    (folder / "config.json").write_text("{")
    before = identity(folder)
    (folder / "config.json").write_text("{ ")
    assert identity(folder) != before


def test_the_hubs_cache_is_where_its_library_has_it() -> None:
    home = Path.home()
    assert hub_cache(None, {}) == home / ".cache/huggingface/hub"
    assert hub_cache(None, {"XDG_CACHE_HOME": "/c"}) == Path("/c/huggingface/hub")
    assert hub_cache(None, {"HF_HOME": "/h", "XDG_CACHE_HOME": "/c"}) == Path("/h/hub")
    assert hub_cache(None, {"HF_HUB_CACHE": "/k", "HF_HOME": "/h"}) == Path("/k")
    assert hub_cache("/d", {"HF_HUB_CACHE": "/k"}) == Path("/d")


def test_a_checkpoint_of_a_terabyte_costs_a_bounded_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """64 sparse files of 16 GiB with 92,000 tensors, as many as DeepSeek-V3 has."""
    files, tensors = 64, 1440
    each = (16 << 30) // tensors
    for file in range(files):
        described = {
            f"model.layers.{file}.mlp.experts.{n}.up_proj.weight": {
                "dtype": "F8_E4M3",
                "shape": [each],
                "data_offsets": [n * each, (n + 1) * each],
            }
            for n in range(tensors)
        }
        text = json.dumps(described).encode()
        path = tmp_path / f"model-{file:05}-of-{files:05}.safetensors"
        path.write_bytes(len(text).to_bytes(8, "little") + text)
        os.truncate(path, 8 + len(text) + tensors * each)
    (tmp_path / "config.json").write_text("{}")
    read = 0
    pread = os.pread

    def counted(fd: int, size: int, offset: int) -> bytes:
        nonlocal read
        read += size
        return pread(fd, size, offset)

    monkeypatch.setattr(samples.os, "pread", counted)
    started = time.process_time()
    identity(tmp_path)
    seconds = time.process_time() - started
    assert read == samples.MAX_BLOCKS * samples.BLOCK == 32 << 20
    # About 1 s of one processor where nothing else runs; the bound is for machines that are busy.
    assert seconds < 10, seconds

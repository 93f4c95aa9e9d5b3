"""docs/identity.md: each row of what is compared has tests, and they exist."""

from __future__ import annotations

import re

from ..conftest import PYTHON, ROOT

PAGE = ROOT / "docs" / "identity.md"

# For each row, by its first cell, the tests that show it.
TESTS = {
    "weights": [
        "test_other_weights_at_the_same_path_are_not_shared",
        "test_two_fine_tunes_under_one_name_are_not_shared",
    ],
    "revision": ["test_another_revision_is_not_shared"],
    "configuration of the model, with RoPE and quantization": [
        "test_another_rope_in_config_json_is_not_shared",
        "test_a_quantization_file_counts",
    ],
    "overrides of the configuration": [
        "test_another_flag_is_not_shared",
        "test_overrides_are_compared_by_meaning",
    ],
    "quantization": [
        "test_another_flag_is_not_shared",
        "test_each_setting_that_sglang_tells_counts",
    ],
    "arithmetic": ["test_each_setting_that_sglang_tells_counts"],
    "scales of the KV cache": ["test_the_scales_of_the_kv_cache_count"],
    "code of the model": ["test_code_of_the_checkpoint_counts_where_it_is_executed"],
    "context length": [
        "test_the_context_length_counts_where_rotary_embeddings_depend_on_it",
        "test_the_context_length_counts_for_the_draft",
    ],
    "weight version": ["test_pages_belong_to_the_version_of_the_moment"],
    "updates from memory": ["test_the_checkpoint_is_not_what_an_update_named_like_it_is"],
    "draft model": [
        "test_the_drafts_weights_count_for_its_pool_alone",
        "test_settings_of_the_draft_count",
    ],
    "LoRA adapters": ["test_another_lora_adapter_under_the_same_id_is_not_shared"],
    "LoRA adapter and salt of a request": ["test_an_sglang_without_salted_hashes_is_refused"],
    "served name": [
        "test_another_flag_is_not_shared",
        "test_equal_weights_under_different_paths_are_shared",
    ],
    "`tag`, with the namespace before it where `sharing` is `Cluster`": [
        "test_another_tag_is_not_shared",
        "test_a_tag_is_of_its_scope",
    ],
    "interface": ["test_another_configuration_misses"],
    "host pool": [
        "test_another_layout_misses",
        "test_another_number_of_heads_misses",
        "test_the_format_that_sglang_gives_pages_counts",
    ],
    "fp8 format": ["test_the_fp8_formats_are_told_apart"],
    "rank": ["test_another_configuration_misses", "test_mla_has_one_writer_and_all_ranks_read"],
}


def test_each_row_has_tests_that_exist() -> None:
    tests = "".join(file.read_text() for file in (PYTHON / "tests").rglob("test_*.py"))
    section = PAGE.read_text().split("## What is compared")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \| ", section, re.MULTILINE)[1:]
    assert rows == list(TESTS)
    for row, named in TESTS.items():
        assert named
        assert not [name for name in named if f"def {name}(" not in tests], row

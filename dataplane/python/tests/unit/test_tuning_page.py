"""docs/tuning.md: its flags and keys exist, with the defaults that it names."""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path

from peercache.core import config
from peercache.core.config_keys import KEYS, SGLANG_KEYS

from ..conftest import ROOT

PAGE = (ROOT / "docs" / "tuning.md").read_text()
SRT = Path(os.environ["PEERCACHE_ENGINE"]) / "source/sglang/srt"
# Flags whose default SGLang chooses when it starts.
UNSET = "unset"


def rows(heading: str) -> list[list[str]]:
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[1:]]


def fields_of_sglang() -> dict[str, object]:
    """The fields of SGLang's arguments that have a constant default."""
    found: dict[str, object] = {}
    for file in (SRT / "arg_groups" / "fields").glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
                continue
            if isinstance(node.value, ast.Constant):
                found[node.target.id] = node.value.value
    return found


def test_flags_of_sglang_have_the_defaults_of_the_page() -> None:
    known = fields_of_sglang()
    table = rows("SGLang: flags")
    assert len(table) > 10
    for flag, default, *_ in table:
        name = flag.strip("`").removeprefix("--").replace("-", "_")
        assert name in known, flag
        stated = default.strip("`")
        assert stated == (UNSET if known[name] is None else str(known[name])), flag


def test_every_flag_of_the_page_is_one_of_sglang_or_vllm() -> None:
    known = {name.replace("_", "-") for name in fields_of_sglang()}
    ours = {"dry-run"}
    of_vllm = {"block-size", "enable-prefix-caching"}
    named = set(re.findall(r"--([a-z][-a-z]+)", PAGE))
    assert len(named) > 12
    assert not named - known - ours - of_vllm


def test_keys_of_the_extra_config_have_the_defaults_of_the_page() -> None:
    controller = (SRT / "mem_cache/hybrid_cache/hybrid_cache_controller.py").read_text()
    of_sglang = dict(re.findall(r'extra_config\.pop\(\s*"(\w+)", ([\d.]+)\s*\)', controller))
    ours = {
        "timeout_ms": str(config.DEFAULT_TIMEOUT_MS),
        "staging_size": f"{config.DEFAULT_STAGING_BYTES >> 20}Mi",
        "interface_v1": "0",
        "allocator": "default",
    }
    table = rows("SGLang: keys of the extra config")
    assert len(table) == 7
    for key, default, *_ in table:
        name = key.strip("`")
        assert name in KEYS or name in SGLANG_KEYS, key
        assert default.strip("`") == {**of_sglang, **ours}[name], key


def test_the_example_of_the_timeouts_is_computed() -> None:
    example = re.search(
        r"at ([\d,]+) tokens/s, a prompt of ([\d,]+) tokens takes ([\d.]+) s to compute\. The "
        r"defaults let it wait for (\d+) s\. With `([\d.]+)` and a base of `([\d.]+)` it waits for "
        r"([\d.]+) s",
        " ".join(PAGE.split()),
    )
    assert example is not None
    rate, tokens, compute, default, each, base, waits = (
        float(group.replace(",", "")) for group in example.groups()
    )
    assert compute == round(tokens / rate, 2)
    assert default == 1 + 0.25 * tokens / 1024
    assert each == round(1024 / rate, 2)
    assert waits == round(base + each * tokens / 1024, 1)


def test_a_decode_server_reserves_what_the_page_says() -> None:
    builder = (SRT / "mem_cache" / "kv_cache_builder.py").read_text()
    ratio = re.search(r"BACKUP_ONLY_HICACHE_RATIO = ([\d.]+)", builder)
    assert ratio is not None
    assert f"{ratio[1]} times its KV space" in " ".join(PAGE.split())


def test_half_of_the_host_pool_is_for_prefetches() -> None:
    controller = (SRT / "managers" / "cache_controller.py").read_text()
    assert "0.5 * self.mem_pool_host.logical_size" in controller
    assert "half of L2 is the limit" in PAGE


def test_an_offloading_decode_server_leaves_prompts_to_the_prefill_server() -> None:
    manager = (SRT / "disaggregation" / "decode_kvcache_offload_manager.py").read_text()
    assert "decode side offloads the incremental part" in manager
    assert "yes: answers only" in PAGE

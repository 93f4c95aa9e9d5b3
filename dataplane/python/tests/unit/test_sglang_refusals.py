"""What SGLang refuses with what injection adds is known there (operator/inject/engines/sglang)."""

from __future__ import annotations

import os
from pathlib import Path

from .sglang_refusals import refusals

KNOWN = Path(__file__).parents[4] / "operator/inject/engines/sglang/refusals.txt"
SRT = Path(os.environ["PEERCACHE_ENGINE"]) / "source/sglang/srt"


def test_each_refusal_of_sglang_is_known() -> None:
    known = [
        line
        for line in KNOWN.read_text().splitlines()
        if line and not line.startswith(("#", "  -> "))
    ]
    assert refusals(SRT) == known, f"decide in {KNOWN} what injection does where SGLang refuses"


def test_a_refusal_is_read_with_the_conditions_around_it(tmp_path: Path) -> None:
    folder = tmp_path / "arg_groups"
    folder.mkdir()
    (folder / "hook.py").write_text(
        """
def check(cfg):
    if not cfg.new_flag:
        return
    assert not (cfg.other and cfg.enable_hierarchical_cache), "no"
    try:
        for each in cfg:
            if cfg.hicache_storage_backend:
                raise ValueError("no")
            else:
                raise ValueError("without")
    except ValueError:
        raise
"""
    )
    assert refusals(tmp_path) == [
        "arg_groups/hook.py check: cfg.new_flag and (cfg.other and cfg.enable_hierarchical_cache)",
        "arg_groups/hook.py check: cfg.new_flag and (not cfg.hicache_storage_backend)",
        "arg_groups/hook.py check: cfg.new_flag and cfg.hicache_storage_backend",
    ]

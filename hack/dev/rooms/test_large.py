from __future__ import annotations

from large import MOST_BYTES, large


def test_a_program_among_the_sources_is_refused() -> None:
    sizes = {"README.md": 9000, "picture.png": MOST_BYTES, "scale": 56418788}
    assert large(sizes, sizes.__getitem__) == [
        f"scale: 56418788 bytes; a source has {MOST_BYTES} at most: remove it"
    ]

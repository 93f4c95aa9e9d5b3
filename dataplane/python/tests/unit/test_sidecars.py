"""Which prefixes of a hybrid model can be restored, against the plain definition."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from peercache.sglang import sidecars

PRESENT = st.lists(st.booleans(), max_size=200)


@given(PRESENT)
def test_presence_is_found_with_few_queries(present: list[bool]) -> None:
    keys = [str(index) for index in range(len(present))]
    queries = 0

    def leading_run(asked: Sequence[str]) -> int:
        nonlocal queries
        queries += 1
        assert asked
        return sidecars.leading_run(bytes(present[int(key)] for key in asked))

    assert sidecars.presence(keys, leading_run) == bytes(present)
    assert queries <= 1 + 5 * present.count(False)


@given(PRESENT, st.integers(0, 12))
def test_trailing_pages(present: list[bool], window: int) -> None:
    size = max(1, window)
    expected = {n for n in range(1, len(present) + 1) if all(present[max(0, n - size) : n])}
    found = sidecars.restorable_with_trailing(bytes(present), window)
    assert len(found) == len(present)
    assert set(sidecars.lengths(found)) == expected


@given(PRESENT)
def test_all_pages(present: list[bool]) -> None:
    expected = [n for n in range(1, len(present) + 1) if all(present[:n])]
    found = sidecars.restorable_with_all(bytes(present))
    assert len(found) == len(present)
    assert sidecars.lengths(found) == expected


@given(PRESENT, st.integers(0, 8), st.integers(0, 4))
def test_block_groups(present: list[bool], block: int, group: int) -> None:
    covered = sidecars.covered_by_groups(bytes(present), block, group)
    if not block or not group:
        assert covered == 0
        return
    groups = covered // block
    assert all(present[: groups * group])
    assert not all(present[: (groups + 1) * group]) or len(present) < (groups + 1) * group


@given(st.integers(0, 20).flatmap(lambda n: st.lists(st.binary(min_size=n, max_size=n))))
def test_a_page_of_several_groups_is_there_when_all_are(answers: list[bytes]) -> None:
    answers = [bytes(byte & 1 for byte in answer) for answer in answers]
    count = len(answers[0]) if answers else 3
    expected = bytes(bool(answers) and all(answer[i] for answer in answers) for i in range(count))
    assert sidecars.in_all(answers, count) == expected

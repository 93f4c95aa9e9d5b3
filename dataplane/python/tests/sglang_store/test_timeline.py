"""What the test engine reports of a load, from which tests tell how long hits were away."""

from __future__ import annotations


def rounds(*pages: int) -> list[dict[str, float]]:
    return [{"at": float(at), "pages": count, "wrong": 0} for at, count in enumerate(pages)]


def test_a_load_is_reported_by_its_changes() -> None:
    from hicache_engine.scenario import timeline

    seen = timeline(rounds(*[9] * 4000, 0, *[9] * 4000, 0, 0, 3, 9))
    assert [(each["at"], each["pages"]) for each in seen] == [
        (0, 9), (4000, 0), (4001, 9), (8001, 0), (8003, 3), (8004, 9)
    ]  # fmt: skip
    assert [each["at"] for each in timeline(rounds(*[9] * 100))] == [0, 99]
    assert timeline(rounds(9)) == rounds(9)
    assert timeline([]) == []


def test_a_load_that_never_stays_the_same_is_sampled() -> None:
    from hicache_engine.scenario import timeline

    seen = timeline(rounds(*[at % 7 for at in range(5000)]))
    assert len(seen) <= 501
    assert (seen[0]["at"], seen[-1]["at"]) == (0, 4999)

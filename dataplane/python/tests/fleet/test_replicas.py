"""How many pages come over the wire for the engines of one node, with and without copies there."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Report
from .network import loopback
from .nodes import EngineProcess, Fleet

EACH = 1000
# SGLang's HiCacheController asks for so many pages in a call.
BATCH = 128
ENGINES = 4
HEADER = (
    f"{'pages over the wire, of':<24} {f'{ENGINES} ranks: {EACH}':>14} {'once more':>10} "
    f"{f'one engine: {EACH}':>16} {'again':>6} {'once more':>10}"
)


@pytest.mark.node
@pytest.mark.parametrize("percent", [0, 20])
def test_pages_that_are_read_again_come_over_the_wire_no_more(
    tmp_path: Path, report: Report, percent: int
) -> None:
    """Ranks in step leave private copies to those that are late. What one engine reads a second
    time is promoted."""
    flags = {"pool_size": "400Mi", "promotion_percent": str(percent), "prefault": "off"}
    fleet = Fleet(tmp_path, None, loopback(2), 2 * EACH, holders=1, **flags)
    try:
        fleet.start()
        fleet.engines += [fleet.engine(1, f"-{rank}") for rank in range(ENGINES)]
        ranks = fleet.engines[1:]

        def over_the_wire(readers: list[EngineProcess], first: int) -> int:
            """All readers at once, call by call."""
            before = fleet.nodes[1].status()["lookups"]["delivered"]["tcp"]["pages"]
            for at in range(first, first + EACH, BATCH):
                count = min(BATCH, first + EACH - at)
                for reader in readers:
                    reader.send("get", first=at, count=count)
                for reader in readers:
                    assert reader.got() == count
            after = fleet.nodes[1].status()["lookups"]["delivered"]["tcp"]["pages"]
            return int(after - before)

        alone = [over_the_wire(ranks[:1], EACH) for _ in range(3)]
        together = [over_the_wire(ranks, 0) for _ in range(2)]
        report.add(
            HEADER,
            f"{f'promotion-percent {percent}':<24} {together[0]:>14} {together[1]:>10} "
            f"{alone[0]:>16} {alone[1]:>6} {alone[2]:>10}",
        )
        if percent:
            assert together[0] <= 1.1 * EACH
            assert together[1] == 0
            assert alone == [EACH, EACH, 0]
        else:
            assert together[0] > 1.1 * EACH
            assert together[1] > EACH
            assert alone == 3 * [EACH]
    finally:
        fleet.stop()

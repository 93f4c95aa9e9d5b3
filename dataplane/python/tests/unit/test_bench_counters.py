"""What ports count during a step of the ladder, and what the ladder makes of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from peercache_bench import counters, ladder
from peercache_bench.counters import Counted, Counters
from peercache_bench.ladder import Climbed, Step

ETHTOOL = """NIC statistics:
     rx_packets: 90
     rx_bytes_phy: 1000
     rx_prio3_pause: 2
     rx_prio3_pause_duration: 77
     rx_discards_phy: 1
"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A device whose GID is that of a bond of two interfaces."""
    port = tmp_path / "class/infiniband/mlx5_bond_0/ports/1"
    (port / "hw_counters").mkdir(parents=True)
    (port / "gid_attrs/ndevs").mkdir(parents=True)
    (port / "gid_attrs/ndevs/0").write_text("bond0\n")
    for name in ("out_of_sequence", "rp_cnp_handled", "lifespan"):
        (port / "hw_counters" / name).write_text("5\n")
    slaves = tmp_path / "class/net/bond0/bonding/slaves"
    slaves.parent.mkdir(parents=True)
    slaves.write_text("eth0 eth1\n")
    of = {"eth0": 100, "eth1": 200}
    monkeypatch.setattr(
        counters, "_statistics", lambda i: {"rx_bytes_phy": of[i]} if i in of else {}
    )
    return tmp_path


def test_what_grew_is_told_by_kind(machine: Path) -> None:
    counted = Counters(["mlx5_bond_0:1"], machine)
    assert counted.grown() == Counted(members={"eth0": 0, "eth1": 0})
    port = machine / "class/infiniband/mlx5_bond_0/ports/1/hw_counters"
    (port / "out_of_sequence").write_text("12\n")
    (port / "rp_cnp_handled").write_text("6\n")
    (port / "lifespan").write_text("900\n")
    grown = counted.grown()
    assert (grown.losses, grown.waits) == ({"out_of_sequence": 7}, {"rp_cnp_handled": 1})
    assert counted.grown().losses == {}


def test_a_host_without_counters_counts_nothing(tmp_path: Path) -> None:
    assert Counters(["rxe0"], tmp_path).grown() == Counted()


def test_statistics_of_interfaces_are_read() -> None:
    wanted = {"rx_bytes_phy": 1000, "rx_prio3_pause": 2, "rx_discards_phy": 1}
    assert counters.parse_statistics(ETHTOOL) == wanted
    assert counters.parse_statistics("no stats available\n") == {}


STEP = Step("slow", but_for=(("fast", "its queue pair"), ("faster", "one thread")))
FAST = {"fast": Climbed(20), "faster": Climbed(30)}
LOST = Counted({"out_of_sequence": 1200})
PAUSED = Counted(waits={"rx_prio3_pause": 1})
UNEVEN, EVEN = Counted(members={"a": 95, "b": 5}), Counted(members={"a": 50, "b": 50})


@pytest.mark.parametrize(
    ("here", "others", "said"),
    [
        (Climbed(10, 50, counted=LOST), FAST, "loss: out_of_sequence +1,200"),
        (Climbed(48, 50), FAST, "the ports"),
        (Climbed(40, 50, counted=PAUSED), FAST, "the network, which asks for less: rx_prio3"),
        (Climbed(25, 50, counted=UNEVEN), {}, "one member of the bond: 95% came by a"),
        (Climbed(25, 50, counted=EVEN), {}, "not shown"),
        (Climbed(10, 50), FAST, "its queue pair: 'fast' is 2.0 times as fast"),
        (Climbed(19, 50), FAST, "one thread: 'faster' is 1.6 times as fast"),
        (Climbed(29, 50, bare=30), FAST, "what bounds ib_read_bw, too"),
        (Climbed(29, 50, bare=40), FAST, "not shown"),
        (Climbed(29), {}, "not shown"),
    ],
)
def test_a_step_names_its_bound(here: Climbed, others: dict[str, Climbed], said: str) -> None:
    assert ladder.bound(STEP, {**others, STEP.name: here}).startswith(said)


def test_a_step_is_compared_with_steps_that_there_are() -> None:
    for ports in (1, 2, 6, 8):
        plan = ladder.steps(ports, 1 << 30)
        names = [step.name for step in plan]
        assert all(name in names for step in plan for name, _ in step.but_for)

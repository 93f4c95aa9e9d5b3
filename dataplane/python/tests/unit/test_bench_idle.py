"""peercache_bench.idle: the setting of the machine is changed for a while, where there is one."""

from __future__ import annotations

from pathlib import Path

import pytest
from peercache_bench.idle import DEFAULT_NS, DRIVER, HALT_POLL_NS, halt_poll_ns, polling_idle


def machine(root: Path, driver: str, ns: str) -> Path:
    for name, text in ((DRIVER, driver), (HALT_POLL_NS, ns)):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{text}\n")
    return root


def test_a_guest_that_halts_at_once_polls_for_a_while(tmp_path: Path) -> None:
    root = machine(tmp_path, "haltpoll", "0")
    seen = []

    def fail() -> None:
        with polling_idle(root) as before:
            seen.extend((before, halt_poll_ns(root)))
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert seen == [0, DEFAULT_NS]
    assert halt_poll_ns(root) == 0


@pytest.mark.parametrize(
    ("driver", "ns"), [("haltpoll", "300000"), ("intel_idle", "0"), ("haltpoll", "much")]
)
def test_other_machines_are_left_alone(tmp_path: Path, driver: str, ns: str) -> None:
    root = machine(tmp_path, driver, ns)
    with polling_idle(root) as before:
        assert before is None
        assert (root / HALT_POLL_NS).read_text() == f"{ns}\n"
    assert (root / HALT_POLL_NS).read_text() == f"{ns}\n"


def test_a_machine_without_the_setting_is_no_fault(tmp_path: Path) -> None:
    with polling_idle(tmp_path) as before:
        assert before is None
    assert halt_poll_ns(tmp_path) is None

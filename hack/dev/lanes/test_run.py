"""The program itself, on lanes of a makefile of its own."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from alarms import WRONG_BYTES


def until(file: str) -> str:
    """A command of a lane that waits for another lane."""
    return f"until [ -e {file} ]; do sleep 0.1; done"


PROGRAM = Path(__file__).parent
# A lane that runs beside, and one that waits until it has ended.
BEGINS = "echo $PPID > own; mv own pid"
ENDED = f"{until('pid')}; until [[ $(ps -o stat= -p $(cat pid)) =~ ^(Z|$) ]]; do sleep 0.1; done"
PASSES = "100% tests passed, 0 tests failed out of 1"


def ctest_summary(*names: str, status: str = "Failed") -> str:
    lines = [
        f"{i}/9 Test  #{i}: {name} ....***{status}  0.1 sec\nlate: 3 s"
        for i, name in enumerate(names)
    ]
    lines += [
        f"50% tests passed, {len(names)} tests failed out of 9",
        "The following tests FAILED:",
    ]
    return "\n".join([*lines, *(f"\t  {i} - {name} ({status})" for i, name in enumerate(names))])


def last_error(said: str) -> list[str]:
    """What a run says after its table, for those who see only the end."""
    lines = said.splitlines()
    return lines[next(i for i, line in enumerate(lines) if line.startswith("=== FAILED")) + 1 :]


class Lanes:
    """Lanes whose recipes are shell scripts. The file `tried` has a line per try: LANE ONLY."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.makefile = folder / "Makefile"
        self.makefile.write_text("SHELL := /bin/bash\n.DEFAULT:\n\t@bash $@.lane\n")

    def add(self, lane: str, script: str) -> None:
        begin = f'echo "{lane}${{ONLY:+ $ONLY}}" >> tried\n'
        (self.folder / f"{lane}.lane").write_text(begin + textwrap.dedent(script))

    def prints(self, lane: str, text: str, status: int, alone: str = PASSES) -> None:
        """What the lane prints, and what it prints when it is given one test."""
        (self.folder / f"{lane}.first").write_text(text + "\n")
        (self.folder / f"{lane}.alone").write_text(alone + "\n")
        self.add(
            lane,
            f"""\
            if [ -n "${{ONLY:-}}" ]; then cat {lane}.alone; ! grep -q FAILED {lane}.alone; exit; fi
            cat {lane}.first; exit {status}
            """,
        )

    def run(
        self, *lanes: str, ci: bool = True, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        others = (
            "CI",
            "ONLY",
            "ARTIFACTS",
            "MAKEFLAGS",
            "MAKELEVEL",
            "FULL",
            "AGAIN",
            "UNDER_LOAD",
        )
        environment = {k: v for k, v in os.environ.items() if k not in others}
        return subprocess.run(
            [sys.executable, PROGRAM, *lanes],
            cwd=self.folder,
            env={**environment, **({"CI": "true"} if ci else {}), **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
            check=False,
        )

    @property
    def tried(self) -> list[str]:
        return (self.folder / "tried").read_text().splitlines()

    def table(self, name: str) -> list[dict[str, str]]:
        with (self.folder / "build" / "lanes" / name).open() as file:
            return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


@pytest.fixture
def lanes(tmp_path: Path) -> Lanes:
    return Lanes(tmp_path)


def test_lanes_run_in_order_and_their_times_are_kept(lanes: Lanes) -> None:
    lanes.add("test-checks", "sleep 1.2; echo modelled")
    lanes.prints("test-cpp", "all well", 0)
    done = lanes.run("test-checks", "test-cpp")
    assert done.returncode == 0, done.stdout
    assert lanes.tried == ["test-checks", "test-cpp"]
    assert "modelled" in done.stdout
    assert "all lanes passed" in done.stdout
    rows = lanes.table("lanes.tsv")
    assert [(row["lane"], row["result"]) for row in rows] == [
        ("test-checks", "passed"),
        ("test-cpp", "passed"),
    ]
    assert int(rows[0]["seconds"]) >= 1
    assert lanes.table("flaky.tsv") == []


def test_the_first_lane_that_fails_ends_the_run(lanes: Lanes) -> None:
    lanes.add("test-checks", "echo 'a guard is missing'; exit 1")
    lanes.prints("test-cpp", "", 0)
    done = lanes.run("test-checks", "test-cpp")
    assert done.returncode == 1
    assert lanes.tried == ["test-checks"]
    assert lanes.table("lanes.tsv")[0]["result"] == "FAILED"
    assert last_error(done.stdout) == [
        "error: test-checks is not tried again",
        "    a guard is missing",
        "    make: *** [Makefile:3: test-checks] Error 1",
    ]


def test_a_test_that_fails_once_and_passes_alone_is_listed(lanes: Lanes) -> None:
    lanes.prints("test-cpp", ctest_summary("Suite.Waits/1"), 2)
    lanes.prints("test-faults", "", 0)
    done = lanes.run("test-cpp", "test-faults")
    assert done.returncode == 0, done.stdout
    assert lanes.tried == ["test-cpp", "test-faults", "test-cpp Suite.Waits/1"]
    (row,) = lanes.table("flaky.tsv")
    assert (row["lane"], row["name"], row["second try"]) == ("test-cpp", "Suite.Waits/1", "passed")
    assert row["reason"].endswith("late: 3 s")
    said = done.stdout.splitlines()[-4:]
    assert said[0] == "FLAKY: Suite.Waits/1 of lane test-cpp failed once, and passed alone:"
    assert said[2] == "    late: 3 s"


def test_a_test_that_fails_twice_fails_the_run(lanes: Lanes) -> None:
    lanes.prints("test-cpp", ctest_summary("Suite.Waits"), 2, alone=ctest_summary("Suite.Waits"))
    done = lanes.run("test-cpp")
    assert done.returncode == 1
    assert lanes.tried == ["test-cpp", "test-cpp Suite.Waits"]
    assert lanes.table("flaky.tsv")[0]["second try"] == "failed"
    assert "FLAKY" not in done.stdout
    assert last_error(done.stdout) == [
        "error: test-cpp: Suite.Waits failed again; see build/lanes/test-cpp.again-1.log",
        "    0/9 Test  #0: Suite.Waits ....***Failed  0.1 sec",
        "    late: 3 s",
    ]


def test_a_second_try_that_runs_nothing_proves_nothing(lanes: Lanes) -> None:
    lanes.prints("test-cpp", ctest_summary("Suite.Waits"), 2, alone="No tests were found!!!")
    assert lanes.run("test-cpp").returncode == 1


REPORTS = [
    f"{WRONG_BYTES}: page 7 of key 12: 8 of 4096 bytes differ from byte 40 on",
    "==12==ERROR: AddressSanitizer: heap-use-after-free on address 0x1",
    "AddressSanitizer:DEADLYSIGNAL",
    "==12==ERROR: LeakSanitizer: detected memory leaks",
    "WARNING: ThreadSanitizer: data race (pid=12)",
    "==12==WARNING: MemorySanitizer: use-of-uninitialized-value",
    "pool.cc:12:3: runtime error: signed integer overflow",
    "SUMMARY: UndefinedBehaviorSanitizer: undefined-behavior pool.cc:12:3",
    "==12== ERROR: libFuzzer: deadly signal",
    "WARNING: DATA RACE",
]


@pytest.mark.parametrize("report", REPORTS, ids=[f"report-{i}" for i in range(len(REPORTS))])
@pytest.mark.parametrize("status", [0, 2], ids=["unnoticed", "failed"])
def test_wrong_bytes_and_sanitizers_end_the_run(lanes: Lanes, report: str, status: int) -> None:
    lanes.prints("test-cpp", f"{report}\n{ctest_summary('Suite.Waits')}", status)
    done = lanes.run("test-cpp", "test-envtest")
    assert done.returncode == 1
    assert lanes.tried == ["test-cpp"]
    assert "not tried again" in done.stdout


def test_wrong_bytes_of_the_second_try_end_the_run(lanes: Lanes) -> None:
    lanes.prints(
        "test-cpp", ctest_summary("Suite.Waits"), 2, alone=f"{WRONG_BYTES}: page 7\n{PASSES}"
    )
    assert lanes.run("test-cpp").returncode == 1


@pytest.mark.parametrize("lane", ["test-model", "test-kill", "test-fuzz", "lint", "build-cpp"])
def test_lanes_that_search_are_never_tried_again(lanes: Lanes, lane: str) -> None:
    lanes.prints(
        lane, ctest_summary("Suite.Waits") + "\nFAILED tests/a.py::test_b\n1 failed in 2.00s", 2
    )
    assert lanes.run(lane).returncode == 1
    assert lanes.tried == [lane]


FAILED_PYTEST = "FAILED tests/a.py::test_b - late\n1 failed in 2.00s"
FAILED_GUEST = "    FAIL   12 s  40-nodes (status 1)\nerror: 1 of 13 tests failed: 40-nodes"


@pytest.mark.parametrize(
    ("lane", "text", "name", "alone"),
    [
        ("test-tsan", ctest_summary("Suite.Waits"), "Suite.Waits", PASSES),
        ("test-faults", FAILED_PYTEST, "tests/a.py::test_b", "1 passed in 2.00s"),
        ("test-hostile", FAILED_PYTEST, "tests/a.py::test_b", "1 passed in 2.00s"),
        ("test-stress", FAILED_PYTEST, "tests/a.py::test_b", "1 passed in 2.00s"),
        ("test-rdma", FAILED_GUEST, "40-nodes", "    all 1 tests passed in 20 s"),
    ],
)
def test_a_named_test_of_any_lane_is_tried_again(
    lanes: Lanes, lane: str, text: str, name: str, alone: str
) -> None:
    lanes.prints(lane, text, 2, alone=alone)
    done = lanes.run(lane)
    assert done.returncode == 0, done.stdout
    assert lanes.tried == [lane, f"{lane} {name}"]


@pytest.mark.parametrize(
    "line", ["terminate called after throwing", "12 Segmentation fault", "exit: -6 (SIGABRT)"]
)
def test_a_crash_is_not_tried_again(lanes: Lanes, line: str) -> None:
    lanes.prints("test-python", f"{line}\n{FAILED_PYTEST}", 1, alone="1 passed in 2.00s")
    done = lanes.run("test-python")
    assert done.returncode == 1
    assert lanes.tried == ["test-python"]
    assert "a crash" in last_error(done.stdout)[0]


def test_as_many_as_may_be_tried_are(lanes: Lanes) -> None:
    names = [f"A.N{i}" for i in range(11)]
    lanes.prints("test-cpp", ctest_summary(*names), 2)
    done = lanes.run("test-cpp")
    assert done.returncode == 1
    assert lanes.tried == ["test-cpp"]
    assert [line for line in last_error(done.stdout) if line.startswith("error: ")] == [
        "error: test-cpp: 11 tests failed, and 10 more may be tried",
        *(f"error: test-cpp: {name}" for name in names),
    ]


def test_all_lanes_share_the_tries(lanes: Lanes) -> None:
    lanes.prints("test-cpp", ctest_summary("A.A", "A.B"), 2)
    go = "--- FAIL: TestA (0.00s)\nFAIL\tm/a\t0.010s\n--- FAIL: TestB (0.00s)\nFAIL\tm/b\t0.010s"
    lanes.prints("test-envtest", go, 2)
    done = lanes.run("test-cpp", "test-envtest", AGAIN="3")
    assert done.returncode == 1
    assert lanes.tried == ["test-cpp", "test-envtest"]
    assert "2 tests failed, and 1 more may be tried" in done.stdout
    assert "test-cpp: A.B failed, and was not tried again" in "".join(last_error(done.stdout))
    assert lanes.table("flaky.tsv") == []


@pytest.mark.parametrize(
    ("full", "whole"),
    [
        ("", ""),
        ("all", "test-go test-fuzz"),
        ("test-fuzz", "test-fuzz"),
        ("test-go e2e", "test-go"),
    ],
)
def test_lanes_are_told_which_of_them_run_at_full_length(
    lanes: Lanes, full: str, whole: str
) -> None:
    for lane in ("test-go", "test-fuzz"):  # the second runs beside
        lanes.add(lane, f'[ "${{FULL:-}}" != 1 ] || echo {lane} >> whole')
    lanes.run("test-fuzz", "test-go", FULL=full)
    said = lanes.folder / "whole"
    assert sorted(said.read_text().split() if said.exists() else []) == sorted(whole.split())


@pytest.mark.parametrize("killed", [False, True])
def test_under_load_every_processor_spins_until_the_end(lanes: Lanes, killed: bool) -> None:
    # $PPID is make's, whose parent runs the lanes.
    lanes.add(
        "test-go",
        f"""\
        run=$(ps -o ppid= -p $PPID | tr -d ' ')
        grep -lsz "kill -0 $run; .* & done; wai[t]" /proc/[0-9]*/cmdline | cut -d/ -f3 > spins
        {"kill -9 $run" if killed else "true"}
        """,
    )
    assert (lanes.run("test-go", UNDER_LOAD="1").returncode == 0) == (not killed)
    pids = (lanes.folder / "spins").read_text().split()
    assert len(pids) >= 1 + len(os.sched_getaffinity(0))
    deadline = time.monotonic() + 60
    while any(Path("/proc", pid, "cmdline").exists() for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_build_that_fails_has_no_named_test(lanes: Lanes) -> None:
    lanes.prints(
        "test-cpp", "node.cc:12:3: error: expected ';'\nninja: build stopped: subcommand failed.", 2
    )
    assert lanes.run("test-cpp").returncode == 1
    assert lanes.tried == ["test-cpp"]


def test_nothing_is_tried_again_where_that_is_asked_for(lanes: Lanes) -> None:
    lanes.prints("test-cpp", ctest_summary("Suite.Waits"), 2)
    assert lanes.run("test-cpp", AGAIN="0").returncode == 1
    assert lanes.tried == ["test-cpp"]


@pytest.mark.parametrize(
    "says",
    [
        "The following tests did not run:\n\t 33 - IoEngineTest.Uring/0 (Skipped)",
        "======= 3 passed, 1 skipped, 2 warnings in 0.10s =======",
        "1 skipped in 0.10s",
    ],
)
def test_a_test_that_was_skipped_fails_its_lane_in_ci(lanes: Lanes, says: str) -> None:
    lanes.prints("test-tsan", f"100% tests passed, 0 tests failed out of 9\n{says}", 0)
    done = lanes.run("test-tsan")
    assert done.returncode == 1
    assert "a test was skipped" in done.stdout
    assert lanes.run("test-tsan", ci=False).returncode == 0


def test_fuzzing_runs_beside_the_lanes_after_it(lanes: Lanes) -> None:
    lanes.add("test-fuzz", f"{until('attacked')}; echo fuzzed")
    lanes.prints("test-faults", "", 0)
    lanes.add("test-stress", "echo attacked; touch attacked")
    done = lanes.run("test-fuzz", "test-faults", "test-stress")
    assert done.returncode == 0, done.stdout
    assert done.stdout.index("attacked") < done.stdout.index("fuzzed")
    assert [row["lane"] for row in lanes.table("lanes.tsv")] == [
        "test-faults",
        "test-stress",
        "test-fuzz",
    ]


def test_what_is_tried_again_runs_at_the_end_when_nothing_runs_beside(lanes: Lanes) -> None:
    lanes.add("test-fuzz", f"{until('late')}; sleep 0.5; touch fuzzed")
    (lanes.folder / "first").write_text(ctest_summary("A.Late") + "\n")
    again = f'[ -z "$ONLY" ] || {{ test -e fuzzed && echo "{PASSES}"; exit; }}\n'
    lanes.add("test-cpp", again + "cat first; exit 1")
    lanes.add("test-faults", "touch late")
    done = lanes.run("test-fuzz", "test-cpp", "test-faults")
    assert done.returncode == 0, done.stdout
    assert lanes.tried[-1] == "test-cpp A.Late"


def test_lanes_go_on_when_a_test_beside_them_is_to_be_tried_again(lanes: Lanes) -> None:
    go = "--- FAIL: TestA (0.00s)\nFAIL\tm/a\t0.010s"
    lanes.prints("test-go", go, 1, alone="ok  \tm/a\t0.01s")
    lanes.add("test-go", f"{BEGINS}\n" + (lanes.folder / "test-go.lane").read_text())
    lanes.add("test-faults", ENDED)
    lanes.prints("test-stress", "", 0)
    done = lanes.run("test-go", "test-faults", "test-stress")
    assert done.returncode == 0, done.stdout
    assert "test-stress" in lanes.tried


def test_several_lanes_run_beside_others(lanes: Lanes) -> None:
    lanes.add("e2e-build", f"{until('began')}; sleep 2; touch built; echo built")
    lanes.add("test-fuzz", f"{until('began')}; echo fuzzed")
    lanes.add("test-faults", "touch began")
    lanes.add("test-stress", f"{until('built')}; echo attacked")
    done = lanes.run("e2e-build", "test-fuzz", "test-faults", "test-stress")
    assert done.returncode == 0, done.stdout
    assert done.stdout.index("attacked") < done.stdout.index("fuzzed")
    rows = lanes.table("lanes.tsv")
    assert [row["lane"] for row in rows] == [
        "test-faults",
        "test-stress",
        "e2e-build",
        "test-fuzz",
    ]
    assert int(rows[3]["seconds"]) < int(rows[1]["seconds"]) + 2, "its own, not those of the wait"


def test_guests_begin_when_nothing_runs_beside(lanes: Lanes) -> None:
    lanes.add("ratio-rdma", f"{until('checked')}; sleep 0.5; touch counted")
    lanes.add("test-checks", "touch checked")
    lanes.add("test-rdma", "test -e counted")
    lanes.prints("test-stress", "attacked", 0)
    done = lanes.run("ratio-rdma", "test-checks", "test-rdma", "test-stress")
    assert done.returncode == 0, done.stdout
    rows = [row["lane"] for row in lanes.table("lanes.tsv")]
    assert rows == ["test-checks", "ratio-rdma", "test-rdma", "test-stress"]


def test_a_lane_begins_when_its_build_has_ended_and_others_go_on(lanes: Lanes) -> None:
    lanes.add("build-cpp", f"{until('python')}; sleep 0.5; touch built")
    lanes.add("test-fuzz", f"{until('cpp')}; touch fuzzed")
    lanes.add("test-python", "touch python")
    lanes.add("test-cpp", "test -e built && test ! -e fuzzed && touch cpp")
    done = lanes.run("build-cpp", "test-fuzz", "test-python", "test-cpp")
    assert done.returncode == 0, done.stdout
    rows = [row["lane"] for row in lanes.table("lanes.tsv")]
    assert rows == ["test-python", "build-cpp", "test-cpp", "test-fuzz"]


@pytest.mark.parametrize(
    ("beside", "says", "then", "after"),
    [
        ("build-tsan", "no such type", "test-python", "test-tsan"),
        ("ratio-rdma", "ratio outside of 0.93", "test-checks", "test-rdma"),
    ],
)
def test_neither_a_builds_lane_nor_guests_begin_after_a_failure_beside(
    lanes: Lanes, beside: str, says: str, then: str, after: str
) -> None:
    lanes.add(beside, f"sleep 1; echo '{says}'; exit 1")
    lanes.prints(then, "", 0)
    lanes.prints(after, "", 0)
    done = lanes.run(beside, then, after)
    assert done.returncode == 1
    assert says in done.stdout
    assert after not in lanes.tried


def test_a_build_that_fails_beside_ends_the_run_and_is_not_tried_again(lanes: Lanes) -> None:
    lanes.add("e2e-build", f"{BEGINS}; echo 'no image'; exit 1")
    lanes.add("test-faults", ENDED)
    lanes.prints("test-stress", "", 0)
    done = lanes.run("e2e-build", "test-faults", "test-stress")
    assert done.returncode == 1
    assert "no image" in done.stdout
    assert "e2e-build is not tried again" in done.stdout
    assert sorted(lanes.tried) == ["e2e-build", "test-faults"]


def test_what_fuzzing_finds_ends_the_run_after_the_present_lane(lanes: Lanes) -> None:
    lanes.add("test-fuzz", f"{BEGINS}; echo '==1== ERROR: libFuzzer: deadly signal'; exit 1")
    lanes.add("test-faults", ENDED)
    lanes.prints("test-stress", "", 0)
    done = lanes.run("test-fuzz", "test-faults", "test-stress")
    assert done.returncode == 1
    assert "deadly signal" in done.stdout
    assert sorted(lanes.tried) == ["test-faults", "test-fuzz"]


def test_fuzzing_ends_with_the_run(lanes: Lanes) -> None:
    lanes.add("test-fuzz", "echo $$ > pid; sleep 100")
    lanes.add("test-faults", "until [ -s pid ]; do sleep 0.1; done; exit 1")
    assert lanes.run("test-fuzz", "test-faults").returncode == 1
    process = Path("/proc", (lanes.folder / "pid").read_text().strip())
    deadline = time.monotonic() + 10
    while process.exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)

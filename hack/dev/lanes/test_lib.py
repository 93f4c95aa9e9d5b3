"""hack/lib.sh: downloads are tried again."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

LIB = Path(__file__).parents[2] / "lib.sh"


def bash(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    begin = f"set -euo pipefail; . {LIB}; RETRY_PAUSES=(0 0.1 0.2)\n"
    return subprocess.run(
        ["bash", "-c", begin + script], cwd=folder, capture_output=True, text=True, check=False
    )


FAILS = """
    download() {
      echo try >> tries; echo 'E: the mirror refuses' >&2; [ $(wc -l < tries) -gt %d ] || return 7
    }
"""


@pytest.mark.parametrize(
    ("failures", "status", "tries"), [(0, 0, 1), (2, 0, 3), (3, 0, 4), (9, 7, 4)]
)
def test_a_download_is_tried_four_times(
    tmp_path: Path, failures: int, status: int, tries: int
) -> None:
    done = bash(tmp_path, FAILS % failures + "retried download; echo went on")
    assert done.returncode == status
    assert (tmp_path / "tries").read_text().count("try") == tries
    assert done.stdout == ("went on\n" if status == 0 else "")
    assert done.stderr.count("tried again") == tries - 1
    assert done.stderr.count("the mirror refuses") == tries


def test_the_reason_of_a_quiet_download_is_shown_with_the_fix(tmp_path: Path) -> None:
    script = FAILS % 9 + "retried logged log '^nothing' download || die 'no image' 'run it again'"
    done = bash(tmp_path, script)
    assert done.returncode == 1
    assert "E: the mirror refuses" in done.stderr
    assert "error: no image\n  fix: run it again\n" in done.stderr
    assert "E: the mirror refuses" in (tmp_path / "log").read_text()


def test_a_failure_ends_the_script(tmp_path: Path) -> None:
    done = bash(tmp_path, "retried false; echo went on")
    assert done.returncode == 1
    assert done.stdout == ""


def test_mmdebstrap_gets_a_descriptor_that_its_shell_knows(tmp_path: Path) -> None:
    """dash takes `>&10` for a syntax error, and locks may have taken all descriptors below."""
    locks = "for fd in 3 4 5 6 7 8 9; do eval 'exec '$fd'</dev/null'; done\n"
    few = bash(tmp_path, f"{locks}standard_streams_only sh -c 'ls /proc/self/fd'; echo went on")
    assert few.returncode == 0, few.stderr
    assert [line for line in few.stdout.split() if line.isdigit() and int(line) > 3] == []
    assert few.stdout.endswith("went on\n")

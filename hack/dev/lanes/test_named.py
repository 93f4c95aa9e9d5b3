"""What the frameworks write is understood: the real ones, but for ginkgo, which compiles long."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from named import CTEST, GINKGO, GO, PYTEST, SOFT_RDMA_KUBERNETES


def output(folder: Path, *command: str) -> list[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "GOFLAGS"))}
    done = subprocess.run(
        command,
        cwd=folder,
        env={**environment, "CI": "true", "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.stdout.splitlines()


def ctest(folder: Path, tests: dict[str, str], *arguments: str) -> list[str]:
    lines = [f'add_test("{name}" "/bin/bash" "-c" "{script}")' for name, script in tests.items()]
    (folder / "CTestTestfile.cmake").write_text("\n".join(lines))
    return output(folder, "ctest", "--output-on-failure", "--no-tests=error", *arguments)


def test_ctest(tmp_path: Path) -> None:
    tests = {
        "All/Suite.Waits/1": "echo late; exit 1",
        "All/Suite.Waits/(a, b)": "exit 1",
        "Suite.Works": "exit 0",
    }
    lines = ctest(tmp_path, tests)
    assert CTEST.failed(lines) == ["All/Suite.Waits/1", "All/Suite.Waits/(a, b)"]
    assert CTEST.reason(lines, "All/Suite.Waits/1").splitlines()[-1].strip() in ("late", "")
    assert "late" in CTEST.reason(lines, "All/Suite.Waits/1")
    assert not CTEST.one_passed(lines)
    assert CTEST.one_passed(ctest(tmp_path, tests, "-R", "^Suite[.]Works$"))
    assert not CTEST.one_passed(ctest(tmp_path, tests, "-R", "^nothing$"))
    assert not CTEST.one_passed(ctest(tmp_path, {"A": "exit 0", "B": "exit 0"}))


def test_a_crash_under_ctest_has_no_name(tmp_path: Path) -> None:
    assert CTEST.failed(ctest(tmp_path, {"A.Waits": "exit 1", "A.Crashes": "kill -SEGV $$"})) == []


PYTHON = """
    import pytest

    @pytest.mark.parametrize("text", ["a - b", "c"])
    def test_parameter(text):
        assert text == "c", "too late"

    @pytest.fixture
    def broken():
        raise OSError("nobody answers")

    def test_fixture(broken):
        pass

    class TestClass:
        def test_method(self):
            assert False

    def test_works():
        pass
"""


def run_pytest(folder: Path, *arguments: str) -> list[str]:
    return output(
        folder, sys.executable, "-m", "pytest", "-ra", "-p", "no:cacheprovider", *arguments
    )


@pytest.mark.parametrize("quiet", [[], ["-q"], ["-v", "-s"]], ids=["plain", "quiet", "verbose"])
def test_pytest(tmp_path: Path, quiet: list[str]) -> None:
    (tmp_path / "test_it.py").write_text(textwrap.dedent(PYTHON))
    lines = run_pytest(tmp_path, *quiet)
    names = PYTEST.failed(lines)
    assert sorted(names) == [
        "test_it.py::TestClass::test_method",
        "test_it.py::test_fixture",
        "test_it.py::test_parameter[a - b]",
    ]
    assert "too late" in PYTEST.reason(
        lines, names[names.index("test_it.py::test_parameter[a - b]")]
    )
    assert "nobody answers" in PYTEST.reason(lines, "test_it.py::test_fixture")
    assert PYTEST.one_passed(run_pytest(tmp_path, *quiet, "test_it.py::test_works"))
    assert not PYTEST.one_passed(run_pytest(tmp_path, *quiet, "test_it.py::test_none"))
    assert not PYTEST.one_passed(lines)


def test_a_module_that_python_cannot_import_has_no_name(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text("import nothing_of_that_name")
    (tmp_path / "test_b.py").write_text("def test_b(): assert 0")
    assert PYTEST.failed(run_pytest(tmp_path)) == []


def go(folder: Path, tests: dict[str, str], *arguments: str) -> list[str]:
    (folder / "go.mod").write_text("module m.example/m\n\ngo 1.24\n")
    for package, body in tests.items():
        (folder / package).mkdir(exist_ok=True)
        function = f"func Test{package.title()}(t *testing.T) {{ {body} }}"
        text = f'package {package}\n\nimport "testing"\n\n{function}\n'
        (folder / package / "x_test.go").write_text(text)
    return output(folder, "go", "test", *arguments, *(f"./{package}" for package in tests))


LATE = 't.Run("sub", func(t *testing.T) { t.Error("late: 3 s") })'


def test_go(tmp_path: Path) -> None:
    lines = go(tmp_path, {"a": LATE, "b": ""})
    assert GO.failed(lines) == ["m.example/m/a.TestA"]
    assert "late: 3 s" in GO.reason(lines, "m.example/m/a.TestA")
    assert not GO.one_passed(lines)
    assert GO.one_passed(go(tmp_path, {"b": ""}, "-run", "^TestB$"))
    assert not GO.one_passed(go(tmp_path, {"b": ""}, "-run", "^TestNone$"))


@pytest.mark.parametrize(
    "body", ["var m map[int]int; m[1] = 1", "undefined()"], ids=["panic", "build"]
)
def test_what_go_could_not_run_has_no_name(tmp_path: Path, body: str) -> None:
    assert GO.failed(go(tmp_path, {"a": LATE, "b": body})) == []


def test_soft_rdma_kubernetes() -> None:
    late = [
        "    two nodes of the cache run (92 s)",
        "error: not within 600 s: condition Ready is True",
        "  fix: see the logs",
        "make[1]: *** [hack/lab/soft-rdma.mk:26: test-rdma-kubernetes] Error 1",
    ]
    assert SOFT_RDMA_KUBERNETES.failed(late) == ["kubernetes"]
    assert SOFT_RDMA_KUBERNETES.reason(late, "kubernetes").splitlines() == late[1:3]
    assert not SOFT_RDMA_KUBERNETES.one_passed(late)
    wrong = "error: not so: numa1: no byte was wrong in 3 passes meanwhile"
    assert SOFT_RDMA_KUBERNETES.failed([wrong]) == []
    assert SOFT_RDMA_KUBERNETES.failed(["error: no disk"]) == []
    assert SOFT_RDMA_KUBERNETES.one_passed(["==> all is as it should be after 213 s"])


SUMMARY = """\
------------------------------
• [FAILED] [0.001 seconds]
PeerCache moves pages [It] works: (a) b
e2e/s_test.go:21

  Timeline >>
  STEP: hop @ 11/24/26 19:47:01.512
  [FAILED] late
------------------------------

Summarizing {count} Failure{s}:
{lines}

Ran 3 of 3 Specs in 0.001 seconds
FAIL!{how} -- 1 Passed | {count} Failed | 0 Pending | 0 Skipped
--- FAIL: TestE2E (0.00s)
FAIL"""


def summary(*lines: str, how: str = "") -> list[str]:
    text = "\n".join(f"  {line}\n  e2e/s_test.go:21" for line in lines)
    return SUMMARY.format(
        count=len(lines), s="s"[: len(lines) - 1], lines=text, how=how
    ).splitlines()


def test_ginkgo() -> None:
    lines = summary(
        "[FAIL] PeerCache moves pages [It] works: (a) b",
        "[FAIL] PeerCache [BeforeEach] before never comes",
        "[TIMEDOUT] PeerCache stands bad input [It] of any kind",
    )
    assert GINKGO.failed(lines) == [
        "PeerCache moves pages > works: (a) b",
        "PeerCache before never comes",
        "PeerCache stands bad input > of any kind",
    ]
    report = "  [TIMEDOUT] in [It] - e2e/s_test.go:65 @ 11/29/26 10:19:38.53"
    lines = [report, *summary("[TIMEDOUT] PeerCache a [BeforeAll] of b, in c")]
    assert GINKGO.failed(lines) == ["PeerCache a > of b, in c"], "with its container"
    lines = summary("[FAIL] PeerCache moves pages [It] works: (a) b")
    assert "[FAILED] late" in GINKGO.reason(lines, "PeerCache moves pages > works: (a) b")
    assert GINKGO.again("PeerCache moves pages > works: (a) b") == "PeerCache moves pages"
    assert GINKGO.again("PeerCache before never comes") == "PeerCache before never comes"
    assert GINKGO.failed(summary("[FAIL] PeerCache a [It] b", how=" - Suite Timeout Elapsed")) == []
    assert GINKGO.failed(summary("[FAIL] PeerCache a [It] b", "[FAIL] [BeforeSuite] ")) == []
    assert GINKGO.failed(summary("[PANICKED!] PeerCache a [It] b")) == []
    one = [
        "Ran 12 of 60 Specs in 9.1 seconds",
        "SUCCESS! -- 12 Passed | 0 Failed | 0 Pending | 48 Skipped",
    ]
    assert GINKGO.one_passed(one)
    assert not GINKGO.one_passed([one[0].replace("Ran 12", "Ran 0"), one[1].replace("12 P", "0 P")])

"""hack/lab/demo.sh: its machine gets a browser, and CI does not pass without the picture."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

LAB = Path(__file__).parents[2] / "lab"
BROWSER = """
    for one; do case $one in --screenshot=*) file=${one#*=};; esac; done
    %s
"""


def program(folder: Path, name: str, body: str) -> None:
    file = folder / name
    file.write_text(f"#!/bin/bash\n{body}\n")
    file.chmod(0o755)


def picture(folder: Path, browser: str | None, ci: str) -> subprocess.CompletedProcess[str]:
    """Nothing but the browser under test and what the script needs is on PATH."""
    programs = folder / "bin"
    programs.mkdir()
    for name in ("bash", "dirname", "mkdir", "rm", "timeout", "printf"):
        (programs / name).symlink_to(f"/usr/bin/{name}")
    if browser is not None:
        program(programs, "chromium", BROWSER % browser)
    return subprocess.run(
        [LAB / "picture.sh", "http://127.0.0.1:1/", folder / "new" / "page.png"],
        env={"PATH": str(programs), "HOME": str(folder), "CI": ci},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("ci", ["", "true"])
def test_the_browser_makes_the_picture(tmp_path: Path, ci: str) -> None:
    done = picture(tmp_path, 'echo pixels > "$file"', ci)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "new/page.png").read_text() == "pixels\n"


@pytest.mark.parametrize("browser", [None, "exit 1", "true"])
@pytest.mark.parametrize(("ci", "status"), [("", 0), ("true", 1)])
def test_without_a_picture_ci_fails(
    tmp_path: Path, browser: str | None, ci: str, status: int
) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new/page.png").write_text("of an earlier run")
    done = picture(tmp_path, browser, ci)
    assert done.returncode == status, done.stderr
    assert "no picture of " in done.stderr
    assert not (tmp_path / "new/page.png").exists()


def test_the_demo_installs_a_browser(tmp_path: Path) -> None:
    program(tmp_path, "dpkg-query", "")
    program(tmp_path, "apt-get", f'echo "$@" >> {tmp_path}/asked')
    program(tmp_path, "id", "echo 0")
    subprocess.run(
        [LAB.parent / "dev/deps.sh", "--cluster"],
        env={
            **os.environ,
            "PATH": f"{tmp_path}:{os.environ['PATH']}",
            "PEERCACHE_CACHE": str(tmp_path),
        },
        capture_output=True,
        check=True,
    )
    wanted = (tmp_path / "asked").read_text().split()
    assert "runc" in wanted
    assert ("chromium" in wanted) == (
        "ID=ubuntu" not in Path("/etc/os-release").read_text().split()
    )


def cluster(folder: Path, *args: str, docker: str, provider: str = "") -> str:
    """What hack/lab/cluster/cluster prints where the docker of PATH is this script."""
    program(folder, "docker", docker)
    environment = {
        **os.environ,
        "PATH": f"{folder}:{os.environ['PATH']}",
        "PEERCACHE_CLUSTER_DIR": str(folder / "cluster"),
        "PROVIDER": provider,
    }
    done = subprocess.run(
        [LAB / "cluster/cluster", *args],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("docker", "provider", "chosen"),
    [
        ("exit 0", "", "kind"),
        ("exit 1", "", "local"),  # no engine answers
        ('[ "$1" = info ]', "", "local"),  # nor can the image of kind be pulled
        ("exit 0", "local", "local"),
        ("exit 1", "kind", "kind"),
    ],
)
def test_the_demo_takes_kind_where_docker_answers(
    tmp_path: Path, docker: str, provider: str, chosen: str
) -> None:
    assert cluster(tmp_path, "provider", docker=docker, provider=provider) == chosen


def test_kind_builds_no_kubernetes() -> None:
    rows = subprocess.run(
        ["bash", "-c", f'. {LAB}/../lib.sh; . {LAB}/cluster/toolset.sh; echo "$KIND_TOOLSET"'],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\n")
    programs = [row.split()[1] for row in rows if row]
    assert sorted(programs) == ["helm", "kind", "kubectl", "mkimage"]
    assert '"$HERE/cluster/cluster" programs' in (LAB / "demo.sh").read_text()


def manifest(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [LAB / "demo" / "manifest.sh", *arguments], capture_output=True, text=True, check=False
    )


def test_the_readmes_manifest_suits_machines_without_a_gpu() -> None:
    done = manifest()
    assert done.returncode == 0, done.stderr
    assert "kind: PeerCacheCluster" in done.stdout
    assert "selector:" not in done.stdout  # no machine would take part
    assert "pool: 256Mi" in done.stdout


def test_a_manifest_that_cannot_be_made_to_suit_is_an_error(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    text = (LAB.parents[1] / "README.md").read_text()
    readme.write_text(text.replace("gpu.present", "gpu.there"))
    done = manifest(str(readme))
    assert done.returncode != 0
    assert "has no 'selector" in done.stderr


def test_the_readme_says_which_engines_the_demo_runs() -> None:
    readme = (LAB.parents[1] / "README.md").read_text()
    files = {file.stem: file.read_text() for file in (LAB / "demo").glob("*.sh")}
    engines = {name: text for name, text in files.items() if "ENGINE_WHAT=" in text}
    assert set(engines) == {"hicache", "sglang", "vllm"}
    assert "ENGINE=${ENGINE:-hicache}" in (LAB / "demo.sh").read_text()
    assert "SGLang's storage layer on a CPU" in engines["hicache"]
    assert "| `make demo` | SGLang's storage layer " in readme
    assert "PROVIDER=local ENGINE=$ENGINE make demo" in files["servers"]
    for engine, name in (("sglang", "SGLang"), ("vllm", "vLLM")):
        assert "demo/servers.sh" in engines[engine]
        row = f"| `ENGINE={engine} PROVIDER=local make demo` | two whole {name} servers on a CPU"
        assert row in readme


def test_the_demo_names_its_engines() -> None:
    done = subprocess.run(
        [LAB / "demo.sh"],
        env={**os.environ, "ENGINE": "servers"},  # a file that is no engine's
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "fix: use hicache, sglang or vllm" in done.stdout + done.stderr

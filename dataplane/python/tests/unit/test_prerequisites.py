"""Libraries that are missing are named at once, as README and pyproject.toml name them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

DATAPLANE = Path(__file__).parents[3]
PREREQUISITES = (DATAPLANE / "cmake/prerequisites.cmake").read_text()
PACKAGES = set(re.findall(r"peercache_need_\w+\(\w.* ([-\w]+)\)", PREREQUISITES)) | {"pkg-config"}


def test_an_error_names_all_that_is_missing(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            "cmake",
            *("-S", DATAPLANE, "-B", tmp_path),
            *(
                "-DCMAKE_DISABLE_FIND_PACKAGE_nlohmann_json=ON",
                "-DCMAKE_DISABLE_FIND_PACKAGE_CLI11=ON",
            ),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    said = " ".join(done.stderr.split())
    assert done.returncode != 0
    assert "apt-get install -y nlohmann-json3-dev libcli11-dev" in said, done.stderr


def test_pages_install_what_is_needed() -> None:
    assert len(PACKAGES) >= 12
    for page in (DATAPLANE.parent / "README.md", DATAPLANE / "pyproject.toml"):
        text = page.read_text().replace("#", " ").replace("\\\n", " ")
        command = re.search(r"apt-get install -y (.*)", text)
        assert command is not None, page
        assert set(command[1].split()) == PACKAGES | {"g++"}, page

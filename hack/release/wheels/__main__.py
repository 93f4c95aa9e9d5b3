"""Wheels of the Python package out of the client's image: wheels FOLDER ARCHIVE...

Each archive holds the package and an extension for each CPython, built and checked for images that
are not ours. An archive of another architecture gives the wheels of that architecture.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

from image import files
from wheel import EXTENSION, Package

ROOT = Path(__file__).parents[3]
PACKAGE = "opt/peercache/python/"
NOTICES = "usr/share/doc/"
COMPILED = "usr/share/peercache/compiled-in"


def package(found: dict[str, bytes]) -> Package:
    with (ROOT / "dataplane/pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    named = [
        line.removeprefix("Package: ")
        for line in found.get(COMPILED, b"").decode().splitlines()
        if line.startswith("Package: ")
    ]
    notices = {name: found.get(f"{NOTICES}{name}/copyright") for name in named}
    return Package(
        project=project,
        version=(ROOT / "VERSION").read_text().strip(),
        sources={
            path.removeprefix(PACKAGE): text
            for path, text in sorted(found.items())
            if path.startswith(PACKAGE) and not EXTENSION.fullmatch(Path(path).name)
        },
        licences={
            "LICENSE": (ROOT / "LICENSE").read_bytes(),
            **{f"{name}.txt": text for name, text in notices.items() if text},
        },
    )


def main() -> int:
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for archive in map(Path, sys.argv[2:]):
        found = files(archive, (PACKAGE, NOTICES, COMPILED))
        made = package(found)
        extensions = {p: t for p, t in sorted(found.items()) if EXTENSION.fullmatch(Path(p).name)}
        if not extensions:
            print(f"error: {archive} holds no extension of the Python package", file=sys.stderr)
            return 1
        for path, content in extensions.items():
            print(f"    {made.write(folder, Path(path).name, content)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

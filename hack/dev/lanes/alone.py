"""Compiles each C++ header of dataplane/src that a change touches by itself.

The lanes build several sources as one, where a file may use what another one includes. An editor
and `make test-cpp IN=...` do not. The change is that of touched.py; where it is not known, it is
all headers: two seconds of a processor each.

    alone.py COMPILE_COMMANDS.json
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from touched import changed, git

SOURCES = "dataplane/src/"
# Which the first command may not name: few folders use the C header.
C_HEADER = "dataplane/include"


def flags(command: str) -> list[str]:
    """Of a command that compiles: without -o, -c and what follows them."""
    words = shlex.split(command)
    dropped = {i + n for i, word in enumerate(words) if word in ("-o", "-c") for n in (0, 1)}
    return [word for i, word in enumerate(words) if i not in dropped]


def headers(paths: list[str]) -> list[str]:
    """Those that are there still."""
    return sorted(
        path
        for path in paths
        if path.startswith(SOURCES) and path.endswith(".h") and Path(path).exists()
    )


def compile_alone(command: list[str], path: str) -> str:
    """What the compiler says; "" when it is well."""
    # Its pragma is about being included.
    language = ["-x", "c++", "-Wno-pragma-once-outside-header"]
    done = subprocess.run(
        [*command, "-fsyntax-only", *language, path],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return f"{path} does not compile by itself:\n{done.stdout}" if done.returncode else ""


def main() -> None:
    commands = json.loads(Path(sys.argv[1]).read_text())
    command = [*flags(commands[0]["command"]), f"-I{C_HEADER}"]
    paths = changed()
    wanted = headers(git("ls-files", SOURCES).splitlines() if paths is None else paths)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        said = list(filter(None, pool.map(lambda path: compile_alone(command, path), wanted)))
    print("".join(said), end="")
    if said:
        sys.exit(1)


if __name__ == "__main__":
    main()

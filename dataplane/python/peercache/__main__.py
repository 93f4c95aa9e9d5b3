"""``python -m peercache``: which PeerCache this interpreter has, and whether it loads; and whether
an extra-config is right."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from peercache.core.config import ConfigError, parse
from peercache.core.extension import ExtensionMissing, load


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m peercache",
        description="PeerCache's Python package. SGLang loads it through "
        "--hicache-storage-backend dynamic; see the package's documentation (pydoc peercache).",
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    check = commands.add_parser(
        "check-config",
        help="check an extra-config, also one of the original PeerCache",
        description="Checks what --hicache-storage-backend-extra-config has. Prints every key that "
        "is wrong, with what to write instead, and exits with 1. Starts nothing.",
    )
    check.add_argument("file", help="a file with the JSON object; - for standard input")
    arguments = parser.parse_args(argv)
    if arguments.command == "check-config":
        return check_config(arguments.file)
    try:
        version = load().__version__
    except ExtensionMissing as error:
        print(error, file=sys.stderr)
        return 1
    if not arguments.version:
        parser.print_help()
        return 0
    print(f"peercache {version}")
    return 0


def check_config(file: str) -> int:
    """The exit status: 0 where the extra-config works."""
    try:
        extra = json.loads(sys.stdin.read() if file == "-" else Path(file).read_text())
    except (OSError, ValueError) as error:
        print(f"{file}: {error}: name a file with a JSON object", file=sys.stderr)
        return 1
    if not isinstance(extra, dict):
        print(f"{file}: it is not a JSON object: write {{...}} around the keys", file=sys.stderr)
        return 1
    try:
        config = parse(extra, {})
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 1
    for note in config.notes:
        print(f"note: {note}")
    where = f"the node at {config.socket}" if config.socket else "a node in this process"
    print(f"ok: engines use {where}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

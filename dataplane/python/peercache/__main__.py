"""``python -m peercache --version``: which PeerCache this interpreter has, and whether it loads."""

from __future__ import annotations

import argparse
import sys

from peercache.core.extension import ExtensionMissing, load


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m peercache",
        description="PeerCache's Python package. SGLang loads it through "
        "--hicache-storage-backend dynamic; see the package's documentation (pydoc peercache).",
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    arguments = parser.parse_args(argv)
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


if __name__ == "__main__":
    sys.exit(main())

"""The version for scikit-build-core: from the repository, or from a source distribution."""

from __future__ import annotations

from collections.abc import Mapping
from email.parser import HeaderParser
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).resolve().parents[2]


def dynamic_metadata(field: str, settings: Mapping[str, Any]) -> str:
    if field != "version" or settings:
        raise ValueError(f"this provider gives the field version, not {field} with {settings}")
    return read_version(_FOLDER)


def read_version(folder: Path) -> str:
    """``folder`` holds pyproject.toml; the repository's VERSION is in the folder above."""
    version_file = folder.parent / "VERSION"
    if (folder.parent / "dataplane").is_dir() and version_file.is_file():
        return version_file.read_text().strip()
    package_info = folder / "PKG-INFO"
    if package_info.is_file():
        return str(HeaderParser().parsestr(package_info.read_text())["Version"])
    raise FileNotFoundError(
        f"neither {version_file} nor {package_info} exists: build from a checkout "
        "of the repository or from a source distribution"
    )

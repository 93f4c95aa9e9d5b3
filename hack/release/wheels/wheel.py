"""One wheel: the package with the extension for one CPython."""

from __future__ import annotations

import base64
import hashlib
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# The image's build refuses extensions that need a newer C library, or any other library.
PLATFORM = "manylinux_2_35"
EXTENSION = re.compile(r"_peercache\.cpython-(3\d+)-(\w+)-linux-gnu\.so")


@dataclass(frozen=True)
class Package:
    """What all wheels of a version have in common."""

    project: Mapping[str, Any]  # [project] of pyproject.toml
    version: str
    sources: Mapping[str, bytes]  # by path in the wheel
    licences: Mapping[str, bytes]  # by name

    @property
    def stem(self) -> str:
        return f"{self.project['name'].replace('-', '_')}-{self.version}"

    def write(self, folder: Path, extension: str, content: bytes) -> Path:
        match = EXTENSION.fullmatch(extension)
        if not match:
            raise ValueError(f"{extension} is no extension of CPython")
        python, machine = match.groups()
        tag = f"cp{python}-cp{python}-{PLATFORM}_{machine}"
        info = f"{self.stem}.dist-info"
        files = {
            **self.sources,
            f"peercache/{extension}": content,
            f"{info}/METADATA": self._metadata(),
            f"{info}/WHEEL": (
                f"Wheel-Version: 1.0\nGenerator: peercache\nRoot-Is-Purelib: false\nTag: {tag}\n"
            ).encode(),
            **{f"{info}/licenses/{name}": text for name, text in self.licences.items()},
        }
        files[f"{info}/RECORD"] = _record(files, f"{info}/RECORD")
        path = folder / f"{self.stem}-{tag}.whl"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
            for name, text in files.items():
                wheel.writestr(_entry(name), text)
        return path

    def _metadata(self) -> bytes:
        project = self.project
        lines = [
            "Metadata-Version: 2.4",
            f"Name: {project['name']}",
            f"Version: {self.version}",
            f"Summary: {project['description']}",
            f"License-Expression: {project['license']['text']}",
            *(f"License-File: {name}" for name in self.licences),
            f"Requires-Python: {project['requires-python']}",
            *(f"Project-URL: {label}, {url}" for label, url in project["urls"].items()),
            *(f"Classifier: {classifier}" for classifier in project["classifiers"]),
            f"Description-Content-Type: {project['readme']['content-type']}",
        ]
        text: str = project["readme"]["text"]
        return ("\n".join(lines) + "\n\n" + text).encode()


def _record(files: Mapping[str, bytes], own: str) -> bytes:
    lines = []
    for name, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(text)}")
    return "\n".join([*lines, f"{own},,", ""]).encode()


def _entry(name: str) -> zipfile.ZipInfo:
    """The same sources give the same wheel: entries have no time."""
    entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    entry.external_attr = (0o755 if name.endswith(".so") else 0o644) << 16
    entry.compress_type = zipfile.ZIP_DEFLATED
    return entry

"""Files of an image that is a docker archive."""

from __future__ import annotations

import io
import json
import posixpath
import tarfile
from pathlib import Path


def files(archive: Path, folders: tuple[str, ...]) -> dict[str, bytes]:
    """The regular files below some folders, by path. A later layer replaces and removes files."""
    found: dict[str, bytes] = {}
    with tarfile.open(archive) as image:
        manifest = json.loads(_read(image, "manifest.json"))
        for layer in manifest[0]["Layers"]:
            with tarfile.open(fileobj=io.BytesIO(_read(image, layer))) as content:
                _add(found, content, folders)
    return found


def _read(image: tarfile.TarFile, name: str) -> bytes:
    member = image.getmember(name)
    if member.issym():  # a layer that is equal to another
        member = image.getmember(posixpath.join(posixpath.dirname(name), member.linkname))
    file = image.extractfile(member)
    if file is None:
        raise ValueError(f"{name} of the archive is no file")
    return file.read()


def _add(found: dict[str, bytes], layer: tarfile.TarFile, folders: tuple[str, ...]) -> None:
    for member in layer:
        name = posixpath.normpath(member.name).lstrip("/")
        folder, base = posixpath.split(name)
        if base.startswith(".wh."):
            gone = folder if base == ".wh..wh..opq" else posixpath.join(folder, base[4:])
            for known in [k for k in found if k == gone or k.startswith(gone + "/")]:
                del found[known]
        elif member.isfile() and name.startswith(folders):
            file = layer.extractfile(member)
            found[name] = file.read() if file else b""

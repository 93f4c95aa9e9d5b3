"""Wheels of a small image, as pip reads them."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

PROGRAM = Path(__file__).parent
ROOT = PROGRAM.parents[2]
PACKAGE = "opt/peercache/python/peercache"


def tar(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def save(path: Path, *layers: dict[str, bytes]) -> Path:
    names = [f"{i}/layer.tar" for i in range(len(layers))]
    manifest = json.dumps([{"Config": "config.json", "Layers": names}]).encode()
    content = dict(zip(names, map(tar, layers), strict=True))
    path.write_bytes(tar({**content, "manifest.json": manifest}))
    return path


def make(folder: Path, *archives: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(PROGRAM), str(folder), *map(str, archives)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def client(path: Path, machine: str) -> Path:
    return save(
        path,
        {"usr/share/doc/libasio-dev/copyright": b"old", f"{PACKAGE}/gone.py": b"gone"},
        {
            f"{PACKAGE}/__init__.py": b"x = 1\n",
            f"{PACKAGE}/py.typed": b"",
            f"{PACKAGE}/.wh.gone.py": b"",
            f"{PACKAGE}/_peercache.cpython-310-{machine}-linux-gnu.so": b"ELF 310",
            f"{PACKAGE}/_peercache.cpython-314-{machine}-linux-gnu.so": b"ELF 314",
            "usr/share/peercache/compiled-in": b"Package: libasio-dev\nVersion: 1\n",
            "usr/share/doc/libasio-dev/copyright": b"Boost",
            "usr/share/doc/libc6/copyright": b"is not compiled in",
        },
    )


def test_a_wheel_for_each_cpython_and_machine(tmp_path: Path) -> None:
    archives = [client(tmp_path / "a.tar", "x86_64"), client(tmp_path / "b.tar", "aarch64")]
    done = make(tmp_path / "wheels", *archives)
    assert done.returncode == 0, done.stderr
    version = (ROOT / "VERSION").read_text().strip()
    assert sorted(path.name for path in (tmp_path / "wheels").iterdir()) == [
        f"peercache_k8s-{version}-cp3{minor}-cp3{minor}-manylinux_2_35_{machine}.whl"
        for minor in (10, 14)
        for machine in ("aarch64", "x86_64")
    ]


def test_its_content(tmp_path: Path) -> None:
    make(tmp_path / "wheels", client(tmp_path / "a.tar", "x86_64"))
    path = next((tmp_path / "wheels").glob("*cp314*"))
    with zipfile.ZipFile(path) as wheel:
        files = {name: wheel.read(name) for name in wheel.namelist()}
    info = path.name.partition("-cp")[0] + ".dist-info"
    record = {
        name: digest
        for name, digest, _ in csv.reader(files[f"{info}/RECORD"].decode().splitlines())
    }
    assert record.keys() == files.keys()
    for name, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        assert record[name] == ("" if name.endswith("RECORD") else f"sha256={digest}")
    assert [name for name in files if not name.startswith(info)] == [
        "peercache/__init__.py",
        "peercache/py.typed",
        "peercache/_peercache.cpython-314-x86_64-linux-gnu.so",
    ]
    about = Parser().parsestr(files[f"{info}/METADATA"].decode())
    assert about["Name"] == "peercache-k8s"
    assert about["License-Expression"] == "Apache-2.0"
    assert about.get_all("License-File") == ["LICENSE", "libasio-dev.txt"]
    assert files[f"{info}/licenses/libasio-dev.txt"] == b"Boost"
    assert b"cp314-cp314-manylinux_2_35_x86_64" in files[f"{info}/WHEEL"]


def test_the_same_image_gives_the_same_wheel(tmp_path: Path) -> None:
    for out in ("one", "two"):
        make(tmp_path / out, client(tmp_path / "a.tar", "x86_64"))
    one, two = (sorted((tmp_path / out).iterdir()) for out in ("one", "two"))
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in two]


def test_an_image_without_the_package_is_refused(tmp_path: Path) -> None:
    done = make(tmp_path / "wheels", save(tmp_path / "a.tar", {"etc/motd": b"hello"}))
    assert done.returncode == 1
    assert "holds no extension of the Python package" in done.stderr


def test_the_source_distribution_has_the_licence() -> None:
    assert (ROOT / "dataplane/LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()

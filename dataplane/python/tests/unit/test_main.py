"""``python -m peercache`` and the messages of a missing extension."""

from __future__ import annotations

import types
from pathlib import Path

import pytest
from peercache import __main__
from peercache.core import extension


def test_version(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(__main__, "load", lambda: types.SimpleNamespace(__version__="1.2.3"))
    assert __main__.main(["--version"]) == 0
    assert capsys.readouterr().out == "peercache 1.2.3\n"


def test_help_when_nothing_is_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(__main__, "load", lambda: types.SimpleNamespace(__version__="1.2.3"))
    assert __main__.main([]) == 0
    assert "--version" in capsys.readouterr().out


def test_a_missing_extension_says_what_there_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: object
) -> None:
    def fail(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(extension.importlib, "import_module", fail)
    monkeypatch.setattr(extension.sysconfig, "get_config_var", lambda name: "cpython-399-none")
    assert __main__.main(["--version"]) == 1
    message = capsys.readouterr().err
    assert "has no _peercache.cpython-399-none.so for this interpreter" in message
    assert "pip install ./dataplane" in message


def test_an_extension_that_does_not_load_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> None:
        raise ImportError("libfoo.so.1: cannot open shared object file")

    monkeypatch.setattr(extension.importlib, "import_module", fail)
    with pytest.raises(extension.ExtensionMissing, match="does not load: libfoo"):
        extension.load()


@pytest.mark.parametrize(
    ("text", "status", "said"),
    [
        ('{"socket": "/run/peercache/default.sock"}', 0, "ok: engines use the node at /run/"),
        ('{"discovery_addr": "a:1", "protocol": "rdma"}', 0, "note: "),
        ('{"discovery_addr": "a:1", "gid_index": 3, "mode": "hybrid"}', 1, "has 2 errors:"),
        ("{", 1, "name a file with a JSON object"),
        ("[]", 1, "it is not a JSON object"),
    ],
)
def test_check_config(
    text: str, status: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "extra.json"
    file.write_text(text)
    assert __main__.main(["check-config", str(file)]) == status
    printed = capsys.readouterr()
    assert said in (printed.err if status else printed.out)


def test_check_config_without_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert __main__.main(["check-config", "/nowhere.json"]) == 1
    assert "/nowhere.json" in capsys.readouterr().err

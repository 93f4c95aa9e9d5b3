"""docs/migrate.md: the keys, commands and metrics of this project that it names exist."""

from __future__ import annotations

import re

import pytest
from peercache.core import config
from peercache.core.config_keys import KEYS, REFUSED
from peercache_bench import refused

from ..conftest import PYTHON, ROOT

PAGE = (ROOT / "docs" / "migrate.md").read_text()
# Values with which a key of the original is accepted, where any other is an error.
VALUES = re.compile(r"only `(\w+)`")


def rows(heading: str) -> list[list[str]]:
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[1:]]


def code(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_each_key_of_the_original_is_taken_or_refused_as_the_page_says() -> None:
    named: set[str] = set()
    for keys, here, *_ in rows("Keys of the extra config"):
        for key in code(keys):
            named.add(key)
            assert (key in REFUSED) == here.startswith("refused"), key
            assert (key in KEYS) != (key in REFUSED), key
            only = VALUES.search(here)
            if only:
                base = {"discovery_addr": "10.0.0.1:31998"}
                config.parse({**base, key: only[1]}, {})
                with pytest.raises(config.ConfigError):
                    config.parse({**base, key: "other"}, {})
    assert set(REFUSED) <= named
    assert len(named) > 30


def test_other_keys_of_the_page_exist() -> None:
    for keys, here, *_ in rows("Keys of the extra config"):
        for key in code(here):
            assert (
                key in KEYS
                or ":" in key
                or key in {"1", "true", "tcp", "auto", "rdma", "p2p", "local"}
            ), (keys, key)
    new = PAGE.split("New keys that you may need are ")[1].split("All keys are in")[0]
    assert len(code(new)) > 5
    assert set(code(new)) <= set(KEYS)


def test_the_disk_is_off_until_it_is_asked_for() -> None:
    def disk(**keys: object) -> bool:
        parsed = config.parse({"discovery_addr": "10.0.0.1:31998", **keys}, {})
        return "disk-path" in (parsed.node_options or {})

    assert not disk()
    assert disk(disk_enabled=True)
    assert disk(disk_path="/mnt/nvme0/peercache")


def test_fields_of_the_crd_are_those_that_set_the_same_option() -> None:
    options = (ROOT / "operator" / "plan" / "options.go").read_text()
    free = options.split("var freeOptions")[1].split("\n}")[0]
    field_of = dict(re.findall(r'"([-a-z]+)": +"([\w.\[\]]*)"', options))
    for keys, _, here in rows("Keys of the extra config"):
        for key in code(keys):
            flag = KEYS[key].flag if key in KEYS else ""
            field = "extraConfig" if f'"{flag}"' in free else field_of.get(flag, "")
            if field and flag:
                assert re.search(rf"`{re.escape(field)}\b", here), (key, field)


def test_commands_and_flags_are_what_the_page_says() -> None:
    bench = "".join(file.read_text() for file in (PYTHON / "peercache_bench").glob("*.py"))
    flags: list[str] = []
    for before, here in rows("Commands"):
        if here.startswith("the same names"):
            for command in code(before):
                assert f'"{command.split()[-1]}"' in bench, command
        flags += [flag for flag in code(before) if flag.startswith("--")]
    assert set(flags) <= set(refused.FLAGS)
    assert len(flags) > 3
    assert "--mooncake" in bench
    assert "mooncake" in refused.COMMANDS


def test_the_metrics_are_those_of_the_table_in_metrics() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text()
    table = dict(re.findall(r"^\| `(peercache_\w+)[^`]*` \| `(.+)` \|$", page, re.MULTILINE))
    listed = rows("Metrics")
    assert len(listed) > 4
    for before, now in listed:
        assert table[before.strip("`")] == now.strip("`"), before

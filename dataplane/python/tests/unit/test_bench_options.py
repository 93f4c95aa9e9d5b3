"""peercache-bench: what is taken from the command line, and what is refused."""

from __future__ import annotations

import argparse
import shlex

import pytest
from peercache_bench import options
from peercache_bench.__main__ import main
from peercache_bench.options import Settings
from peercache_bench.refused import FLAGS
from peercache_bench.units import counts, number, size, size_text, sizes


def parsed(*words: str) -> Settings:
    parser = argparse.ArgumentParser()
    options.add_shape(parser)
    options.add_load(parser)
    options.add_output(parser)
    return options.settings(parser.parse_args(words), ("get",))


@pytest.mark.parametrize(
    ("text", "value"), [("131072", 131072), ("128k", 131072), ("1MiB", 1 << 20), ("0.5g", 1 << 29)]
)
def test_size(text: str, value: int) -> None:
    assert size(text) == value


@pytest.mark.parametrize("text", ["", "0", "-1", "12x", "0.3", "1e3"])
def test_size_refuses(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is not"):
        size(text)


def test_lists_keep_their_order_and_lose_repetitions() -> None:
    assert counts("4,1,4") == (4, 1)
    assert sizes("4k,1m") == (4096, 1 << 20)


def test_numbers_are_short() -> None:
    assert [number(x) for x in (0, 0.01234, 12.34, 12345.6)] == ["0", "0.0123", "12.3", "12,346"]
    assert [size_text(x) for x in (100, 4096, 1536, 3 << 20)] == [
        "100 B",
        "4 KiB",
        "1536 B",
        "3 MiB",
    ]


def test_flags_of_the_original_mean_what_they_meant() -> None:
    s = parsed(
        *shlex.split(
            "--layout mha --page-size 1048576 --tokens-per-page 32 --batch-size 128 --duration 10 "
            "--warmup 2 --working-set 8192 --concurrencies 1,2,4 --processes 8 --op get "
            "--protocol tcp --dir-cache-ttl 5 --max-bytes 1gb --out-dir x --tag rdma"
        )
    )
    assert (s.layouts, s.page_bytes, s.tokens_per_page, s.batch) == (("mha",), 1 << 20, 32, 128)
    assert (s.threads, s.processes, s.operations) == ((1, 2, 4), (8,), ("get",))
    assert (s.seconds, s.warmup, s.dir_cache_ttl) == (10, 2, 5)
    assert s.pages_of(s.page_bytes) == 1024, "max-bytes cuts the working set"


@pytest.mark.parametrize("flag", FLAGS)
@pytest.mark.parametrize("value", [[], ["mlx5_0"]])
def test_other_flags_are_refused_by_name(
    flag: str, value: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["throughput", flag, *value])
    assert f"{flag}: {FLAGS[flag]}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--protocol", "udp"], "'udp' (choose from 'tcp', 'auto', 'rdma')"),
        (["--duration", "0"], "--duration 0"),
        (["--page-size", "100"], "not a multiple of 8"),
        (["--working-set", "3", "--concurrencies", "4"], "--working-set 3: fewer pages"),
        (["--max-bytes", "4k"], "--max-bytes 4096: less than one page"),
        (["--layout", "mqa"], '"mqa" is none of: mla, mha, both'),
    ],
)
def test_what_does_not_fit_names_its_flag(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["throughput", *words])
    assert said in capsys.readouterr().err


def test_only_gets_come_into_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["drive", "--discovery-addr=a:1", "--gpu", "--op=exists"])
    assert "--gpu with --op exists: only get" in capsys.readouterr().err


def test_commands_of_the_original_are_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mooncake", "--anything"]) == 1
    assert "mooncake: `others --mooncake PYTHON` measures" in capsys.readouterr().err


def test_without_a_build_the_error_says_what_to_do(
    capsys: pytest.CaptureFixture[str], tmp_path: object
) -> None:
    assert main(["throughput", "--build", str(tmp_path)]) == 1
    assert "make build" in capsys.readouterr().err

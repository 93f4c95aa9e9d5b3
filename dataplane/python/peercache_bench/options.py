"""The flags of the subcommands, and Settings: what they mean, checked."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from peercache_bench.refused import add_refused
from peercache_bench.units import GIB, KIB, MIB, count, counts, seconds, size

# Segments of a page in the host pool: HiCache's page_first layout keeps K and V apart, and MLA has
# one latent for both.
LAYOUTS = {"mla": 1, "mha": 2}
OPERATIONS = ("set", "exists", "get")
SOURCES = ("remote", "local")
PROTOCOLS = ("tcp", "auto", "rdma")
# 4 KiB .. 16 MiB.
SWEEP_SIZES = tuple(4 * KIB << i for i in range(13))
ASYNC_SIZES = (32 * KIB, 64 * KIB, 256 * KIB, MIB)
ASYNC_REQUESTS = (1, 10, 50, 100)
WINDOWS = (2, 4, 8, 16)
# Bytes of the working set, unless it is named: more than the caches of a processor.
WORKING_SET_BYTES = 512 * MIB


@dataclass(frozen=True)
class Settings:
    """The checked flags: what to measure, and for how long."""

    layouts: tuple[str, ...] = ("mla",)
    segments: int = 0  # 0: as the layout has
    page_bytes: int = 128 * KIB
    tokens_per_page: int = 64
    batch: int = 32
    threads: tuple[int, ...] = (1, 2, 4)
    processes: tuple[int, ...] = (1,)
    operations: tuple[str, ...] = OPERATIONS
    source: str = "remote"
    seconds: float = 5
    warmup: float = 1
    repeat: int = 1
    working_set: int = 0  # pages; 0: WORKING_SET_BYTES
    max_bytes: int = 64 * GIB
    check: bool = False
    limits: bool = True
    dir_cache_ttl: float | None = None
    protocols: tuple[str, ...] = ("tcp",)  # how nodes send pages; more than one only of sweep
    sizes: tuple[int, ...] = SWEEP_SIZES
    requests: tuple[int, ...] = ASYNC_REQUESTS
    windows: tuple[int, ...] = WINDOWS
    in_flight: int = 256
    gpu: bool = False  # pages come into its memory

    def segments_of(self, layout: str) -> int:
        return self.segments or LAYOUTS[layout]

    def pages_of(self, page_bytes: int, least: int = 1) -> int:
        """Pages of the working set."""
        pages = self.working_set or WORKING_SET_BYTES // page_bytes
        return max(min(pages, self.max_bytes // page_bytes), least)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def _choices(known: Sequence[str], every: str) -> Any:
    def parse(text: str) -> tuple[str, ...]:
        parts = tuple(dict.fromkeys(text.lower().split(",")))
        if parts == (every,):
            return tuple(known)
        wrong = [part for part in parts if part not in known]
        if wrong:
            raise argparse.ArgumentTypeError(
                f'"{wrong[0]}" is none of: {", ".join(known)}, {every}'
            )
        return parts

    return parse


def add_shape(parser: argparse.ArgumentParser, *, gpu: bool = False) -> None:
    """Adds the flags of every command that moves pages; ``gpu``: also to one."""
    shape = parser.add_argument_group("pages")
    shape.add_argument(
        "--layout", type=_choices(tuple(LAYOUTS), "both"), default=("mla",), metavar="mla|mha|both",
        help="of the host pool: mla has one segment a page, mha two (default: mla)",
    )  # fmt: skip
    shape.add_argument(
        "--segments", type=count, default=0, metavar="N",
        help="segments a page instead, as layer_first has: layers, or twice as many for mha",
    )  # fmt: skip
    shape.add_argument(
        "--page-size", type=size, default=128 * KIB, metavar="SIZE", help="default: 128k"
    )
    shape.add_argument(
        "--tokens-per-page", type=count, default=64, metavar="N",
        help="to show tokens/s (default: 64)",
    )  # fmt: skip
    shape.add_argument(
        "--batch-size", type=count, default=32, metavar="N", help="pages in a call (default: 32)"
    )
    shape.add_argument(
        "--working-set", type=count, default=0, metavar="PAGES",
        help="distinct pages (default: 512 MiB of them)",
    )  # fmt: skip
    shape.add_argument(
        "--max-bytes", type=size, default=64 * GIB, metavar="SIZE",
        help="the working set is cut to this (default: 64g)",
    )  # fmt: skip
    if gpu:
        shape.add_argument(
            "--gpu", action="store_true",
            help="read the pages into memory of the GPU that CUDA shows first; without the limits "
            "of host memory",
        )  # fmt: skip
    add_refused(parser, but=("--gpu",) if gpu else ())


def add_load(
    parser: argparse.ArgumentParser, threads: tuple[int, ...] = (1, 2, 4), duration: float = 5
) -> None:
    """Adds the flags of every command that measures for a time."""
    load = parser.add_argument_group("load")
    load.add_argument(
        "--concurrencies", "--concurrency", type=counts, default=threads, metavar="1,2,4",
        help=f"engine threads (default: {','.join(map(str, threads))})",
    )  # fmt: skip
    load.add_argument(
        "--processes", type=counts, default=(1,), metavar="1,2",
        help="engine processes, of as many threads each (default: 1)",
    )  # fmt: skip
    load.add_argument(
        "--op", type=_choices(OPERATIONS, "all"), default=None, metavar="get|set|exists|all",
        help="one, or several with commas",
    )  # fmt: skip
    load.add_argument(
        "--source", choices=SOURCES, default="remote",
        help="whose pool get and exists ask for: another node's, or the own (default: remote)",
    )  # fmt: skip
    load.add_argument(
        "--duration", type=seconds, default=duration, metavar="S",
        help=f"of each measurement (default: {duration:g}); set takes three passes instead",
    )  # fmt: skip
    load.add_argument(
        "--warmup", type=seconds, default=1.0, metavar="S", help="before each (default: 1)"
    )
    load.add_argument(
        "--repeat", type=count, default=1, metavar="N",
        help="repetitions; the median one is shown (default: 1)",
    )  # fmt: skip
    load.add_argument(
        "--check", action="store_true",
        help="verify every byte that is read; this costs time, so do not quote such figures",
    )  # fmt: skip
    load.add_argument(
        "--no-limits", dest="limits", action="store_false",
        help="do not measure memcpy and bare TCP beside",
    )  # fmt: skip
    load.add_argument(
        "--dir-cache-ttl", type=seconds, default=None, metavar="S",
        help="how long nodes remember locations (default: the node's own)",
    )  # fmt: skip


def add_output(parser: argparse.ArgumentParser, *, protocols: bool = False) -> None:
    output = parser.add_argument_group("results")
    add_folder(output)
    output.add_argument("--tag", default="", help="names this run, in files and titles")
    add_build(parser, protocols=protocols)


def add_folder(parser: Any) -> None:
    parser.add_argument(
        "--out-dir", type=Path, default=Path("peercache-bench"), metavar="DIR",
        help="for JSON, Markdown, PNG and HTML (default: peercache-bench)",
    )  # fmt: skip


def add_build(parser: argparse.ArgumentParser, *, protocols: bool = False) -> None:
    """``protocols``: several may be named, each to be measured."""
    how = "how nodes send pages: over RDMA, or auto, where they have it (default: tcp)"
    if protocols:
        parser.add_argument(
            "--protocol", type=_choices(PROTOCOLS, "all"), default=("tcp",), dest="protocols",
            metavar="tcp,rdma", help=f"{how}; several with commas, each with nodes of its own",
        )  # fmt: skip
    else:
        parser.add_argument("--protocol", choices=PROTOCOLS, default="tcp", help=how)
    add_nodes(parser)


def add_nodes(parser: argparse.ArgumentParser) -> None:
    """How nodes are started, whatever they send pages over."""
    parser.add_argument(
        "--build", type=Path, default=None, metavar="DIR",
        help="folder of a build with peercached and peercache-perf (default: those installed)",
    )  # fmt: skip
    parser.add_argument(
        "--devices", "--device-name", default="", metavar="NAME[:PORT],...",
        help="RDMA ports of this host's nodes (default: all usable)",
    )  # fmt: skip
    parser.add_argument(
        "--node-option", dest="node_options", type=_option, action="append", default=[],
        metavar="NAME=VALUE", help="an option of peercached, such as io-threads=4; repeatable",
    )  # fmt: skip


def node_options(arguments: argparse.Namespace) -> dict[str, str]:
    """The options of this host's nodes, by the names of peercached's options."""
    options = {"transport": _protocols(arguments)[0]}
    if arguments.devices:
        options["device-name"] = arguments.devices
    return {**options, **dict(arguments.node_options)}


def _protocols(arguments: argparse.Namespace) -> tuple[str, ...]:
    return arguments.protocols if "protocols" in arguments else (arguments.protocol,)


def _option(text: str) -> tuple[str, str]:
    name, equals, value = text.removeprefix("--").partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f'"{text}" is not an option; write io-threads=4')
    return name, value


def settings(arguments: argparse.Namespace, operations: tuple[str, ...]) -> Settings:
    """The settings of the flags. Raises ValueError, which names a flag that does not fit."""
    found = Settings(
        layouts=arguments.layout,
        segments=arguments.segments,
        page_bytes=arguments.page_size,
        tokens_per_page=arguments.tokens_per_page,
        batch=arguments.batch_size,
        threads=arguments.concurrencies,
        processes=arguments.processes,
        operations=arguments.op or operations,
        source=arguments.source,
        seconds=arguments.duration,
        warmup=arguments.warmup,
        repeat=arguments.repeat,
        working_set=arguments.working_set,
        max_bytes=arguments.max_bytes,
        check=arguments.check,
        limits=arguments.limits,
        dir_cache_ttl=arguments.dir_cache_ttl,
        protocols=_protocols(arguments),
        sizes=getattr(arguments, "sizes", SWEEP_SIZES),
        requests=getattr(arguments, "requests", ASYNC_REQUESTS),
        windows=getattr(arguments, "windows", WINDOWS),
        in_flight=getattr(arguments, "in_flight", 256),
        gpu=getattr(arguments, "gpu", False),
    )
    _check(found)
    return found


def _check(s: Settings) -> None:
    if s.seconds == 0:
        raise ValueError("--duration 0: a measurement needs time; write at least 0.1")
    for layout in s.layouts:
        step = 8 * s.segments_of(layout)
        if s.page_bytes % step:
            raise ValueError(
                f"--page-size {s.page_bytes}: not a multiple of {step}, which {layout} pages of "
                f"{s.segments_of(layout)} segments need"
            )
    if s.gpu and s.operations != ("get",):
        raise ValueError(
            f"--gpu with --op {','.join(s.operations)}: only get brings pages into a GPU; leave "
            "out --op"
        )
    if s.max_bytes < s.page_bytes:
        raise ValueError(f"--max-bytes {s.max_bytes}: less than one page of {s.page_bytes}")
    engines = max(s.threads) * max(s.processes)
    if s.working_set and s.pages_of(s.page_bytes) < engines:
        raise ValueError(
            f"--working-set {s.pages_of(s.page_bytes)}: fewer pages than the {engines} threads of "
            "--concurrencies and --processes; name more"
        )

"""published and gets: tables of measurements between two hosts, or on one.

published has the tables that others have published, gets what bounds whole GETs.

Of two hosts one serves, the other measures (of the table servers several serve). All take the same
flags, but for names of devices:

    producer$ peercache-bench published original --devices mlx5_0,mlx5_1
    consumer$ peercache-bench published original --devices mlx5_0,mlx5_1 --host PRODUCER
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from peercache_bench import options, output, published, published_figures
from peercache_bench.errors import BenchError
from peercache_bench.finish import INTERRUPTED, interrupt_on_terminate
from peercache_bench.handshake import driving, serving
from peercache_bench.host import host
from peercache_bench.progress import Progress
from peercache_bench.published import Figures
from peercache_bench.published_figures import Step, Table
from peercache_bench.published_steps import Here, Server, measure, path_of, served
from peercache_bench.units import GIB, count, counts, seconds, size, size_text, sizes

TABLES = ("original", "blocks", "servers", "threads", "async")
DEFAULT_PORT = 31900


def add_commands(commands: Any) -> None:
    sides = (
        "Without --host it serves the steps of a table, until the other side has gone through "
        "them. Both sides take the same flags, but for --devices"
    )
    found = commands.add_parser(
        "published", help="tables that others have published, measured between two hosts",
        description=f"{sides} and --bare. The table async is of one host.",
    )  # fmt: skip
    found.add_argument("table", choices=TABLES)
    _add_calls(found, published_figures.THREADS, "of the table `threads` (default: published)")
    found.add_argument(
        "--concurrency", type=count, default=64, metavar="N",
        help="threads of the tables `blocks` and `servers` (default: 64)",
    )  # fmt: skip
    found.add_argument(
        "--servers", type=count, default=2, metavar="N",
        help="hosts that serve, of the table `servers` (default: 2)",
    )  # fmt: skip
    found.add_argument(
        "--sizes", type=sizes, default=published_figures.BLOCKS, metavar="4k,1m",
        help="pages of the table `blocks` (default: all that are published, 4k to 16m)",
    )  # fmt: skip
    found.add_argument(
        "--bare", default="", metavar="OPTIONS",
        help="options of ib_read_bw on this host, e.g. --bare='-x 3'",
    )  # fmt: skip
    _add_sides(found)
    gets = commands.add_parser(
        "gets", help="whole GETs between two hosts: calls at once, checksums, near and far NUMA",
        description=f"{sides}.",
    )  # fmt: skip
    _add_calls(gets, published_figures.CALLS, "calls at once (default: 1 to 32)")
    _add_sides(gets)
    gets.set_defaults(table="gets", bare="")


def _add_calls(parser: argparse.ArgumentParser, default: tuple[int, ...], what: str) -> None:
    parser.add_argument("--concurrencies", type=counts, default=default, metavar="1,2,4", help=what)


def _add_sides(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--host", default="", metavar="HOST[:PORT]",
        help="where the steps are served, to measure (default: serve them); with a port where that "
        "is not --port; of the table `servers` all hosts that serve, with commas",
    )  # fmt: skip
    parser.add_argument(
        "--working-set", type=size, default=4 * GIB, metavar="SIZE",
        help="of the pages of each step (default: 4g)",
    )  # fmt: skip
    parser.add_argument(
        "--duration", type=seconds, default=10.0, metavar="S", help="of each figure (default: 10)"
    )
    parser.add_argument(
        "--warmup", type=seconds, default=2.0, metavar="S", help="before each (default: 2)"
    )
    parser.add_argument(
        "--numa-node", type=int, default=None, metavar="N",
        help="of `on one NUMA node` (default: of the first port, or of the network interface)",
    )  # fmt: skip
    parser.add_argument(
        "--advertise-addr", default="", metavar="ADDRESS",
        help="where the other host reaches this one (default: found)",
    )  # fmt: skip
    parser.add_argument(
        "--port", type=count, default=DEFAULT_PORT, metavar="PORT",
        help=f"TCP port, with the 33 behind it (default: {DEFAULT_PORT})",
    )  # fmt: skip
    options.add_folder(parser)
    options.add_nodes(parser)
    parser.set_defaults(parser=parser, run=_run)


def table_of(arguments: argparse.Namespace) -> Table:
    ports = len(arguments.devices.split(",")) if arguments.devices else 0
    if arguments.table == "original":
        if not ports:
            raise BenchError("--devices: name the RDMA ports of this host, e.g. mlx5_0,mlx5_1")
        return published_figures.original(ports)
    if arguments.table == "blocks":
        strange = [n for n in arguments.sizes if n not in published_figures.BLOCKS]
        if strange:
            raise BenchError(
                f"--sizes {size_text(strange[0])}: not published; name some of "
                f"{', '.join(map(size_text, published_figures.BLOCKS))}"
            )
        return published_figures.blocks(ports, arguments.concurrency, arguments.sizes)
    if arguments.table == "gets":
        return published_figures.gets(ports, arguments.concurrencies)
    if arguments.table == "servers":
        return published_figures.servers(ports, arguments.servers, arguments.concurrency)
    if arguments.table == "async":
        return published_figures.requests(ports)
    return published_figures.threads(arguments.concurrencies)


def _run(arguments: argparse.Namespace) -> int:
    if not arguments.duration:
        raise ValueError("--duration 0: a measurement needs time; write at least 0.1")
    interrupt_on_terminate()
    table, progress = table_of(arguments), Progress()
    here = Here(
        devices=tuple(filter(None, arguments.devices.split(","))),
        working_set=arguments.working_set,
        seconds=arguments.duration,
        warmup=arguments.warmup,
        first_port=arguments.port + 1,
        advertise=arguments.advertise_addr,
        numa_node=arguments.numa_node,
        bare=arguments.bare,
        build=arguments.build,
        node_options=tuple(f"{name}={value}" for name, value in arguments.node_options),
    )
    if table.name == "async":
        if arguments.host:
            raise BenchError("--host: the table async is of one host; leave it out")
        return _report(arguments, table, "On one host", _alone(table, here, progress))
    plan = (table.steps, here.working_set)
    if arguments.host:
        addresses = addresses_of(arguments)
        path = "; ".join(path_of(*address) for address in addresses)
        return _report(arguments, table, path, _driven(addresses, table, here, plan, progress))
    progress.say(f"serving {len(table.steps)} steps at port {arguments.port}")
    with serving(arguments.port, plan) as peer:
        for step in _each(table, progress):
            with served(step, here) as trouble:
                peer.say(f"cannot {trouble}" if trouble else "ready")
                peer.hear()
    return 0


def _each(table: Table, progress: Progress) -> Iterator[Step]:
    for number, step in enumerate(table.steps, 1):
        progress.say(f"{number} of {len(table.steps)}: {step.title}")
        yield step


def _alone(table: Table, here: Here, progress: Progress) -> Iterator[tuple[Step, Figures | str]]:
    for step in _each(table, progress):
        yield step, measure(step, here, [])


def addresses_of(arguments: argparse.Namespace) -> list[tuple[str, int]]:
    """Where the steps are served: host and port of each."""
    names = arguments.host.split(",")
    wanted = arguments.servers if arguments.table == "servers" else 1
    if len(names) != wanted:
        raise BenchError(
            f"--host {arguments.host}: {len(names)} hosts, and the table {arguments.table} takes "
            f"{wanted}: name each once"
            + (", or change --servers on all hosts" if arguments.table == "servers" else "")
        )
    found = []
    for name in names:
        host, _, port = name.rpartition(":")
        # Without a port; of IPv6 too, which has colons, and brackets only before a port.
        if not host or (":" in host and not host.startswith("[")):
            found.append((name, arguments.port))
        elif port.isdigit():
            found.append((host.strip("[]"), int(port)))
        else:
            raise BenchError(f'--host "{name}": write HOST or HOST:PORT')
    return found


def _driven(
    addresses: Sequence[tuple[str, int]],
    table: Table,
    here: Here,
    plan: object,
    progress: Progress,
) -> Iterator[tuple[Step, Figures | str]]:
    """All hosts serve each step, whether it takes them all or not."""
    servers = [Server(host, port + 1) for host, port in addresses]
    with contextlib.ExitStack() as stack:
        peers = [stack.enter_context(driving(*address, plan)) for address in addresses]
        for step in _each(table, progress):
            said = [peer.hear().partition(" ") for peer in peers]
            trouble = [
                f"{server.host}: {why}"
                for server, (word, _, why) in zip(servers, said, strict=True)
                if word != "ready"
            ]
            yield step, "; ".join(trouble) or measure(step, here, servers)
            for peer in peers:
                peer.say("done")


def _report(
    arguments: argparse.Namespace,
    table: Table,
    path: str,
    found: Iterator[tuple[Step, Figures | str]],
) -> int:
    """Measures, shows and writes, also after a signal."""
    run = {"host": host(), "path": path}
    measured: dict[Step, Figures | str] = {}
    complete = False
    with contextlib.suppress(KeyboardInterrupt):
        for step, figures in found:
            measured[step] = figures
        complete = True
    document = published.document(table, measured, run)
    name = table.name if table.name == "gets" else f"published {table.name}"
    files = output.write_files(
        output.stem(name.replace(" ", "-")),
        f"peercache-bench {name}",
        arguments.out_dir,
        published.values(table, measured, run),
        document,
        [published.chart(table, measured)],
        [] if complete else ["it was stopped before the end"],
    )
    print(document)
    print(f"report: {files[0]}, and {len(files) - 1} files beside it")
    if not complete:
        print("stopped before the end; what was measured is in the files", file=sys.stderr)
        return INTERRUPTED
    return 0

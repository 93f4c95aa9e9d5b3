"""serve and drive: one host holds the pages, the other reads them over the network between them."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from peercache_bench import options, plan
from peercache_bench.binaries import find
from peercache_bench.case import Case
from peercache_bench.commands import READER_POOL, node_options, pool_bytes
from peercache_bench.errors import BenchError
from peercache_bench.finish import finish, interrupt_on_terminate
from peercache_bench.nodes import CLUSTER, BenchNode, start_node, stop_node
from peercache_bench.options import Settings
from peercache_bench.outcome import Outcome
from peercache_bench.perf import Perf, words
from peercache_bench.ports import free_port
from peercache_bench.progress import Progress
from peercache_bench.runner import Runner
from peercache_bench.units import MIB, count, size_text

DEFAULT_PORT = 31998
FIND_SECONDS = 30
POLL_SECONDS = 0.5
OPERATIONS = ("get",)
# Of all pages, the warm-up's too.
LEAST_FALLBACK = 0.01
# More than the caches of a processor.
BARE_BYTES = 256 * MIB


def add_commands(commands: Any) -> None:
    serve = commands.add_parser(
        "serve", help="two hosts: hold the working set, until Ctrl-C",
        description="Starts a node, fills the working set, and prints the other host's command.",
    )  # fmt: skip
    options.add_shape(serve)
    serve.add_argument(
        "--readers", type=count, default=0, metavar="N",
        help="end when so many drives have come and gone (default: stay until Ctrl-C)",
    )  # fmt: skip
    _add_network(serve, f"0.0.0.0:{DEFAULT_PORT}")
    options.add_build(serve)
    serve.set_defaults(parser=serve, run=_serve)

    drive = commands.add_parser(
        "drive", help="two hosts: read what serve holds, and measure",
        description="Starts a node that joins serve's, and measures reads over the network.",
    )  # fmt: skip
    options.add_shape(drive, gpu=True)
    options.add_load(drive)
    _add_network(drive, None)
    drive.add_argument(
        "--bare-port", type=int, default=0, metavar="PORT",
        help="where serve's host sends bare pages, the limit; serve prints it (default: no limit)",
    )  # fmt: skip
    options.add_output(drive)
    drive.set_defaults(parser=drive, run=_drive)


def _add_network(parser: argparse.ArgumentParser, default: str | None) -> None:
    network = parser.add_argument_group("network")
    network.add_argument(
        "--discovery-addr", default=default, required=default is None, metavar="HOST:PORT",
        help="where nodes find each other: of serve, or of nodes that are there"
        + (f" (default: {default})" if default else ""),
    )  # fmt: skip
    network.add_argument(
        "--advertise-addr", default="", metavar="ADDRESS",
        help="where others reach this host (default: found)",
    )  # fmt: skip
    network.add_argument("--cluster", default=CLUSTER, help=f"its name (default: {CLUSTER})")


def discovery(text: str, own_address: str) -> str:
    """The address as others can use it: a wildcard is this host."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError(f'--discovery-addr "{text}" is not HOST:PORT, such as 10.0.0.1:31998')
    return f"{own_address}:{port}" if host in ("", "*", "0.0.0.0") else text


def own_address() -> str:
    """The address that this host uses towards others; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # an address for documentation, routed as any other
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


def drive_command(
    address: str,
    settings: Settings,
    cluster: str,
    bare_port: int,
    given: Mapping[str, str] | None = None,
    protocol: str = "tcp",
) -> str:
    """The command to run on the other host."""
    words = ["peercache-bench", "drive", "--discovery-addr", address]
    words += ["--bare-port", str(bare_port)]
    words += ["--page-size", str(settings.page_bytes)]
    words += ["--working-set", str(settings.pages_of(settings.page_bytes))]
    words += ["--layout", ",".join(settings.layouts), "--batch-size", str(settings.batch)]
    if settings.segments:
        words += ["--segments", str(settings.segments)]
    if cluster != CLUSTER:
        words += ["--cluster", cluster]
    if protocol != "tcp":  # the devices may have other names there
        words += ["--protocol", protocol]
    for name, value in (given or {}).items():
        words += ["--node-option", f"{name}={value}"]
    return shlex.join(words)


def come_and_gone(seen: set[str], members: set[str]) -> set[str]:
    """The drives that have left."""
    return {name for name in seen - members if name.startswith("drive-")}


@contextlib.contextmanager
def _node(
    role: str, arguments: argparse.Namespace, settings: Settings, pool: int
) -> Iterator[tuple[BenchNode, str]]:
    """A node of this host, and the discovery address it uses; it leaves the cluster at the end."""
    address = discovery(arguments.discovery_addr, arguments.advertise_addr or own_address())
    chosen = {
        "node-id": f"{role}-{socket.gethostname()}-{os.getpid()}",
        "cluster": arguments.cluster,
        "pool-size": str(pool),
        "peer-port": "0",  # the port of the discovery address when it is ours and free
        "http-port": str(free_port()),
        "discovery-addr": address,
        # For clusters without a secret among the node options. The pages hold nobody's data.
        "insecure-peers": "on",
        **node_options(settings, options.node_options(arguments)),
    }
    if arguments.advertise_addr:
        chosen["advertise-addr"] = arguments.advertise_addr
    with tempfile.TemporaryDirectory(prefix="peercache-bench-") as folder:
        node = start_node(arguments.build, Path(folder), chosen)
        try:
            node.wait_ready()
            node.settle()
            yield node, address
        finally:
            stop_node(node)


def _members(node: BenchNode) -> set[str]:
    return {str(member["id"]) for member in node.status()["members"]}


def _serve(arguments: argparse.Namespace) -> int:
    interrupt_on_terminate()
    settings = _serve_settings(arguments)
    case = plan.base(settings, "get", settings.layouts[0])
    progress = Progress()
    with contextlib.suppress(KeyboardInterrupt):
        progress.say("starting a node")
        pool = pool_bytes([case])
        with _node("serve", arguments, settings, pool) as (node, address):
            progress.say(f"filling it with {case.pages} pages of {size_text(case.page_bytes)}")
            Runner(Perf(arguments.build), settings, progress, holder=node).fill(case)
            given = dict(arguments.node_options)
            with _bare_sender(arguments.build, case) as bare_port:
                command = drive_command(
                    address, settings, arguments.cluster, bare_port, given, arguments.protocol
                )
                print(f"ready at {address}; on the other host run\n\n  {command}\n", flush=True)
                progress.say("serving until Ctrl-C")
                _wait(node, arguments.readers, progress)
    progress.say("done")
    return 0


@contextlib.contextmanager
def _bare_sender(build: Path | None, case: Case) -> Iterator[int]:
    """Sends pages to whoever connects to the port: what the network does without PeerCache."""
    pages = min(case.pages, BARE_BYTES // case.page_bytes + 1)
    shape = words({"page_bytes": case.page_bytes, "segments": case.segments, "pages": pages})
    command = [str(find("peercache-perf", build)), "tcp-serve", *shape]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise BenchError(f"{' '.join(command)} has ended")
        yield int(json.loads(line)["port"])
    finally:
        process.kill()
        process.wait()


def _serve_settings(arguments: argparse.Namespace) -> Settings:
    """Only the pages matter; checked as for every other command."""
    filled = argparse.ArgumentParser()
    options.add_load(filled)
    load = filled.parse_args([])
    return options.settings(argparse.Namespace(**{**vars(load), **vars(arguments)}), OPERATIONS)


def _wait(node: BenchNode, readers: int, progress: Progress) -> None:
    """Returns when `readers` drives have left, or on a signal."""
    seen: set[str] = set()
    gone: set[str] = set()
    while not readers or len(gone) < readers:
        if node.process.poll() is not None:
            raise BenchError(f"the node has ended: {node.log.read_text(errors='replace')[-2000:]}")
        members = _members(node)
        for name in sorted(members - seen - {node.name}):
            progress.say(f"{name} has joined")
        left = come_and_gone(seen, members) - gone
        for name in sorted(left):
            progress.say(f"{name} has left")
        seen |= members
        gone |= left
        time.sleep(POLL_SECONDS)


def _drive(arguments: argparse.Namespace) -> int:
    settings = options.settings(arguments, OPERATIONS)
    if "set" in settings.operations:
        raise ValueError("--op set: sets stay on the node of their engine; use `throughput` for it")
    if settings.source == "local":
        raise ValueError("--source local: drive reads what another node holds; leave it out")
    progress = Progress()
    return finish(arguments, settings, _measure(arguments, settings, progress), progress)


def _measure(
    arguments: argparse.Namespace, settings: Settings, progress: Progress
) -> Iterator[Outcome]:
    cases = plan.throughput(settings)
    progress.expect(len(cases))
    progress.say("starting a node")
    with _node("drive", arguments, settings, READER_POOL) as (node, address):
        host = _find_serve(node, address)
        # memcpy and bare TCP on this host alone bound nothing that crosses a network.
        bare_from = f"{host}:{arguments.bare_port}" if arguments.bare_port else ""
        alone = replace(settings, limits=settings.limits and bool(bare_from))
        runner = Runner(Perf(arguments.build), alone, progress, reader=node, bare_from=bare_from)
        for case in cases:
            before = delivered(node) if case.transport != "tcp" else {}
            outcome = runner.measure(case)
            if before and (said := fallback(before, delivered(node))):
                outcome = replace(outcome, notes=(*outcome.notes, said))
            if not outcome.figures.hits:
                raise BenchError(
                    f"{case.title}: no page was there: are --page-size "
                    f"({settings.page_bytes}) and --working-set ({case.pages}) those of serve?"
                )
            yield outcome


def delivered(node: BenchNode) -> dict[str, int]:
    """Pages that engines got, by how they came."""
    ways = node.status()["lookups"]["delivered"]
    return {way: int(counts["pages"]) for way, counts in ways.items()}


def fallback(before: Mapping[str, int], after: Mapping[str, int]) -> str:
    """What to say of pages that RDMA did not bring. A link is made while the first ones come."""
    came = {way: pages - before.get(way, 0) for way, pages in after.items()}
    share = came.get("tcp", 0) / max(sum(came.values()), 1)
    if share < LEAST_FALLBACK:
        return ""
    return f"{share:.1%} of the pages came over TCP: see transport in /v1/status of both nodes"


def _find_serve(node: BenchNode, address: str) -> str:
    """Waits until serve is a member; the host that it is reached at."""
    deadline = time.monotonic() + FIND_SECONDS
    while True:
        for member in node.status()["members"]:
            if str(member["id"]).startswith("serve-"):
                return str(member["address"]).rpartition(":")[0]
        if time.monotonic() > deadline:
            raise BenchError(
                f"no serve among the members at {address} after {FIND_SECONDS} s: does it run "
                "there, and does no firewall keep the hosts apart?"
            )
        time.sleep(POLL_SECONDS)

"""Flags of how READs go through the fabric: the address and the class of the node's options."""

from __future__ import annotations

import argparse

from peercache_bench.perf import Options

MOST_CLASS = 255


def traffic_class(text: str) -> int:
    value = int(text) if text.isdigit() else -1
    if not 0 <= value <= MOST_CLASS:
        raise argparse.ArgumentTypeError(
            f'"{text}" is not a traffic class from 0 to {MOST_CLASS}: write DSCP * 4'
        )
    return value


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--gid", default="auto", metavar="WHICH",
        help="as the node's option rdma-gid: auto, ipv4, ipv6, an address, a subnet",
    )  # fmt: skip
    parser.add_argument(
        "--traffic-class", type=traffic_class, default=0, metavar="N",
        help="as the node's option rdma-traffic-class, e.g. 104 for DSCP 26 (default: 0)",
    )  # fmt: skip


def of_perf(arguments: argparse.Namespace) -> Options:
    """For peercache-perf; both sides need the same class, since each sends in its own."""
    return {"gid": arguments.gid, "traffic_class": arguments.traffic_class}


def of_perftest(arguments: argparse.Namespace) -> list[str]:
    """For ib_read_bw, which finds its own address by -x."""
    return [f"--tclass={arguments.traffic_class}"] if arguments.traffic_class else []

"""Bare metal: two processes on one machine, each with a node of its own inside."""

from __future__ import annotations

import pytest

from .. import wrong_bytes
from .conftest import SHM, Cluster
from .processes import free_port, http

PAGES = 200


@pytest.mark.node
def test_two_processes_share_pages(cluster: Cluster) -> None:
    metrics_port = free_port()
    extra = {
        **SHM,
        "discovery_addr": cluster.discovery,
        "protocol": "rdma",
        "device_name": "mlx5_0",
        "global_segment_size": "256mb",
        "local_hostname": "127.0.0.1",
        "huge_pages": "off",
        "timeout_ms": 10000,  # what is shared is tested here, and not how soon on a busy machine
    }
    host = cluster.bare_engine("host", {**extra, "control_port": cluster.discovery_port})
    guest = cluster.bare_engine("guest", {**extra, "metrics_port": metrics_port})
    assert "asks for RDMA" in host.output() or "ask for RDMA" in host.output()
    scenario = {"kind": "mha", "layout": "page_first", "seed": 1, "pages": PAGES}
    for writer, reader, seed in ((host, guest, 1), (guest, host, 2)):
        scenario["seed"] = seed
        written = writer.ask("write", **scenario)
        read = reader.ask("read", **scenario)
        assert (written["backup"], read["hit"], read["prefetched"]) == (PAGES * 16,) * 3
        wrong_bytes.check_pages(read["sha256s"], written["sha256s"])
    metrics = http(f"http://127.0.0.1:{metrics_port}/metrics")
    assert "peercache_" in metrics


@pytest.mark.node
def test_a_node_that_cannot_start_fails_the_attach(cluster: Cluster) -> None:
    extra = {"discovery_addr": "no port here", "huge_pages": "off"}
    engine = cluster.bare_engine("refused", extra, wait=False)
    assert engine.popen.wait(60) == 1
    assert "the embedded node did not start" in engine.output()
    assert "no port here" in engine.output()

"""The extension itself: nothing raises, whatever it is given."""

from __future__ import annotations

import ctypes
import hashlib
import mmap
import os
import string
import tempfile
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .. import wrong_bytes
from ..patience import HANG_SECONDS
from .conftest import Cluster
from .processes import extension_folder

PREFIX = hashlib.sha256(b"namespace").digest()
PAGE = 4096
GARBAGE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=70)
    | st.binary(max_size=40),
    lambda inner: st.lists(inner, max_size=4) | st.tuples(inner, inner),
    max_leaves=8,
)


def key(text: object) -> str:
    return hashlib.sha256(str(text).encode()).hexdigest()


@pytest.fixture(scope="module")
def extension() -> Any:
    import peercache

    folder = str(extension_folder())
    if folder not in peercache.__path__:
        peercache.__path__.append(folder)
    from peercache.core.extension import load

    return load()


@pytest.fixture(scope="module")
def client(cluster: Cluster, extension: Any) -> Iterator[Any]:
    node = cluster.node("node")
    connected, reason = extension.connect(node.socket, "test", 1500, 1 << 20)
    assert reason == ""
    yield connected
    connected.close()


class Memory:
    """A memfd, mapped."""

    def __init__(self, size: int) -> None:
        self.fd = os.memfd_create("test")
        os.ftruncate(self.fd, size)
        self.map = mmap.mmap(self.fd, size)
        self.base = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        self.size = size

    def __del__(self) -> None:
        os.close(self.fd)


@pytest.mark.node
def test_the_extension_loads_into_other_images() -> None:
    import re
    import subprocess

    for file in extension_folder().glob("_peercache.*.so"):
        symbols = subprocess.run(
            ["nm", "-D", file], check=True, capture_output=True, text=True
        ).stdout.splitlines()
        shown = [line.split()[-1] for line in symbols if line.split()[-2] not in "Uw"]
        assert shown == ["PyInit__peercache"]
        needed = re.findall(r"@GLIBC_2\.(\d+)", "\n".join(symbols))
        assert max(map(int, needed)) <= 35  # Ubuntu 22.04


@pytest.mark.node
def test_a_missing_node_is_no_reason(extension: Any) -> None:
    client, reason = extension.connect("/nowhere/x.sock", "test", 200, 1 << 20)
    assert reason == ""
    assert client.attached is False
    page = Memory(PAGE)
    assert client.register_region(page.fd, page.base, PAGE) == ""
    assert client.set(PREFIX, 1, [key(0)], [page.base], [PAGE]) == [False]
    assert client.get(PREFIX, [key(0)], [page.base], [PAGE]) == [False]
    assert client.exists(PREFIX, [key(0)]) == 0
    stats = client.stats()
    assert (stats["attached"], stats["faults"]) == (False, 0)
    assert "/nowhere/x.sock" in stats["detached"]
    assert "/nowhere/x.sock" in client.clear(1)
    client.close()


@pytest.mark.node
def test_what_can_be_no_node_is_a_reason(extension: Any) -> None:
    client, reason = extension.connect("/usr", "test", 200, 1 << 20)
    assert client is None
    assert "/usr/default.sock" in reason


@pytest.mark.node
def test_pages_of_shared_and_private_memory(client: Any) -> None:
    shared = Memory(64 * PAGE)
    shared.map[:] = os.urandom(64 * PAGE)
    assert client.register_region(shared.fd, shared.base, shared.size) == ""
    keys = [key(i) for i in range(16)]
    ptrs = [shared.base + i * PAGE for i in range(32)]
    assert client.exists(PREFIX, keys) == 0
    assert client.set(PREFIX, 1, keys, ptrs, [PAGE] * 32) == [True] * 16
    assert client.exists(PREFIX, [*keys, key("none")]) == 16
    assert client.exists(PREFIX, [k.upper() for k in keys]) == 16
    assert client.exists(bytes(32), keys) == 0
    private = ctypes.create_string_buffer(32 * PAGE)
    base = ctypes.addressof(private)
    targets = [base + i * PAGE for i in range(32)]
    assert client.get(PREFIX, keys, targets, [PAGE] * 32) == [True] * 16
    wrong_bytes.check_page("0 to 15", private.raw, shared.map[: 32 * PAGE])
    wrong_sizes = client.get(PREFIX, keys, targets, [PAGE // 2] * 32)
    assert wrong_sizes == [False] * 16
    assert client.get(PREFIX, [key("none"), keys[1]], targets[:4], [PAGE] * 4) == [False, True]
    assert client.clear(1) == ""
    assert client.exists(PREFIX, keys) == 0


@pytest.mark.node
def test_presence_of_keys_under_several_prefixes(client: Any) -> None:
    page = Memory(PAGE)
    keys = [key(f"sparse {i}") for i in range(6)]
    prefixes = [PREFIX, bytes(32), b"\xff" * 32]
    for prefix, at in ((prefixes[0], 1), (prefixes[0], 4), (prefixes[2], 0), (prefixes[2], 4)):
        assert client.set(prefix, 3, [keys[at]], [page.base], [PAGE]) == [True]
    expected = [bytes([0, 1, 0, 0, 1, 0]), bytes(6), bytes([1, 0, 0, 0, 1, 0])]
    assert client.presence(prefixes, keys) == expected
    assert client.presence(tuple(prefixes[:1]), [k.upper() for k in keys]) == expected[:1]
    assert client.presence(prefixes, []) == [b"", b"", b""]
    stats = client.stats()
    wrong = [
        ([], keys), (None, keys), ([PREFIX[:31]], keys), ([PREFIX, "x"], keys), ([PREFIX], None),
        ([PREFIX], ["x"]), ([PREFIX], [keys[0], None]), (PREFIX, keys),
    ]  # fmt: skip
    for wrong_prefixes, wrong_keys in wrong:
        assert client.presence(wrong_prefixes, wrong_keys) is None
    assert client.stats() == stats, "nothing was asked"
    assert client.clear(3) == ""


@pytest.mark.node
def test_what_is_no_device_memory_is_refused_with_the_reason(client: Any) -> None:
    shared = Memory(4 * PAGE)
    for fd, why in ((shared.fd, "not a dma-buf"), (-1, "descriptor -1")):
        ways, reason = client.register_dmabuf(fd, 0x7000_0000_0000, PAGE)
        assert ways is None
        assert why in reason
    ways, reason = client.register_dmabuf(shared.fd, 2**64 - PAGE, 2 * PAGE, offset=PAGE)
    assert ways is None
    assert "no memory" in reason
    ways, reason = client.register_device_pointer(shared.base, PAGE)
    assert ways is None
    assert "the process that the node runs in" in reason
    assert client.exists(PREFIX, [key(0)]) == 0
    assert client.stats()["faults"] == 0


def rows_of(pages: list[int]) -> tuple[Any, int]:
    """An array of the rows of these pages, of two rows each, and their number."""
    rows = [row for page in pages for row in (2 * page, 2 * page + 1)]
    return (ctypes.c_int64 * len(rows))(*rows), len(rows)


@pytest.mark.node
def test_pages_by_their_rows(client: Any, extension: Any) -> None:
    shared = Memory(64 * PAGE)
    shared.map[:] = os.urandom(64 * PAGE)
    assert client.register_region(shared.fd, shared.base, shared.size) == ""
    # 32 pages of two segments, which lie in the two halves of the memory.
    places = [(shared.base, PAGE // 2, PAGE), (shared.base + 32 * PAGE, PAGE // 2, PAGE)]
    pool, reason = extension.page_map(2, 64, places)
    assert reason == ""
    before = bytes(shared.map)
    keys = [key(f"row {i}") for i in range(16)]
    rows, count = rows_of(list(range(16)))
    at = ctypes.addressof(rows)
    assert client.set_rows(PREFIX, 2, keys, pool, at, count) == [True] * 16
    assert client.get(PREFIX, keys[:1], [shared.base + PAGE * 16, shared.base + PAGE * 17],
                      [PAGE] * 2) == [True]  # fmt: skip
    wrong_bytes.check_page(0, shared.map[16 * PAGE : 17 * PAGE], before[:PAGE])
    wrong_bytes.check_page(0, shared.map[17 * PAGE : 18 * PAGE], before[32 * PAGE : 33 * PAGE])
    rows, count = rows_of(list(range(31, 15, -1)))
    at = ctypes.addressof(rows)
    assert client.get_rows(PREFIX, keys, pool, at, count) == [True] * 16
    for i in range(16):
        for half in (0, 32):
            page = half + 31 - i
            got = shared.map[page * PAGE : (page + 1) * PAGE]
            wrong_bytes.check_page(i, got, before[(half + i) * PAGE : (half + i + 1) * PAGE])
    assert client.get_rows(PREFIX, [], pool, at, 0) == []
    assert client.get_rows(PREFIX, [key("none"), keys[0]], pool, at, 4) == [False, True]
    faults = client.stats()["faults"]
    for wrong_keys, wrong_count in ((keys[:15], count), (keys, count - 1), (["x"] * 16, count)):
        assert client.get_rows(PREFIX, wrong_keys, pool, at, wrong_count) is None
        assert client.set_rows(PREFIX, 2, wrong_keys, pool, at, wrong_count) is None
    for start in (-2, 1, 63, 64, 2**62):
        wrong = (ctypes.c_int64 * 2)(start, start + 1)
        place = ctypes.addressof(wrong)
        assert client.get_rows(PREFIX, keys[:1], pool, place, 2) is None
    assert client.stats()["faults"] == faults, "nothing was done"


@pytest.mark.node
def test_what_is_a_digit(client: Any) -> None:
    page = Memory(PAGE)
    assert client.set(PREFIX, 2, [key("digits")], [page.base], [PAGE]) == [True]
    assert client.exists(PREFIX, [key("digits").upper()]) == 1
    for position in (0, 31, 63):
        text = key("digits")
        for code in range(256):
            digit = chr(code)
            faults = client.stats()["faults"]
            client.exists(PREFIX, [text[:position] + digit + text[position + 1 :]])
            valid = digit in string.hexdigits
            assert client.stats()["faults"] == faults + (not valid), (position, digit)


@pytest.mark.node
@pytest.mark.parametrize(("page_rows", "rows", "places"), [(0, 64, 1), (2, 1, 1), (2, 64, 0)])
def test_a_map_without_pages_is_refused(
    extension: Any, page_rows: int, rows: int, places: int
) -> None:
    pool, reason = extension.page_map(page_rows, rows, [(4096, 2048, 4096)] * places)
    assert pool is None
    assert f"{rows} rows, {page_rows} in a page of {places} segments" in reason


@pytest.mark.node
@pytest.mark.parametrize(
    ("prefix", "keys", "ptrs", "sizes", "fault"),
    [
        (b"short", [key(0)], [1], [1], "prefix has 5 bytes instead of 32"),
        ("x" * 32, [key(0)], [1], [1], "prefix is not of type bytes"),
        (PREFIX, ["xyz"], [1], [1], 'keys[0] "xyz" is neither 64 hex digits nor 32 bytes'),
        (PREFIX, [key(0), 7], [1], [1], 'keys[1] "" is neither 64 hex digits nor 32 bytes'),
        (PREFIX, [key(0), key(1)], [1, 2, 3], [1, 2, 3], "3 segments do not divide into 2 pages"),
        (PREFIX, [key(0)], [1, 2], [1], "2 ptrs but 1 sizes"),
        (PREFIX, [key(0)], [], [], "0 segments do not divide into 1 pages"),
        (PREFIX, [key(0)], [-1], [1], "ptrs[0] is not an integer"),
        (PREFIX, [key(0)], [1], [2**64], "sizes[0] is not an integer"),
        (PREFIX, [key(0)], ["a"], [1], "ptrs[0] is not an integer"),
        (PREFIX, [key(0)], 5, [1], "ptrs or sizes is not a sequence"),
    ],
    ids=range(11),
)
def test_bad_arguments_are_misses_with_a_reason(
    client: Any, prefix: Any, keys: Any, ptrs: Any, sizes: Any, fault: str
) -> None:
    before = client.stats()["faults"]
    assert client.set(prefix, 1, keys, ptrs, sizes) == [False] * len(keys)
    assert client.get(prefix, keys, ptrs, sizes) == [False] * len(keys)
    stats = client.stats()
    assert stats["faults"] == before + 2
    assert fault in stats["last_fault"]


@pytest.mark.node
@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(
    prefix=st.just(PREFIX) | GARBAGE,
    keys=st.lists(st.just(key(0)), max_size=3) | GARBAGE,
    ptrs=GARBAGE,
    sizes=GARBAGE,
)
def test_garbage_never_raises(client: Any, prefix: Any, keys: Any, ptrs: Any, sizes: Any) -> None:
    # Numbers would be taken for addresses of this process, so they go with sizes that are none.
    for answer in (
        client.get(prefix, keys, ptrs, "no sizes"),
        client.set(prefix, 0, keys, [str(sizes)], sizes),
    ):
        assert not any(answer)
    assert client.exists(prefix, keys) in (0, 1, 2, 3)


@pytest.mark.node
def test_many_threads_share_a_client(client: Any) -> None:
    shared = Memory(256 * PAGE)
    shared.map[:] = os.urandom(256 * PAGE)
    assert client.register_region(shared.fd, shared.base, shared.size) == ""
    wrong = []

    def work(thread: int) -> None:
        page = shared.base + thread * PAGE
        target = ctypes.create_string_buffer(PAGE)
        for i in range(50):
            name = [key((thread, i))]
            if client.set(PREFIX, 2, name, [page], [PAGE]) != [True]:
                wrong.append((thread, i, "set"))
            if client.get(PREFIX, name, [ctypes.addressof(target)], [PAGE]) != [True]:
                wrong.append((thread, i, "get"))
            try:
                wrong_bytes.check_page(
                    name, target.raw, shared.map[thread * PAGE : (thread + 1) * PAGE]
                )
            except AssertionError as error:
                wrong.append((thread, i, str(error)))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.node
def test_calls_are_submitted_and_awaited(client: Any) -> None:
    shared = Memory(128 * PAGE)
    shared.map[: 64 * PAGE] = os.urandom(64 * PAGE)
    assert client.register_region(shared.fd, shared.base, shared.size) == ""
    asynchronous = client.asynchronous(window=2)
    keys = [key(("async", i)) for i in range(64)]

    def submitted(call: Any, reason: str) -> Any:
        assert reason == ""
        return call

    sets = [
        submitted(*asynchronous.set(PREFIX, 5, [k], [shared.base + i * PAGE], [PAGE]))
        for i, k in enumerate(keys)
    ]
    assert all(call.wait(HANG_SECONDS) and call.pages() == [True] for call in sets)
    found = submitted(*asynchronous.presence(PREFIX, [key("none"), *map(bytes.fromhex, keys)]))
    assert found.wait(HANG_SECONDS)
    assert found.pages() == [False] + [True] * 64
    gets = [
        submitted(*asynchronous.get(PREFIX, [k], [shared.base + (64 + i) * PAGE], [PAGE]))
        for i, k in enumerate([*keys[:63], key("none")])
    ]
    asynchronous.close()  # finishes them
    assert [call.pages() for call in gets] == [[True]] * 63 + [[False]]
    wrong_bytes.check_page("0 to 62", shared.map[64 * PAGE : 127 * PAGE], shared.map[: 63 * PAGE])
    assert asynchronous.get(PREFIX, keys[:1], [shared.base], [PAGE])[1] == "the client is closed"


@pytest.mark.node
def test_a_call_that_cannot_be_submitted_says_why(client: Any) -> None:
    asynchronous = client.asynchronous(window=1, max_pending=0)
    for call, reason in (
        asynchronous.get(b"short", [key(0)], [1], [1]),
        asynchronous.get(PREFIX, [key(0), key(1)], [1, 2, 3], [1, 2, 3]),
        asynchronous.set(PREFIX, 1, [key(0)], ["a"], [1]),
        asynchronous.presence(PREFIX, ["xyz"]),
        asynchronous.presence(PREFIX, [b"x" * 31]),
        asynchronous.presence(PREFIX, [key(0)]),
    ):
        assert call is None
        assert reason
    assert "max_pending" in reason


@pytest.mark.node
def test_a_closed_client_misses(cluster: Cluster, extension: Any, client: Any) -> None:
    socket = next(p.socket for p in cluster.processes if hasattr(p, "socket"))
    own, reason = extension.connect(socket, "short", 1500, 1 << 20)
    assert reason == ""
    own.close()
    own.close()
    assert own.set(PREFIX, 1, [key(0)], [1], [1]) == [False]
    assert own.get(PREFIX, [key(0)], [1], [1]) == [False]
    assert own.exists(PREFIX, [key(0)]) == 0
    assert own.clear(1) == "the client is closed"
    assert own.register_region(0, 0, 1) == "the client is closed"
    assert own.register_dmabuf(0, 1, 1) == (None, "the client is closed")
    assert own.register_device_pointer(1, 1) == (None, "the client is closed")
    assert own.stats()["faults"] == 0


@pytest.mark.node
def test_an_embedded_node(extension: Any, tmp_path: Any) -> None:
    import json

    assert extension.has_node
    options = {
        "node-id": "embedded",
        "peer-port": "0",
        "http-port": "0",
        "pool-size": "64Mi",
        "huge-pages": "off",
        "socket": str(tmp_path / "node.sock"),
    }
    node, reason = extension.start_node(options)
    assert reason == ""
    assert node.socket == options["socket"]
    assert node.peer_port > 0
    assert node.http_port > 0
    assert json.loads(node.status())["node"]["id"] == "embedded"
    own, reason = extension.connect(node.socket, "test", 1500, 1 << 20)
    assert reason == ""
    page = ctypes.create_string_buffer(os.urandom(PAGE), PAGE)
    assert own.set(PREFIX, 1, [key(0)], [ctypes.addressof(page)], [PAGE]) == [True]
    node.close()
    node.close()
    assert node.status() == "{}"
    assert own.exists(PREFIX, [key(0)]) == 0
    refused, reason = extension.start_node({"pool-sise": "1Gi"})
    assert refused is None
    assert 'unknown option "pool-sise"' in reason


@pytest.mark.node
def test_an_embedded_node_keeps_no_pages_for_the_next_process(
    extension: Any, tmp_path: Any
) -> None:
    # Nobody would tell that one of a fault, after which pages may be wrong.
    with tempfile.TemporaryDirectory(dir="/dev/shm") as memory:
        options = {
            "node-id": "embedded",
            "peer-port": "0",
            "http": "off",
            "pool-size": "64Mi",
            "huge-pages": "off",
            "socket": str(tmp_path / "node.sock"),
            "pool-file": memory,
        }
        node, reason = extension.start_node(options)
        assert node is None
        assert "pool-file: a node inside an engine's process keeps no pages" in reason
        assert "run peercached" in reason
        assert not os.listdir(memory)

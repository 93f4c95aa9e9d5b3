"""Bodies of the messages between nodes, honest or not: flat structs, by docs/dev/protocol.md."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import astuple, dataclass, field

from .wire import string

MAX = 2**64 - 1
MAX_COUNT = 2**32 - 1  # of a count of 4 bytes
MAX_ITEMS = 65_536
MAX_MEMBERS = 4_096
MAX_OFFERED = 1_024
MOST_CLEARS = 500
MAX_CLEAR_EPOCH = 2**63
PAGE = 16 << 10

MEMORY = 0  # tier of a page


def u32(number: int) -> bytes:
    return struct.pack("<I", number)


def u64(number: int) -> bytes:
    return struct.pack("<Q", number)


def listed(items: Sequence[bytes]) -> bytes:
    return u32(len(items)) + b"".join(items)


def numbers(values: Sequence[int]) -> bytes:
    return u32(len(values)) + struct.pack(f"<{len(values)}Q", *values)


def key(number: int) -> bytes:
    """Of a page that no engine of the fleet sets; any word of it is a hash, as in all keys."""
    return hashlib.sha256(b"hostile %d" % number).digest()


@dataclass
class Record:
    """Where a page is said to be."""

    node: int = 0
    incarnation: int = 1
    offset: int = 0
    generation: int = 1
    checksum: int = 0
    length: int = PAGE
    tier: int = MEMORY
    replica: int = 0
    lease_ms: int = 0

    FORM = struct.Struct("<QQQQQIBBH")

    def pack(self) -> bytes:
        return self.FORM.pack(*astuple(self))


@dataclass
class Stamp:
    """Who speaks to a shard."""

    node: int = 7
    incarnation: int = 1
    epoch: int = 1
    echo: int = 0
    sequence: int = 1
    ttl_ms: int = 1
    lease_ms: int = 1
    reserved: int = 0

    FORM = struct.Struct("<QQQqQIHH")

    def pack(self) -> bytes:
        return self.FORM.pack(*astuple(self))


def lookup(keys: Sequence[bytes], reader: int = 1, leave_out: Sequence[int] = ()) -> bytes:
    return u64(reader) + numbers(leave_out) + listed(keys)


def publish(stamp: Stamp, items: Sequence[tuple[bytes, Record]]) -> bytes:
    return stamp.pack() + listed([named + record.pack() for named, record in items])


def withdraw(stamp: Stamp, items: Sequence[tuple[bytes, int]]) -> bytes:
    return stamp.pack() + listed([named + u64(generation) for named, generation in items])


def read_item(named: bytes, offset: int, generation: int, length: int, reserved: int = 0) -> bytes:
    return struct.pack("<QQII", offset, generation, length, reserved) + named


def read(incarnation: int, items: Sequence[bytes]) -> bytes:
    return u64(incarnation) + listed(items)


def queue(number: int) -> bytes:
    """A queue pair, as no device has one."""
    return bytes(32) + struct.pack("<IIHBBB7x", number, MAX_COUNT, 1, 255, 255, 255)


@dataclass
class Heartbeat:
    """Who a member is, and how."""

    id: str = "m"
    incarnation: int = 1
    state: int = 0
    host: str = "127.0.0.1"
    port: int = 1
    capacity: int = 1
    synced: Sequence[int] = field(default_factory=tuple)
    unreachable: Sequence[int] = field(default_factory=tuple)
    rails_up: int = 0
    numa: int = 0
    recent_delivered: int = 0

    def identity(self) -> bytes:
        where = string(self.host) + struct.pack("<HHQ", self.port, 0, self.capacity)
        return string(self.id) + struct.pack("<QB", self.incarnation, self.state) + where

    def pack(self) -> bytes:
        lists = numbers(self.synced) + numbers(self.unreachable)
        rails = string("") + struct.pack("<BB", 0, self.rails_up) + string("")
        lookups = struct.pack("<BIQQQQQ", self.numa, 0, 0, self.recent_delivered, 0, 0, 0)
        return self.identity() + lists + rails + lookups


def clears(
    forgotten: Sequence[tuple[int, int, int]] = (),
    entries: Sequence[tuple[int, int]] = (),
    kind: int = 0,
    unheard: Sequence[int] = (),
) -> bytes:
    """Kind 0: all that are known, 1: made now, 2: heard by all but ``unheard``."""
    return clear_state(forgotten, entries) + bytes([kind]) + numbers(unheard)


def clear_state(
    forgotten: Sequence[tuple[int, int, int]], entries: Sequence[tuple[int, int]]
) -> bytes:
    """Of groups: epoch and digest of what is forgotten. Of tags: the epoch of the last clear."""
    floors = u64(len(forgotten)) + b"".join(struct.pack("<QQQ", *floor) for floor in forgotten)
    return floors + listed([struct.pack("<QQ", tag, epoch) for tag, epoch in entries])


def offer(node: int, count: int, length: int) -> bytes:
    item = key(9_000) + struct.pack("<QII", 1, length, MAX_COUNT)
    return u64(node) + u64(MAX) + listed([item] * count)

"""Answers that are none, and answers that lie: the rows of node/integration/lying_peer_test.cc."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import replace

from . import bodies, wire
from .bodies import MAX, MAX_CLEAR_EPOCH, MAX_COUNT, MAX_ITEMS, Heartbeat, Record, u32, u64
from .liar import HASH, Lie, clears_answer, count_of, shard
from .wire import HEADER, Answer, frame

# What a node asks while its engines work. Leave and Offer come when it leaves, Connect and
# Directory where there are rails.
QUESTIONS = (
    wire.PUBLISH,
    wire.WITHDRAW,
    wire.CONTACT,
    wire.HEARTBEAT,
    wire.CLEAR_TAG,
    wire.CLEARS,
    wire.READ,
)
OTHER_TAG = 9
ABORTED = 8
MAX_PAYLOAD = 8 << 30
NO_OUTCOME = b"\x63"
LATEST, EARLIEST = 2**63 - 1, -(2**63)

Lies = Mapping[int, Lie]


def changed(honest: bytes, **fields: int) -> bytes:
    """The honest frame under another header."""
    names = ("magic", "version", "kind", "can", "request", "length", "number", "payload")
    header = dict(zip(names, HEADER.unpack_from(honest), strict=True))
    return HEADER.pack(*{**header, **fields}.values()) + honest[HEADER.size :]


def another_type(_: Answer, honest: bytes) -> bytes:
    publish_ok = wire.PUBLISH + 1
    return changed(honest, kind=wire.CONTACT + 1 if honest[5] == publish_ok else publish_ok)


def a_byte_more(_: Answer, honest: bytes) -> bytes:
    return changed(honest + b"\1", length=len(honest) + 1 - HEADER.size)


def a_byte_less(_: Answer, honest: bytes) -> bytes:
    left = len(honest) - 1 - HEADER.size
    return changed(honest[:-1], length=left) if left >= 0 else b""


def error(code: int, text: str | None) -> Lie:
    body = bytes([code]) + (b"" if text is None else wire.string(text))
    return lambda asked, _: frame(wire.ERROR, body, request=asked.request)


def saying(body: bytes) -> Lie:
    """An answer of the right form."""
    return lambda asked, _: frame(asked.kind + 1, body, request=asked.request)


def many(item: bytes, more: int = 0, rest: bytes = b"") -> Lie:
    """As many of it as were asked for, and ``more``."""

    def lie(asked: Answer, honest: bytes) -> bytes:
        count = count_of(honest, HEADER.size) + more
        return saying(bodies.listed([item] * count) + rest)(asked, honest)

    return lie


SILENCE: Lie = lambda _, __: b""  # noqa: E731
NOISE: Lie = lambda _, __: b"\x5a" * 64  # noqa: E731

NO_ANSWERS: dict[str, Lie] = {
    "silence": SILENCE,
    "noise": NOISE,
    "an error for terminals": error(9, "\x1b[2J"),
    "an error of no code": error(255, None),
    "another type": another_type,
    "another version": lambda _, honest: changed(honest, version=9),
    "another request": lambda _, honest: changed(honest, request=MAX),
    "pages that nobody wants": lambda _, honest: changed(
        honest, kind=wire.READ_OK, payload=MAX_PAYLOAD
    ),
    "longer than any frame": lambda _, honest: changed(honest, length=MAX_COUNT),
    "announced and not sent": lambda _, honest: changed(honest, length=wire.MAX_BODY),
    "nothing": saying(b""),
    "a byte more": a_byte_more,
    "a byte less": a_byte_less,
    "ones only": saying(b"\xff" * 4096),
}


def no_answers() -> dict[str, Lies]:
    rows: dict[str, Lies] = {}
    for name, lie in NO_ANSWERS.items():
        # Nobody but the liar can say that the node is in contact, without which it gives no page.
        # And who acknowledges no record is asked to withdraw none.
        silent = name in ("silence", "announced and not sent")
        left_out = (wire.CONTACT, wire.WITHDRAW) if silent else ()
        rows[name] = {question: lie for question in QUESTIONS if question not in left_out}
    return rows


def of_lookup(node: int) -> dict[str, Lie]:
    absurd = Record(HASH, MAX, MAX, MAX, MAX, bodies.PAGE, 255, 255, 65_535)
    page = absurd.pack()
    others = u32(1) + struct.pack("<II", MAX_COUNT, 0) + page
    return {
        "records of nobody": many(replace(absurd, node=MAX).pack()),
        "records of the node itself": many(replace(absurd, node=node).pack()),
        "records of pages that cannot be": many(page),
        "records of another length": many(replace(absurd, length=MAX_COUNT).pack()),
        "more records than keys": many(page, 1),
        "records of keys that nobody asked for": many(page, rest=others),
        "no answer at all": SILENCE,
        "noise": NOISE,
    }


def of_withdraw(_: int) -> dict[str, Lie]:
    heard = shard(1, 1, 0, [])
    return {
        "no answer at all": SILENCE,
        "one time for all": saying(heard + bodies.listed([u32(MAX_COUNT)])),
        "times of what nobody has withdrawn": saying(
            heard + bodies.listed([u32(MAX_COUNT)] * MAX_ITEMS)
        ),
        "more times than bytes": saying(heard + u32(MAX_ITEMS)),
    }


def of_shards(_: int) -> dict[str, Lies]:
    timeless = saying(shard(LATEST, MAX, 0, []))
    wrong = saying(shard(EARLIEST, 0, ABORTED, [1] * MAX_ITEMS) + u64(MAX) + b"\1")
    owners = (wire.PUBLISH, wire.CONTACT, wire.WITHDRAW)

    def no_outcomes(_: Answer, honest: bytes) -> bytes:
        start = HEADER.size + 21
        return honest[:start] + NO_OUTCOME * (len(honest) - start)

    return {
        "no contact": {wire.CONTACT: SILENCE},
        "a shard without time": dict.fromkeys(owners, timeless),
        "a shard that is wrong": dict.fromkeys(owners, wrong),
        "outcomes that are none": {wire.PUBLISH: no_outcomes},
        "fewer outcomes than records": {wire.PUBLISH: saying(shard(0, 0, 0, []))},
    }


def of_read(_: int) -> dict[str, Lie]:
    return {
        "pages of another length": many(u32(MAX_COUNT)),
        "pages without their bytes": many(u32(bodies.PAGE)),
        "more pages than asked for": many(u32(0), 1),
    }


def crowd(node: int) -> Lie:
    """4,096 members of whom there is none, one of which says that it is the node."""
    lists = bodies.listed([bodies.numbers([node] * bodies.MAX_MEMBERS)])
    members = []
    for i in range(bodies.MAX_MEMBERS):
        name = "target" if i == 7 else f"lie{i}"
        member = Heartbeat(name, MAX, 1, port=1, capacity=0 if i % 3 else MAX)
        members.append(member.identity() + struct.pack("<IIq", 1, 1, 0 if i % 2 else LATEST))
    return saying(b"\1" + lists + bodies.listed(members))


def of_clears(_: int) -> dict[str, Lies]:
    tags = (1, OTHER_TAG)
    above = clears_answer((), [(tag, MAX) for tag in tags])
    last = clears_answer((), [(tag, MAX_CLEAR_EPOCH) for tag in tags])
    return {
        "pages are left for ever": {wire.CLEAR_TAG: saying(u32(MAX_COUNT))},
        "an epoch above all": {wire.CLEARS: saying(above)},
        "the last epoch": {wire.CLEARS: saying(last)},
        "the highest floor": {wire.CLEARS: saying(clears_answer([(0, MAX_CLEAR_EPOCH, 1)], []))},
    }


def groups(node: int) -> dict[str, dict[str, Lies]]:
    """All lies, by what is asked; ``node``: who asks."""

    def to(kind: int, lies: Mapping[str, Lie]) -> dict[str, Lies]:
        return {name: {kind: lie} for name, lie in lies.items()}

    return {
        "anything": no_answers(),
        "Lookup": to(wire.LOOKUP, of_lookup(node)),
        "Publish, Contact": of_shards(node),
        "Withdraw": to(wire.WITHDRAW, of_withdraw(node)),
        "Read": to(wire.READ, of_read(node)),
        "Heartbeat": to(wire.HEARTBEAT, {"a crowd": crowd(node)}),
        "ClearTag, Clears": of_clears(node),
    }

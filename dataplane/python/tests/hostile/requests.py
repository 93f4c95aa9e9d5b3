"""What a member may ask a node for that is malformed, impossible or a lie, by message.

As the rows of node/integration/hostile_peer_test.cc, whose enum makes the compiler name a message
without any.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from . import bodies, wire
from .bodies import MAX, MAX_COUNT, MAX_ITEMS, Heartbeat, Record, Stamp, key, u32, u64


@dataclass(frozen=True)
class Request:
    what: str
    body: bytes
    refused: bool = True  # by an Error or a closed connection; else there is an answer
    can: int = 0


HEARS_SERVED = 128


def of_lookup(_: int) -> list[Request]:
    return [
        Request("nothing", b""),
        Request("a key too few", u64(1) + u32(0) + u32(1)),
        Request("more keys than any message has", u64(1) + u32(0) + u32(MAX_COUNT)),
        Request("a byte too many", bodies.lookup([]) + b"\0"),
        Request(
            "more to leave out than there are members",
            bodies.lookup([], leave_out=[0] * (bodies.MAX_MEMBERS + 1)),
        ),
        Request("one key as often as fits", bodies.lookup([key(1)] * MAX_ITEMS, MAX), False),
    ]


def of_directory(_: int) -> list[Request]:
    return [Request("with a body", b"\1"), Request("as it should be", b"", False)]


def of_publish(node: int) -> list[Request]:
    absurd = Stamp(node=11, ttl_ms=MAX_COUNT, lease_ms=65_535, reserved=65_535)
    odd = Record(11, 1, MAX, MAX, MAX, MAX_COUNT, 255, 255, 65_535)
    mine, nodes = Record(node=7), Record(node=node)
    return [
        Request("nothing", b""),
        Request("more records than any message has", Stamp().pack() + u32(MAX_ITEMS + 1)),
        Request("a record too few", Stamp().pack() + u32(1)),
        Request("in nobody's name", bodies.publish(Stamp(0), [(key(1), Record(0))]), False),
        Request("in the node's own name", bodies.publish(Stamp(node), [(key(1), nodes)])),
        Request("records of somebody else", bodies.publish(Stamp(), [(key(1), nodes)]), False),
        Request("a key twice", bodies.publish(Stamp(), [(key(1), mine)] * 2), False),
        Request("a record that cannot be", bodies.publish(absurd, [(key(1), odd)]), False),
    ]


def of_withdraw(node: int) -> list[Request]:
    of_nobody = bodies.withdraw(Stamp(), [(key(1), MAX)] * 2)
    return [
        Request("nothing", b""),
        Request("more than any message has", Stamp().pack() + u32(MAX_COUNT)),
        Request("what the node itself holds", bodies.withdraw(Stamp(node), [(key(0), 1)])),
        Request("what nobody has", of_nobody, False),
        Request("what nobody has, and when it was served", of_nobody, False, HEARS_SERVED),
    ]


def of_contact(node: int) -> list[Request]:
    last = Stamp(9, MAX, MAX, 2**63 - 1, MAX - 1)
    return [
        Request("nothing", b""),
        Request("a byte too many", Stamp().pack() + b"\0"),
        Request("in the node's own name", Stamp(node).pack()),
        Request("with the last sequence number but one", last.pack(), False),
        Request("and the last", replace(last, echo=-(2**63), sequence=MAX).pack(), False),
    ]


def of_read(_: int) -> list[Request]:
    absurd = bodies.read_item(key(0), MAX, MAX, MAX_COUNT, MAX_COUNT)
    return [
        Request("nothing", b""),
        Request("more pages than any message has", u64(1) + u32(MAX_COUNT)),
        Request("of another life", bodies.read(MAX, [absurd] * 3), False),
    ]


def of_connect(_: int) -> list[Request]:
    return [
        Request("nothing", b""),
        Request("more rails than there are", bodies.listed([bodies.queue(0)] * 33)),
        Request("queue pairs that cannot be", bodies.listed([bodies.queue(MAX_COUNT)] * 32)),
    ]


def of_heartbeat(node: int) -> list[Request]:
    many = [node - i & MAX for i in range(bodies.MAX_MEMBERS)]
    selfish = Heartbeat(capacity=MAX, synced=many, unreachable=many)
    return [
        Request("nothing", b""),
        Request("nobody", Heartbeat(id="").pack()),
        Request("a name for terminals", Heartbeat(id="\x1b[").pack()),
        Request("at no port", Heartbeat(port=0).pack()),
        Request("in no state", Heartbeat(state=9).pack()),
        Request("more rails up than there are", Heartbeat(rails_up=1).pack()),
        Request("more delivered than asked for", Heartbeat(recent_delivered=MAX).pack()),
        Request("aligned in a way that is none", Heartbeat(numa=99).pack()),
        Request("whom it does not reach, and all for itself", selfish.pack(), False),
        Request("as the node itself, born later", Heartbeat("holder", MAX).pack(), False),
    ]


def of_leave(_: int) -> list[Request]:
    return [
        Request("nothing", b""),
        Request("who was never there", wire.string("nobody") + u64(MAX), False),
    ]


def of_clear_tag(_: int) -> list[Request]:
    return [
        Request("nothing", b""),
        Request("a byte too many", u64(MAX) + b"\0"),
        Request("what nobody has set", u64(MAX), False),
    ]


def of_clears(_: int) -> list[Request]:
    many = [(100 + i, 1) for i in range(bodies.MOST_CLEARS + 1)]
    crowd = [0] * (bodies.MAX_MEMBERS + 1)
    return [
        Request("nothing", b""),
        Request("more than anybody remembers", bodies.clears((), many)),
        Request("in epoch 2^64-1", bodies.clears((), [(1, MAX)])),
        Request("with a floor of 2^64-1", bodies.clears([(0, MAX, 1)])),
        Request("of a group that is none", bodies.clears([(1024, 1, 1)])),
        Request("of more groups than there are", u64(MAX) + bytes(64)),
        Request("of one group twice", bodies.clears([(1, 1, 1)] * 2)),
        Request("in the last epoch", bodies.clears((), [(1, bodies.MAX_CLEAR_EPOCH)])),
        Request("with the highest floor", bodies.clears([(0, bodies.MAX_CLEAR_EPOCH, 1)], kind=1)),
        Request("for a purpose that is none", bodies.clears(kind=9)),
        Request("unheard by more than there are", bodies.clears(kind=2, unheard=crowd)),
        Request("heard by all, made by nobody", bodies.clears(kind=2, unheard=[MAX] * 2), False),
    ]


def of_offer(node: int) -> list[Request]:
    return [
        Request("nothing", b""),
        Request("more pages than an offer has", bodies.offer(node, bodies.MAX_OFFERED + 1, 1)),
        Request("more bytes than an offer has", bodies.offer(node, 2, MAX_COUNT)),
        Request("a page of 4 GiB", bodies.offer(node, 1, MAX_COUNT), False),
        Request("pages of no bytes", bodies.offer(node, bodies.MAX_OFFERED, 0), False),
        Request("one page again and again", bodies.offer(node, bodies.MAX_OFFERED, 16), False),
    ]


def of_fetch(_: int) -> list[Request]:
    return [
        Request("nothing", b""),
        Request("no page", bodies.listed([]), False),
        Request("more pages than there may be", bodies.listed([key(9_000)] * (MAX_ITEMS + 1))),
        Request("a page that is nowhere", bodies.listed([key(9_000)] * MAX_ITEMS), False),
    ]


BY_MESSAGE = {
    "Lookup": (wire.LOOKUP, of_lookup),
    "Directory": (wire.DIRECTORY, of_directory),
    "Publish": (wire.PUBLISH, of_publish),
    "Withdraw": (wire.WITHDRAW, of_withdraw),
    "Contact": (wire.CONTACT, of_contact),
    "Read": (wire.READ, of_read),
    "Connect": (wire.CONNECT, of_connect),
    "Heartbeat": (wire.HEARTBEAT, of_heartbeat),
    "Leave": (wire.LEAVE, of_leave),
    "ClearTag": (wire.CLEAR_TAG, of_clear_tag),
    "Clears": (wire.CLEARS, of_clears),
    "Offer": (wire.OFFER, of_offer),
    "Fetch": (wire.FETCH, of_fetch),
}

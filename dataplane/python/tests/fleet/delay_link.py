"""A cable between two network namespaces that holds every frame back for some time.

    delay_link.py NAMESPACE DEVICE NAMESPACE DEVICE

makes a TAP device in each namespace and passes frames between them. A number on stdin is the delay
of each direction in milliseconds from then on; "ok" answers it, and says at the start that the
devices are there. The devices go with the process, which ends with its stdin.

A queueing discipline would do the same where the kernel has one (netem); this works everywhere.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import select
import struct
import sys
import time
from collections import deque

CLONE_NEWNET = 0x40000000
TUNSETIFF = 0x400454CA
IFF_TAP = 0x0002
IFF_NO_PI = 0x1000
LARGEST_FRAME = 65536
# As much as a switch would buffer; beyond it frames are lost.
MOST_FRAMES = 20_000


def open_tap(namespace: str, device: str) -> int:
    """A TAP device in the namespace, which this thread enters and stays in."""
    libc = ctypes.CDLL(None, use_errno=True)
    handle = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    if libc.setns(handle, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), namespace)
    os.close(handle)
    tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", device.encode(), IFF_TAP | IFF_NO_PI))
    return tap


class Direction:
    """Frames under way from one device to the other, oldest first."""

    def __init__(self, source: int, target: int) -> None:
        self.source = source
        self.target = target
        self.under_way: deque[tuple[float, bytes]] = deque()

    def take(self, due: float) -> None:
        try:
            while True:
                frame = os.read(self.source, LARGEST_FRAME)
                if len(self.under_way) < MOST_FRAMES:
                    self.under_way.append((due, frame))
        except OSError:  # nothing more to read, or the device is down
            return

    def deliver(self, now: float) -> None:
        while self.under_way and self.under_way[0][0] <= now:
            try:
                os.write(self.target, self.under_way.popleft()[1])
            except OSError:  # the other device is down or full: a frame is lost
                continue


def run(a: int, b: int) -> None:
    delay = 0.0
    directions = [Direction(a, b), Direction(b, a)]
    by_source = {direction.source: direction for direction in directions}
    commands = sys.stdin.fileno()
    poll = select.poll()
    for descriptor in (commands, a, b):
        poll.register(descriptor, select.POLLIN)
    while True:
        now = time.monotonic()
        waits = [d.under_way[0][0] - now for d in directions if d.under_way]
        # poll counts whole milliseconds; rounding down and asking again keeps delays exact.
        timeout = max(0, int(min(waits) * 1000)) if waits else None
        for descriptor, _ in poll.poll(timeout):
            if descriptor == commands:
                text = os.read(commands, 100).decode()
                if not text:
                    return
                delay = float(text) / 1000
                print("ok", flush=True)
            else:
                by_source[descriptor].take(time.monotonic() + delay)
        now = time.monotonic()
        for direction in directions:
            direction.deliver(now)


if __name__ == "__main__":
    devices = [open_tap(*pair) for pair in zip(sys.argv[1::2], sys.argv[2::2], strict=True)]
    print("ok", flush=True)
    run(*devices)

"""A cable between two network namespaces that holds frames back, and passes only so many bytes.

    delay_link.py NAMESPACE DEVICE NAMESPACE DEVICE

makes a TAP device in each namespace and passes frames between them. Two numbers on stdin are what
holds for each direction from then on: its delay in milliseconds, and its bytes a second, 0 for as
many as come. "ok" answers them, and says at the start that the devices are there. The devices go
with the process, which ends with its stdin.

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
# And no longer than this at the cable's rate, but for some frames.
LONGEST_QUEUE = 0.1
LEAST_QUEUE = 64 << 10


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
        self.delay = 0.0  # seconds
        self.rate = 0.0  # bytes a second; 0: any
        self._free_at = 0.0

    def take(self, now: float) -> None:
        most = max(LEAST_QUEUE, self.rate * LONGEST_QUEUE) if self.rate else float("inf")
        try:
            while True:
                frame = os.read(self.source, LARGEST_FRAME)
                self._free_at = max(self._free_at, now)
                queued = (self._free_at - now) * self.rate
                if len(self.under_way) >= MOST_FRAMES or queued > most:
                    continue
                if self.rate:
                    self._free_at += len(frame) / self.rate
                self.under_way.append((self._free_at + self.delay, frame))
        except OSError:  # nothing more to read, or the device is down
            return

    def deliver(self, now: float) -> None:
        while self.under_way and self.under_way[0][0] <= now:
            try:
                os.write(self.target, self.under_way.popleft()[1])
            except OSError:  # the other device is down or full: a frame is lost
                continue


def run(a: int, b: int) -> None:
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
                milliseconds, rate = map(float, text.split())
                for direction in directions:
                    direction.delay, direction.rate = milliseconds / 1000, rate
                print("ok", flush=True)
            else:
                by_source[descriptor].take(time.monotonic())
        now = time.monotonic()
        for direction in directions:
            direction.deliver(now)


if __name__ == "__main__":
    devices = [open_tap(*pair) for pair in zip(sys.argv[1::2], sys.argv[2::2], strict=True)]
    print("ok", flush=True)
    run(*devices)

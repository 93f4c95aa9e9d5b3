"""Threads that compute with vectors for two seconds, each checking its own result again and again.

Fails when a switch between threads loses a part of the registers. numpy picks the widest vectors that the processor
has, and holds no lock of the interpreter while it multiplies.
"""

import threading
import time

import numpy as np

THREADS = 4
SECONDS = 2.0

wrong: list[int] = []


def work(number: int) -> None:
    values = np.random.default_rng(number).random(200_000)
    expected = float(np.sqrt(values * values + number).sum())
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        if float(np.sqrt(values * values + number).sum()) != expected:
            wrong.append(number)


threads = [threading.Thread(target=work, args=(n,)) for n in range(THREADS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
if wrong:
    raise SystemExit(f"{len(wrong)} results differ from the first: vector registers get lost")

"""How long tests wait. No clock decides what a test says: these only end what would hang."""

from __future__ import annotations

# What is waited for comes in a small part of it, also where every processor has other work.
HANG_SECONDS = 120.0
# Of what has nothing to wait for. A wait that must not happen is made twice as long, or longer.
AT_ONCE_SECONDS = 30.0
NEVER_SECONDS = 2 * AT_ONCE_SECONDS
# Of an engine's call, which a node that is slow does not make a miss.
PATIENT_MS = int(1000 * HANG_SECONDS)

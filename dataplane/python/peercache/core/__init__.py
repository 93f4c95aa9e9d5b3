"""The engine's side of a node, for every engine: it imports nothing of an engine.

Imports go from ``peercache.sglang`` to here, never back.

attachment  the hold on a node: this machine's, or one inside this process
config      the extra-config, checked; config_keys and values: its keys, and how each is read
embedded    a node inside this process, for engines without a node of their own
extension   loads the C++ side, ``peercache._peercache``
faults      counts errors that became misses, and logs them at most once a minute
segments    shared regions and segments of pages, as calls to the node name them
"""

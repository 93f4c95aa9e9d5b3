"""Stand-in for the top of the package sglang, for tests without a GPU.

Only this file and launch_server are ours. Everything that HiCache is made of (storage interface
and backend factory, host pools and their allocators, HiCacheController with its threads) is the
source of SGLang, found through this package's path; hicache_engine.shim says what is replaced.
"""

from hicache_engine import shim

__path__ = [*__path__, shim.source_folder()]
shim.install()

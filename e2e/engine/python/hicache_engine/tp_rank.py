"""One of several TP ranks: an MLA model with a draft of its own heads, under the real controller.

    python -m hicache_engine.tp_rank RANK SIZE FILE EXTRA [--no-hooks]

The ranks meet in FILE. Each writes a prompt, forgets its host pools, reads the prompt back, and
prints one JSON object. ``--no-hooks``: SGLang without its registry of hooks.
"""

from __future__ import annotations

import argparse
import json
import sys

import sglang  # noqa: F401 -- installs the stand-ins
from hicache_engine import shim

_PAGES = 40
_PAGE_SIZE = 16
_SEED = 7


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("rank", type=int)
    parser.add_argument("size", type=int)
    parser.add_argument("file")
    parser.add_argument("extra", type=json.loads)
    parser.add_argument("--no-hooks", action="store_true")
    arguments = parser.parse_args()
    if arguments.no_hooks:
        sys.modules["sglang.srt.plugins.hook_registry"] = None  # type: ignore[assignment]
    group = shim.join_ranks(arguments.rank, arguments.size, arguments.file)

    from sglang.srt.mem_cache.hicache_storage import PoolName

    from hicache_engine import hostpools
    from hicache_engine.hybrid import Hybrid, Side, fill

    tokens = 2 * _PAGES * _PAGE_SIZE
    kv = hostpools.build("mla", "page_first", _PAGE_SIZE, tokens)
    draft, window = (hostpools.build("mha", "page_first", _PAGE_SIZE, tokens) for _ in range(2))
    with Hybrid(kv, [], arguments.extra, tp_group=group) as hybrid:
        hybrid.add(Side(PoolName.DRAFT, draft))
        hybrid.add(Side(PoolName.DRAFT_SWA, window))
        # KV is the same on all ranks, heads of the draft are not.
        for pool, seed in ((kv, 1), (draft, 100 + arguments.rank), (window, 200 + arguments.rank)):
            fill(pool, seed)
        written = hybrid.backup(_SEED, [_PAGES])
        import torch.distributed

        torch.distributed.barrier()  # rank 0 writes the KV of all
        hybrid.fill(0)
        read = hybrid.prefetch(_SEED, _PAGES + 1)
        print(
            json.dumps(
                {
                    "written": written.pages,
                    "hit": read.hit,
                    "restored": read.pages,
                    "same": {
                        name: read.data.get(name) == written.data[name] for name in written.data
                    },
                    "faults": hybrid.store.faults.counts(),
                }
            )
        )
        torch.distributed.barrier()


if __name__ == "__main__":
    main()

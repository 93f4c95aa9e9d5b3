"""``python3 -m sglang.launch_server ...``: SGLang's command line on the test engine."""

import sys

from hicache_engine.server import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

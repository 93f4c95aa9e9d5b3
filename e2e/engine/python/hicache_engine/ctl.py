"""enginectl: drives the test engine of this pod.

    enginectl health
    enginectl write '{"kind": "mha", "layout": "page_first", "v1": true, "seed": 1, "pages": 300}'
    enginectl load - < request.json

Prints the engine's JSON. Exits 0 when the engine answered 200, 1 when it answered an error, 2 when
there is no answer. Imports nothing heavy: kubectl exec starts it often.
"""

from __future__ import annotations

import os
import sys
import urllib.error
import urllib.request

_SECONDS = 600
_USAGE = "usage: enginectl health | write|read|clear|load|load-write|stop [JSON | -]"


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help") or len(arguments) > 2:
        print(_USAGE, file=sys.stderr)
        return 2
    url = f"http://127.0.0.1:{os.environ.get('ENGINE_PORT', '30000')}/{arguments[0]}"
    body = None
    if arguments[0] != "health":
        text = arguments[1] if len(arguments) > 1 else "{}"
        body = (sys.stdin.read() if text == "-" else text).encode()
    try:
        with urllib.request.urlopen(url, data=body, timeout=_SECONDS) as answer:
            sys.stdout.write(answer.read().decode())
            return 0
    except urllib.error.HTTPError as error:
        sys.stdout.write(error.read().decode())
        return 1
    except OSError as error:
        print(f"the engine at {url} does not answer: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The test engine: HTTP. POST /write, /read, /clear, /load, /load-write, /stop and GET /health.

Like a real server it attaches its storage backend when it starts and exits when that fails.
"""

from __future__ import annotations

import json
import logging
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from hicache_engine import flags as flags_module
from hicache_engine.flags import Flags

logger = logging.getLogger("hicache_engine")

_MAX_BODY = 16 << 20
_STARTUP_PAGES = 16


def main(arguments: Sequence[str]) -> int:
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    flags = flags_module.parse(arguments)
    if flags.ignored:
        logger.info("flags without a meaning here: %s", " ".join(flags.ignored))
    if flags.storage_backend is None:
        logger.info("no --hicache-storage-backend: serving without L3")
        return _serve(flags)
    from hicache_engine.cache import Cache

    logger.info("attaching the storage backend %s", flags.storage_backend)
    try:
        attached = Cache(flags, "mha", flags.layout, None, _STARTUP_PAGES)
    except Exception:  # any failure to attach ends a server
        logger.exception("storage backend %s does not attach", flags.storage_backend)
        return 1
    with attached:
        return _serve(flags, attached.stats)


def _serve(flags: Flags, stats: Callable[[], dict[str, Any]] = dict) -> int:
    # Only ever driven through kubectl exec, so that a pod's network shows nothing of it.
    server = ThreadingHTTPServer(("127.0.0.1", flags.port), _handler(flags, stats))
    server.daemon_threads = True

    def stop(*_: object) -> None:
        threading.Thread(target=server.shutdown).start()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    logger.info("The server is fired up and ready to roll! port %d", flags.port)
    server.serve_forever()
    return 0


def _actions() -> dict[str, Callable[[Flags, Any], dict[str, Any]]]:
    from hicache_engine import scenario

    return {
        "/write": scenario.write,
        "/read": scenario.read,
        "/clear": scenario.clear,
        "/load": scenario.load,
        "/load-write": scenario.load_write,
        "/stop": scenario.stop,
    }


def _handler(flags: Flags, stats: Callable[[], dict[str, Any]]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/health":
                health = {"status": "ok", "storage_backend": flags.storage_backend}
                # Of the backend that was attached when the server started.
                self._answer(200, {**health, "stats": stats()})
            else:
                self._answer(404, {"error": f"no such path {self.path}"})

        def do_POST(self) -> None:
            from hicache_engine.scenario import Request

            action = _actions().get(self.path)
            if action is None:
                self._answer(404, {"error": f"no such path {self.path}"})
                return
            if flags.storage_backend is None:
                self._answer(409, {"error": "this engine runs without a storage backend"})
                return
            try:
                length = min(int(self.headers.get("Content-Length", 0)), _MAX_BODY)
                request = Request.parse(json.loads(self.rfile.read(length) or b"{}"))
                self._answer(200, action(flags, request))
            except ValueError as error:
                self._answer(400, {"error": str(error)})
            except Exception as error:  # the test wants to see it
                logger.exception("%s failed", self.path)
                self._answer(500, {"error": f"{type(error).__name__}: {error}"})

        def log_message(self, format: str, *args: Any) -> None:
            logger.debug(format, *args)

        def _answer(self, status: int, body: dict[str, Any]) -> None:
            data = json.dumps(body).encode() + b"\n"
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    return Handler


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""A reverse proxy that serves one node below a path, as an ingress does."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PREFIX = "/team/cache"
# Of a connection, not of an answer.
HOP_BY_HOP = {"connection", "transfer-encoding", "keep-alive"}


@contextmanager
def prefixed(port: int, forwards: bool) -> Iterator[str]:
    """The address of the node at ``port`` below PREFIX. ``forwards``: it says for whom it asks."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if not self.path.startswith(f"{PREFIX}/"):
                self.send_error(404)
                return
            headers = {"Host": f"127.0.0.1:{port}"}
            if forwards:
                headers["X-Forwarded-For"] = "192.0.2.1"
            node = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            node.request("GET", self.path.removeprefix(PREFIX), headers=headers)
            answer = node.getresponse()
            body = answer.read()
            node.close()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in HOP_BY_HOP:
                    self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}{PREFIX}/"
    finally:
        server.shutdown()
        server.server_close()

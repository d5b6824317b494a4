"""A small HTTP server on loopback for tests: records requests and answers as configured."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType

Answer = Callable[[str, bytes, dict[str, str]], tuple[int, bytes]]
"""Of path, body and headers: status and body."""


class HttpReceiver:
    """Answers at ``url`` while it is entered."""

    def __init__(self, answer: Answer = lambda path, body, headers: (200, b"")) -> None:
        self.received: list[tuple[str, bytes, dict[str, str]]] = []
        received = self.received

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                request = (self.path, self.rfile.read(length), dict(self.headers.items()))
                received.append(request)
                status, body = answer(*request)
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_GET  # noqa: N815 - the name is its base's

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is its base's
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> HttpReceiver:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

"""A small server on loopback that answers as Flink's REST API does: what was recorded of a real cluster, or a fault."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from headgate.local.machine import LOOPBACK

RECORDED = Path(__file__).parent / "recorded"
JSON_VALUE = Any


def recorded(name: str) -> tuple[str, list[dict[str, JSON_VALUE]]]:
    """The number of a job that was recorded, and looks at it: answers by path, some seconds apart."""
    data = json.loads((RECORDED / f"{name}.json").read_text())
    assert data["version"] == 1
    return data["job"], data["looks"]


def refusals() -> dict[str, tuple[int, JSON_VALUE]]:
    """By release: status and body for a request for sizes of a job that it cannot change while the job runs."""
    data = json.loads((RECORDED / "cannot_rescale.json").read_text())
    assert data["version"] == 1
    return {release: (reported["status"], reported["body"]) for release, reported in data["answers"].items()}


class StandIn:
    """Answers by path; what has no answer is not found, as Flink would say."""

    def __init__(self) -> None:
        self.answers: Mapping[str, JSON_VALUE] = {}
        self.answered_by: Callable[[str, str, JSON_VALUE], JSON_VALUE] | None = None
        """Called before ``answers``, with method, path and body; ``None`` leaves it to them."""
        self.fault: tuple[int, bytes] | None = None
        """Status and body of every answer."""
        self.hangs = threading.Event()
        """Once set, nothing is answered."""
        self.released = threading.Event()
        self.changes: list[tuple[str, JSON_VALUE]] = []
        self.requests: list[str] = []
        self.headers: list[Mapping[str, str]] = []
        self.server = ThreadingHTTPServer((LOOPBACK, 0), _handler(self))
        self.url = f"http://{LOOPBACK}:{self.server.server_address[1]}"

    def answer(self, method: str, target: str, body: JSON_VALUE) -> tuple[int, bytes]:
        parts = urlsplit(target)
        self.requests.append(f"{method} {parts.path}")
        if method != "GET":
            self.changes.append((parts.path, body))
        if self.fault is not None:
            return self.fault
        names = parse_qs(parts.query).get("get", [""])[0]
        reported = None if self.answered_by is None else self.answered_by(method, parts.path, body)
        if reported is None:
            reported = self.answers.get(
                f"{parts.path}?get" if names and f"{parts.path}?get" in self.answers else parts.path
            )
        if isinstance(reported, tuple):
            return reported[0], json.dumps(reported[1]).encode()
        if reported is None and method == "GET":
            return 404, json.dumps({"errors": [f"org.apache.Exception: {parts.path} not found\n\tat …"]}).encode()
        if names and isinstance(reported, list):
            reported = _only(reported, names.split(","))
        return 200, json.dumps({} if reported is None else reported).encode()


def _only(reported: list[dict[str, JSON_VALUE]], names: list[str]) -> list[dict[str, JSON_VALUE]]:
    """As Flink does: one name that is not known empties the answer."""
    found = {message["id"]: message for message in reported}
    return [found[name] for name in names] if all(name in found for name in names) else []


def _handler(stand_in: StandIn) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def _do(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            stand_in.headers.append(dict(self.headers.items()))
            if stand_in.hangs.is_set():
                stand_in.released.wait(10)
                return
            status, content = stand_in.answer(self.command, self.path, body)
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def do_GET(self) -> None:
            self._do()

        def do_PUT(self) -> None:
            self._do()

        def do_PATCH(self) -> None:
            self._do()

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - it is called so
            return None

    return Handler


@contextmanager
def standing_in() -> Iterator[StandIn]:
    stand_in = StandIn()
    thread = threading.Thread(target=stand_in.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield stand_in
    finally:
        stand_in.released.set()
        stand_in.server.shutdown()
        stand_in.server.server_close()
        thread.join()

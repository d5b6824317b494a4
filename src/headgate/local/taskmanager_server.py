"""A server that starts and stops TaskManagers on request: the reference for ``--provider http://…``. Version 1.

    GET    /taskmanager    {"version": 1, "taskmanagers": ["taskmanager-1", …], "most": 8}
    POST   /taskmanager    {"target": 2}: start so many more, as far as ``most`` allows
    DELETE /taskmanager    {"used": ["taskmanager-1"], "free": 1}: stop all but the used ones and so many others

Names are Flink's ids of TaskManagers (``taskmanager.resource-id``). Changes are answered at once, with status 202 and
the TaskManagers that are to run from now on, in the form of GET; Flink shows the effect. A request that is not
understood is answered with status 400 and ``{"error": "…"}``. POST and DELETE are giannakopoulos' interface; GET is
ours.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol

from headgate.core.errors import HeadgateError, InputError
from headgate.core.types import JSON
from headgate.local.flink import FlinkCluster
from headgate.local.machine import LOOPBACK

PATH = "/taskmanager"
VERSION = 1
LONGEST_BODY = 1_000_000


class TaskManagerPool(Protocol):
    """Starts and stops TaskManagers by name; every call returns at once."""

    def names(self) -> list[str]:
        """Return those that are to run, started or not, the oldest first."""
        ...

    def start(self) -> None: ...

    def stop(self, name: str) -> None: ...


class LocalPool:
    """TaskManagers as processes of this machine, in a cluster that ``headgate flink up`` started."""

    def __init__(self, cluster: FlinkCluster) -> None:
        self._cluster = cluster

    def names(self) -> list[str]:
        return self._cluster.wanted()

    def start(self) -> None:
        self._cluster.add_taskmanager()

    def stop(self, name: str) -> None:
        self._cluster.remove_taskmanager(name)


class TaskManagerRequests:
    """Carries out requests on a pool, one at a time, within a maximum number of TaskManagers."""

    def __init__(self, pool: TaskManagerPool, most: int) -> None:
        if most < 1:
            raise InputError(f"at most {most} TaskManagers is not possible; at least 1 is needed.")
        self._pool = pool
        self._most = most
        self._lock = threading.Lock()

    def get(self, body: JSON = None) -> JSON:
        return {"version": VERSION, "taskmanagers": list(self._pool.names()), "most": self._most}

    def post(self, body: JSON) -> JSON:
        target = _count(body, "target")
        with self._lock:
            for _ in range(min(target, self._most - len(self._pool.names()))):
                self._pool.start()
            return self.get()

    def delete(self, body: JSON) -> JSON:
        free, used = _count(body, "free"), _names(body, "used")
        with self._lock:
            idle = [name for name in self._pool.names() if name not in used]
            for name in idle[: max(0, len(idle) - free)]:
                self._pool.stop(name)
            return self.get()


def _count(body: JSON, key: str) -> int:
    value = body.get(key) if isinstance(body, dict) else None
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InputError(f"{key} is {value!r}; a whole number of at least 0 is needed.")
    return value


def _names(body: JSON, key: str) -> Collection[str]:
    value = body.get(key) if isinstance(body, dict) else None
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise InputError(f"{key} is {value!r}; a list of the names of TaskManagers is needed.")
    return frozenset(value)


class TaskManagerServer:
    """Serves requests on loopback until it is closed; port 0 takes a free one."""

    def __init__(self, requests: TaskManagerRequests, port: int = 0) -> None:
        try:
            self._server = ThreadingHTTPServer((LOOPBACK, port), partial(_Handler, requests))
        except OSError as error:
            raise InputError(f"port {port} cannot be used: {error.strerror}.") from error
        self.url = f"http://{LOOPBACK}:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the server; TaskManagers keep running."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    timeout = 10.0

    def __init__(self, requests: TaskManagerRequests, *connection: Any) -> None:
        self._requests = requests
        super().__init__(*connection)

    def do_GET(self) -> None:
        self._answer(200, self._requests.get)

    def do_POST(self) -> None:
        self._answer(202, self._requests.post)

    def do_DELETE(self) -> None:
        self._answer(202, self._requests.delete)

    def _answer(self, status: int, carry_out: Callable[[JSON], JSON]) -> None:
        if self.path != PATH:
            self._send(404, {"error": f"there is only {PATH}."})
            return
        try:
            result = carry_out(self._body())
        except InputError as error:
            self._send(400, {"error": str(error)})
        except HeadgateError as error:
            self._send(500, {"error": str(error)})
        else:
            self._send(status, result)

    def _body(self) -> JSON:
        try:
            length = int(self.headers.get("Content-Length") or 0)
            if not 0 <= length <= LONGEST_BODY:
                raise InputError(f"a body of {length} bytes is not read; at most {LONGEST_BODY} are.")
            return json.loads(self.rfile.read(length) or b"null")
        except (ValueError, RecursionError) as error:
            raise InputError("the body is no JSON.") from error

    def _send(self, status: int, result: JSON) -> None:
        content = json.dumps(result).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the name in the base class
        return None

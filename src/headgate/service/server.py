"""Runs an ASGI application on loopback, on a thread of its own, until it is stopped."""

from __future__ import annotations

import socket
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING

from headgate.core.errors import EngineError, InputError
from headgate.core.extras import needing
from headgate.local.machine import LOOPBACK, problem_with_port

if TYPE_CHECKING:
    from fastapi import FastAPI

START_WITHIN_S = 10.0


class LoopbackServer:
    """Serves at ``url`` inside its block; a free port is taken where none is given."""

    def __init__(self, api: FastAPI, port: int = 0) -> None:
        with needing("a controller"):
            import uvicorn
        if port and (problem := problem_with_port(port)):
            raise InputError(f"port {port} of {LOOPBACK} cannot be used: {problem}.")
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind((LOOPBACK, port))
        settings = uvicorn.Config(api, log_level="warning", access_log=False, lifespan="off")
        self._server = uvicorn.Server(settings)
        self._thread = threading.Thread(target=self._run, name="headgate-service", daemon=True)

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self._socket.getsockname()[1]}"

    def _run(self) -> None:
        self._server.run(sockets=[self._socket])

    def __enter__(self) -> LoopbackServer:
        self._thread.start()
        until_s = time.monotonic() + START_WITHIN_S
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > until_s:
                raise EngineError(f"the controller did not begin to serve at {self.url}.")
            time.sleep(0.01)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()

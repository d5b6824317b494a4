"""A network that can be cut: a small TCP proxy on loopback."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from types import TracebackType

from headgate.local.machine import LOOPBACK

_AT_ONCE = 65536


class Proxy:
    """Passes on what comes to its port to another; while it is cut, connections end and none begins."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._listener = socket.create_server((LOOPBACK, 0), backlog=256)
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._is_cut = False
        self._thread = threading.Thread(target=self._accept, name=f"proxy-{port}", daemon=True)

    def __enter__(self) -> Proxy:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cut()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def cut(self) -> None:
        with self._lock:
            self._is_cut = True
            ended, self._open = self._open, set()
        for connection in ended:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def restore(self) -> None:
        with self._lock:
            self._is_cut = False

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection((LOOPBACK, self._to), timeout=5)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            with self._lock:
                is_cut = self._is_cut
                if not is_cut:
                    self._open |= {client, server}
            if is_cut:
                client.close()
                server.close()
                continue
            pair = _Pair(client, server, self._forget)
            for source, target in ((client, server), (server, client)):
                threading.Thread(target=pair.pass_on, args=(source, target), daemon=True).start()

    def _forget(self, *ended: socket.socket) -> None:
        with self._lock:
            self._open -= set(ended)


class _Pair:
    """Two ends of a connection, closed when both directions have ended."""

    def __init__(self, client: socket.socket, server: socket.socket, forget: Callable[..., None]) -> None:
        self._ends = (client, server)
        self._forget = forget
        self._left = 2
        self._lock = threading.Lock()

    def pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(_AT_ONCE):
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._left -= 1
            if self._left:
                return
        self._forget(*self._ends)
        for end in self._ends:
            end.close()

"""Runs an ASGI application on a thread of its own, until it is stopped: on loopback unless told otherwise."""

from __future__ import annotations

import socket
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING

from headgate.core.errors import EngineError, InputError, cause_of
from headgate.core.extras import needing
from headgate.local.machine import LOOPBACK
from headgate.service.config.model import Tls

if TYPE_CHECKING:
    from fastapi import FastAPI


import ssl
from pathlib import Path


def require_usable(tls: Tls) -> None:
    """Refuse files that TLS cannot be spoken with, in a sentence that names the one at fault."""
    for path in (tls.certificate, tls.key):
        try:
            path.read_bytes()
        except OSError as error:
            raise InputError(f"{path} cannot be read: {cause_of(error)}.") from error
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(tls.certificate, tls.key, _no_password)
    except _NeedsPassword:
        raise InputError(
            f"key {tls.key} is encrypted; one without a password is needed, for nobody could type it."
        ) from None
    except ssl.SSLError as error:
        raise InputError(_why(tls, error)) from error


class _NeedsPassword(Exception):
    """A key can be read only with a password."""


def _no_password() -> str:
    # Without it OpenSSL would ask on the terminal, and wait.
    raise _NeedsPassword


def _why(tls: Tls, error: ssl.SSLError) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return f"key {tls.key} is not that of certificate {tls.certificate}."
    if not _is_certificate(tls.certificate):
        return f"{tls.certificate} holds no certificate in PEM form."
    if "PEM" in str(error) or error.reason == "NO_START_LINE":
        return f"{tls.key} holds no private key in PEM form."
    return f"certificate {tls.certificate} and key {tls.key} cannot be used: {error.reason.replace('_', ' ').lower()}."


def _is_certificate(path: Path) -> bool:
    try:
        ssl.create_default_context(cafile=path)
    except ssl.SSLError:
        return False
    return True


START_WITHIN_S = 10.0


class Server:
    """Serves at ``url`` inside its block; a free port is taken where none is given, and TLS spoken with ``tls``.

    ``listener`` is a socket that is bound already, and closed with the server.
    """

    def __init__(
        self,
        api: FastAPI,
        port: int = 0,
        host: str = LOOPBACK,
        tls: Tls | None = None,
        listener: socket.socket | None = None,
    ) -> None:
        with needing("a service"):
            import uvicorn
        self._host, self._tls = host, tls
        if tls is not None:
            require_usable(tls)
        self._socket = bound(host, port) if listener is None else listener
        settings = uvicorn.Config(
            api,
            log_level="warning",
            access_log=False,
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=5,
            # Whose address a proxy tells is not believed: who reads without a token must be on this machine.
            proxy_headers=False,
            server_header=False,
            ssl_certfile=None if tls is None else tls.certificate,
            ssl_keyfile=None if tls is None else tls.key,
        )
        self._server = uvicorn.Server(settings)
        self._thread = threading.Thread(target=self._run, name="headgate-service", daemon=True)

    @property
    def url(self) -> str:
        scheme = "http" if self._tls is None else "https"
        shown = f"[{self._host}]" if ":" in self._host else self._host
        return f"{scheme}://{shown}:{self._socket.getsockname()[1]}"

    def _run(self) -> None:
        self._server.run(sockets=[self._socket])

    def __enter__(self) -> Server:
        self._thread.start()
        until_s = time.monotonic() + START_WITHIN_S
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > until_s:
                raise EngineError(f"the service did not begin to serve at {self.url}.")
            time.sleep(0.01)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()


def bound(host: str, port: int) -> socket.socket:
    """A socket at an address, or one sentence that says why there cannot be one."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        made = socket.socket(family, kind, protocol)
    except OSError as error:
        raise InputError(f"address {host!r} cannot be listened at: {cause_of(error)}.") from error
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind(address)
    except OSError as error:
        made.close()
        raise InputError(f"port {port} of {host} cannot be used: {cause_of(error)}.") from error
    return made

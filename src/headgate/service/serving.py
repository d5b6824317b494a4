"""Run a service behind an HTTP server on a thread of its own, and apply its configuration file when it changes."""

from __future__ import annotations

import fcntl
import logging
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

from headgate.core.errors import EngineError, InputError, cause_of
from headgate.core.extras import needing
from headgate.core.types import Severity
from headgate.local.machine import LOOPBACK
from headgate.runtime.assembly import signature
from headgate.service.api import make_api
from headgate.service.config import ServiceConfig, read_config
from headgate.service.config.model import Tls
from headgate.service.quotas import limits_of
from headgate.service.service import Service
from headgate.service.standby import service_of
from headgate.service.store import open_store

if TYPE_CHECKING:
    from fastapi import FastAPI

    from headgate.service.connections import GuardedSocket

logger = logging.getLogger("headgate")
START_WITHIN_S = 10.0
OPEN_FILES = 8192
SQLITE_FILE = "sqlite:///"
BY = "file"
"""The author of changes from the file in the audit log."""


def require_usable(tls: Tls) -> None:
    """Refuse a certificate or a key that TLS cannot use; the message names the file at fault."""
    for path in (tls.certificate, tls.key):
        try:
            path.read_bytes()
        except OSError as error:
            raise InputError(f"{path} cannot be read: {cause_of(error)}.") from error
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(tls.certificate, tls.key, _no_password)
    except _NeedsPassword:
        raise InputError(
            f"key {tls.key} is encrypted; one without a password is needed, because nobody could enter it."
        ) from None
    except ssl.SSLError as error:
        raise InputError(_reason(tls, error)) from error


class _NeedsPassword(Exception):
    """The key is encrypted."""


def _no_password() -> str:
    # Without this, OpenSSL would prompt on the terminal and wait.
    raise _NeedsPassword


def _reason(tls: Tls, error: ssl.SSLError) -> str:
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


class ApiServer:
    """Serves an ASGI application at ``url`` inside its block, on a free port if none is given, with TLS if ``tls`` is.

    ``listener`` is a socket that is already bound; it is closed with the server.
    """

    def __init__(
        self,
        api: FastAPI,
        port: int = 0,
        host: str = LOOPBACK,
        tls: Tls | None = None,
        listener: GuardedSocket | None = None,
    ) -> None:
        with needing("a service"):
            import uvicorn

            from headgate.service import connections
        self._host, self._tls = host, tls
        if tls is not None:
            require_usable(tls)
        connections.log_seldom()
        self._socket = bind_socket(host, port) if listener is None else listener
        self._socket.connections = self.connections = connections.Connections()
        settings = uvicorn.Config(
            api,
            http=cast("Any", partial(connections.GuardedProtocol, self.connections)),
            timeout_keep_alive=connections.KEEP_ALIVE_S,
            h11_max_incomplete_event_size=connections.LONGEST_HEAD,
            log_level="warning",
            access_log=False,
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=5,
            # Addresses reported by proxies are not trusted: callers without a token must be on this machine.
            proxy_headers=False,
            server_header=False,
            ssl_certfile=None if tls is None else tls.certificate,
            ssl_keyfile=None if tls is None else tls.key,
        )
        self._server = connections.GuardedServer(settings, self.connections)
        self._thread = threading.Thread(target=self._run, name="headgate-service", daemon=True)

    @property
    def url(self) -> str:
        scheme = "http" if self._tls is None else "https"
        shown = f"[{self._host}]" if ":" in self._host else self._host
        return f"{scheme}://{shown}:{self._socket.getsockname()[1]}"

    def _run(self) -> None:
        self._server.run(sockets=[self._socket])

    def __enter__(self) -> ApiServer:
        self._thread.start()
        until_s = time.monotonic() + START_WITHIN_S
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > until_s:
                raise EngineError(f"the service did not start to serve at {self.url}.")
            time.sleep(0.01)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()


def bind_socket(host: str, port: int) -> GuardedSocket:
    """Return a socket bound to an address; an ``InputError`` says why that is not possible."""
    with needing("a service"):
        from headgate.service.connections import GuardedSocket
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        made = GuardedSocket(family, kind, protocol)
    except OSError as error:
        raise InputError(f"cannot listen at address {host!r}: {cause_of(error)}.") from error
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind(address)
    except OSError as error:
        made.close()
        raise InputError(f"port {port} of {host} cannot be used: {cause_of(error)}.") from error
    return made


class ConfigWatch:
    """Applies the configuration file when it, or a file that it names, has changed; called regularly."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._seen = self._found()

    def _found(self) -> list[object]:
        config = self._service.config
        return [signature(path) for path in (config.file, *config.included_files) if path is not None]

    def __call__(self) -> None:
        # While jobs are taken over, or the store is away, the check waits: the file will still be there.
        if self._service.is_taking_over:
            return
        path, found = self._service.config.file, self._found()
        if path is None or found == self._seen:
            return
        self._seen = found
        try:
            wanted = read_config(path)
        except InputError as error:
            self._service.config_problem = str(error)
            logger.warning("the changed file is refused, and what was in force stays: %s", error)
            self._publish("config-refused", str(error), Severity.WARNING)
            return
        self._service.config_problem = ""
        apply_config(self._service, wanted)
        self._seen = self._found()

    def _publish(self, kind: str, detail: str, severity: Severity = Severity.INFO) -> None:
        now = self._service.clock.now()
        self._service.hub.publish(
            now, "event", "", {"at_s": now, "kind": kind, "detail": detail, "numbers": {}, "severity": severity}
        )


def apply_config(service: Service, wanted: ServiceConfig) -> None:
    """Apply another configuration: jobs that are new, changed and gone, groups and access."""
    before = service.config
    old, new = {job.name: job for job in before.jobs}, {job.name: job for job in wanted.jobs}
    gone = [name for name in old if name not in new]
    added = [name for name in new if name not in old]
    different = [name for name in new if name in old and new[name] != old[name]]
    fixed = {"store": before.store, "host": before.host, "port": before.port, "tls": before.tls}
    if any(getattr(wanted, name) != value for name, value in fixed.items()):
        logger.warning("changes of store, listen and tls take effect when the service is restarted")
    service.config = replace(wanted, **fixed)  # type: ignore[arg-type]  # these are the fields' own values
    service.arbiter.change(limits_of(wanted))
    if not service.leads:
        return  # The jobs are taken on from the file once this service leads.
    for name in gone:
        service.release(name, "it is no longer in the file")
    for name in different:
        job = service.fleet.job(name)
        if new[name].topology.operators == old[name].topology.operators:
            try:
                job.respecify(new[name], "its file has changed")
                continue
            except InputError as error:
                logger.warning("changes of job %s no longer fit its file, and are dropped: %s", name, error)
        service.release(name, "its file has changed")
        added.append(name)
    for name in added:
        service.take_on_if_possible(new[name], service.store.changes.of(name))
    if not (gone or added or different):
        return
    names = {"added": added, "changed": different, "gone": gone}
    service.store.audit.add(BY, "", "file", "the file has changed", None, names)
    logger.info("the file has changed: %s", names)


def _allow_open_files() -> None:
    """Use as many files as this process may have open at all: each connection is one."""
    import resource

    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if most == resource.RLIM_INFINITY else min(OPEN_FILES, most)
    if limit != resource.RLIM_INFINITY and limit < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


@contextmanager
def serving(config: ServiceConfig) -> Iterator[str]:
    """Run a service inside the block, and give its address."""
    if config.tls is not None:
        require_usable(config.tls)
    _allow_open_files()
    # Before the store is touched: if the port is taken, the same service may be running already.
    listener = bind_socket(config.host, config.port)
    with ExitStack() as stack:
        try:
            stack.enter_context(_only_user(config.store))
            service = service_of(config, open_store(config.store, retention=config.retention))
        except BaseException:
            listener.close()
            raise
        service.scheduler.chores.append(ConfigWatch(service))
        served = ApiServer(make_api(service), config.port, config.host, config.tls, listener)
        # The server ends last: it waits for the listeners to events, which the service disconnects.
        with served as server, service, service.figures.sent():
            service.run()
            yield server.url


@contextmanager
def _only_user(store: str) -> Iterator[None]:
    """Hold the lock of a SQLite store, which ends with the process: two services on it would both decide."""
    if not store.startswith(SQLITE_FILE):
        yield
        return
    path = Path(f"{store.removeprefix(SQLITE_FILE)}.lock")
    try:
        lock = path.open("a")
    except OSError:
        yield  # The store cannot be opened either, which says why.
        return
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise InputError(
                f"store {store} is used by another service; several can share a store in PostgreSQL only."
            ) from error
        yield

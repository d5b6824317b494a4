"""A service that runs: its store, its jobs, the thread that steps them, and the server that answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headgate.service.api import make_api
from headgate.service.config import ServiceConfig
from headgate.service.serving import ConfigWatch
from headgate.service.server import Server, bound, require_usable
from headgate.service.standby import service_of
from headgate.service.store import open_store


@contextmanager
def serving(config: ServiceConfig) -> Iterator[str]:
    """Runs a service inside the block; gives where it answers."""
    if config.tls is not None:
        require_usable(config.tls)
    # Before the store is touched: where the port is taken, the same service may be running already.
    listener = bound(config.host, config.port)
    try:
        store = open_store(config.store, retention=config.retention)
        service = service_of(config, store)
    except BaseException:
        listener.close()
        raise
    service.scheduler.chores.append(ConfigWatch(service))
    served = Server(make_api(service), config.port, config.host, config.tls, listener)
    # The server ends last: it waits for those who listen to events, whom the service lets go of.
    with served as server, service, service.figures.sent():
        service.run()
        yield server.url

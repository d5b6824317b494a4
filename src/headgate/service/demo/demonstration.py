"""The service of the demonstration, with one token for visitors and one for the simulated jobs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from headgate.service.api import make_api
from headgate.service.config import ServiceConfig
from headgate.service.demo.engines import EnginesPlan
from headgate.service.demo.plan import NOTICE
from headgate.service.service import Service
from headgate.service.serving import ApiServer
from headgate.service.store import open_store
from headgate.service.store.tokens import Scope


@dataclass(frozen=True)
class Demonstration:
    url: str
    token: str
    """It has the scope ``operate``."""
    engines: EnginesPlan
    """The arguments of the process with the simulated jobs."""


@contextmanager
def demonstrating(config: ServiceConfig) -> Iterator[Demonstration]:
    """Run the service inside the block; the simulated jobs are for the caller to start."""
    store = open_store(config.store)
    token = store.tokens.make("you", {Scope.OPERATE})
    agents = store.tokens.make("simulated-jobs", {Scope.AGENT})
    service = Service(config, store)
    # The server ends last: it waits for pages that are left open, which the service lets go of.
    with ApiServer(make_api(service, demo=NOTICE), config.port, config.host) as server, service:
        service.run()
        yield Demonstration(server.url, token, EnginesPlan(server.url, agents))

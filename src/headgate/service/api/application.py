"""Assembles the HTTP interface of a service, with its gate."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from fastapi import FastAPI

from headgate._version import __version__
from headgate.runtime.loop import Clock
from headgate.service.api.about import about_router, health_router, metrics_router
from headgate.service.api.answers import add_error_handlers, document
from headgate.service.api.history import decisions_router, events_router, readings_router
from headgate.service.api.jobs import jobs_router, policies_router, reports_router
from headgate.service.api.steering import steering_router, targets_router
from headgate.service.config.model import ServiceConfig
from headgate.service.gate import Callers, Gate, LeaderOnly, TokenTable
from headgate.service.pages.routes import add_pages
from headgate.service.service import Service
from headgate.service.standby import service_of
from headgate.service.store import open_store

ABOUT = """Controls the sizes of streaming jobs: agents report here and receive their target sizes; people and programs
see what was decided and why, and change it while jobs run. Times (`_s`) are seconds, moments (`at_s`) seconds
since the epoch. A number that is not finite is written as `{"$float": "inf"}`."""


def make_service(config: ServiceConfig, *, clock: Clock | None = None) -> FastAPI:
    """An application for a configuration, with its store; the service itself is ``app.state.service``.

    Nothing is stepped before ``service.run()``, and the service is to be closed.
    """
    return make_api(service_of(config, open_store(config.store, retention=config.retention), clock))


def make_api(service: Service, now: Callable[[], float] = time.monotonic, *, demo: str = "") -> FastAPI:
    """The interface to a service, and its pages.

    ``now`` is the clock for request rates and remembered tokens; ``demo`` is a notice on every page of a demonstration.
    """
    api = FastAPI(
        title="Headgate",
        version="1",
        summary=f"Headgate {__version__}",
        description=ABOUT,
        docs_url=None,
        redoc_url=None,
        generate_unique_id_function=lambda route: route.name,
    )
    api.state.service = service
    add_error_handlers(api)
    makers = (
        reports_router,
        jobs_router,
        readings_router,
        decisions_router,
        policies_router,
        steering_router,
        targets_router,
        events_router,
        about_router,
        health_router,
        metrics_router,
    )
    routers = [make(service) for make in makers]
    table = TokenTable(service.store.tokens, now)
    pages, shown, standing_by = add_pages(api, service, table, demo)
    for router in (*routers, *pages):
        api.include_router(router)
    document(api)
    # FastAPI's own list of included routes differs from version to version.
    api.state.routes = [*api.router.routes[:1], *(route for router in (*routers, *pages) for route in router.routes)]
    gate: Any = Gate
    callers = Callers(table)
    api.add_middleware(
        gate, callers=callers, rules=lambda: service.access, now=now, shown=shown, routes=api.state.routes
    )
    # Outermost: a service that stands by has nothing to protect, and need not look up tokens.
    leader_only: Any = LeaderOnly
    api.add_middleware(leader_only, service=service, shown=standing_by)
    return api

"""Services for tests: a job or two, a store in memory, a clock that the test sets, and a client without a socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
from fastapi import FastAPI

from headgate.core.objective import parse_objective
from headgate.core.types import Instances, Sample
from headgate.engines.agents import Report
from headgate.engines.agents.wire import report_to_text
from headgate.service.api import make_api
from headgate.service.config import JobSpec, OperatorSpec, ServiceConfig
from headgate.service.service import Service
from headgate.service.store import open_store
from headgate.service.store.tokens import Scope
from headgate.testing.clock import FakeClock

START_S = 1_700_000_000.0
CLICKS = JobSpec(
    "clicks",
    (OperatorSpec("parse", 1, 8, 0.25), OperatorSpec("count", 1, 4, 0.5)),
    parse_objective("latency p95 < 10s"),
    (("parse", "count"),),
    policy="reactive",
)
HAS_ONE = {"planned": 1, "requested": 1, "ready": 1}


class Asking:
    """Sends requests to an application without a socket, one at a time."""

    def __init__(self, app: FastAPI, headers: dict[str, str], address: str, base_url: str) -> None:
        self._app, self._headers, self._address, self._base_url = app, headers, address, base_url

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(self._app, client=(self._address, 50000))
            async with httpx.AsyncClient(
                transport=transport, base_url=self._base_url, headers=self._headers, timeout=60.0
            ) as client:
                return await client.request(method, path, **options)

        return asyncio.run(ask())

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.request("GET", path, **options)

    def put(self, path: str, **options: Any) -> httpx.Response:
        return self.request("PUT", path, **options)

    def post(self, path: str, **options: Any) -> httpx.Response:
        return self.request("POST", path, **options)

    def patch(self, path: str, **options: Any) -> httpx.Response:
        return self.request("PATCH", path, **options)


class Served:
    """A service on a clock that the test sets, and clients of every kind."""

    def __init__(self, service: Service, clock: FakeClock) -> None:
        self.service = service
        self.clock = clock
        self.app = make_api(service, clock.now)
        tokens = service.store.tokens
        self.tokens = {
            "reader": tokens.make("reader", {Scope.READ}),
            "operator": tokens.make("operator", {Scope.OPERATE}),
            "agent": tokens.make("agent", {Scope.AGENT}),
        }

    def client(
        self,
        who: str | None = None,
        *,
        headers: dict[str, str] | None = None,
        address: str = "127.0.0.1",
        base_url: str = "http://127.0.0.1",
    ) -> Asking:
        known = {} if who is None else {"Authorization": f"Bearer {self.tokens[who]}"}
        return Asking(self.app, {**known, **(headers or {})}, address, base_url)

    def report(self, job: str = "clicks", operator: str = "count", **fields: Any) -> httpx.Response:
        """Send the report of an agent, with defaults for required fields."""
        body = {"version": 1, "agent": "a", "instances": HAS_ONE, **fields}
        # Escaped, as agents send it: hostile texts cannot be encoded otherwise.
        return self.client("agent").post(f"/v1/jobs/{job}/operators/{operator}/reports", content=json.dumps(body))

    def read(self, sample: Sample, size: int = 1, job: str = "clicks") -> None:
        """Have an agent report a reading, and the size that its operator has."""
        report = Report("a", Instances(size, size, size), sample)
        path = f"/v1/jobs/{job}/operators/{sample.operator}/reports"
        answer = self.client("agent").post(path, content=report_to_text(report, self.clock.now()))
        assert answer.status_code == 200, answer.text

    def tick(self, seconds: float = 0.0, job: str = "clicks") -> None:
        self.clock.advance(seconds)
        self.service.fleet.job(job).tick()


@contextmanager
def served(*jobs: JobSpec, store: str = "sqlite://", **options: Any) -> Iterator[Served]:
    clock = FakeClock(START_S)
    config = ServiceConfig(jobs or (CLICKS,), store, **options)
    with Service(config, open_store(store, now=clock.now), clock) as service:
        yield Served(service, clock)

"""Services on real sockets, with a leader that the test chooses."""

from __future__ import annotations

from contextlib import ExitStack
from types import SimpleNamespace

from headgate.agent.agent import HttpController
from headgate.core.objective import parse_objective
from headgate.core.types import Instances
from headgate.engines.agents import Report
from headgate.service.api import make_api
from headgate.service.config import JobSpec, OperatorSpec, ServiceConfig
from headgate.service.service import Service
from headgate.service.serving import ApiServer
from headgate.service.store import open_store
from headgate.service.store.tokens import Scope
from headgate.testing.clock import FakeClock

SECRET = "s" * 40
REPORT = Report("an-agent", Instances(1, 1, 1))
CLICKS = JobSpec("clicks", (OperatorSpec("count"),), parse_objective("latency p95 < 10s"))


class Services:
    """All have the same job, each in a store of its own."""

    def __init__(self, stack: ExitStack, count: int) -> None:
        self.clock = FakeClock(1.7e9)
        config = ServiceConfig((CLICKS,), "sqlite://")
        self.all = [stack.enter_context(Service(config, open_store("sqlite://"), self.clock)) for _ in range(count)]
        for service in self.all:
            service.store.tokens.add(SECRET, "agents", {Scope.AGENT, Scope.OPERATE})
        self.urls = [stack.enter_context(ApiServer(make_api(service))).url for service in self.all]

    def let_lead(self, leader: int | None, *, url: str | None = None, problem: str = "") -> None:
        """Have one service lead; the others name it, or ``url``, as leader, or have a ``problem``."""
        url = url if url is not None else "" if leader is None else self.urls[leader]
        for number, service in enumerate(self.all):
            standby = SimpleNamespace(
                leads=number == leader, token=None, leader_url=url, is_alive=True, problem=problem, stop=lambda: None
            )
            service.standby = standby  # type: ignore[assignment]  # all of its attributes that are used

    def receivers(self, controller: HttpController) -> list[int]:
        """Send a report, and return the numbers of the services that received it."""
        before = [self._count(service) for service in self.all]
        controller.report("count", REPORT)
        return [number for number, service in enumerate(self.all) if self._count(service) != before[number]]

    def _count(self, service: Service) -> float | None:
        self.clock.advance(1.0)
        return service.fleet.job("clicks").engine.last_reports_s["count"]

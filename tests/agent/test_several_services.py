"""An agent that knows several services finds the one that leads, and finds it again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from types import SimpleNamespace

import httpx
import pytest

from headgate.agent.http import HttpController, service_urls
from headgate.core.errors import ControllerAwayError, InputError, NotLeadingError
from headgate.core.objective import parse_objective
from headgate.core.types import Instances
from headgate.engines.agents import Report
from headgate.local.machine import LOOPBACK, free_ports
from headgate.service.api import make_api
from headgate.service.config import JobSpec, OperatorSpec, ServiceConfig
from headgate.service.server import Server
from headgate.service.service import Service
from headgate.service.store import open_store
from headgate.service.store.tokens import Scope
from headgate.testing.clock import FakeClock

SECRET = "s" * 40
CLICKS = JobSpec("clicks", (OperatorSpec("count"),), parse_objective("latency p95 < 10s"))
REPORT = Report("an-agent", Instances(1, 1, 1))


class Services:
    """Services that answer for real, of which the test says who leads."""

    def __init__(self, stack: ExitStack, count: int) -> None:
        self.clock = FakeClock(1.7e9)
        config = ServiceConfig((CLICKS,), "sqlite://")
        self.all = [stack.enter_context(Service(config, open_store("sqlite://"), self.clock)) for _ in range(count)]
        for one in self.all:
            one.store.tokens.add(SECRET, "agents", {Scope.AGENT, Scope.READ})
        self.urls = [stack.enter_context(Server(make_api(one))).url for one in self.all]

    def let_lead(self, leader: int | None, *, told: str | None = None) -> None:
        """Have one lead, and the others say so, or something else."""
        url = told if told is not None else "" if leader is None else self.urls[leader]
        for number, one in enumerate(self.all):
            standby = SimpleNamespace(
                leads=number == leader, token=None, leader_url=url, is_alive=True, stop=lambda: None
            )
            one.standby = standby  # type: ignore[assignment]  # all that is asked of it

    def heard(self, controller: HttpController) -> list[int]:
        """Which of them took in a report that is sent now."""
        before = [self._count(one) for one in self.all]
        controller.report("count", REPORT)
        return [number for number, one in enumerate(self.all) if self._count(one) != before[number]]

    def _count(self, one: Service) -> float | None:
        self.clock.advance(1.0)
        return one.fleet.job("clicks").engine.heard["count"]


@pytest.fixture
def three() -> Iterator[Services]:
    with ExitStack() as stack:
        yield Services(stack, 3)


def test_the_leader_is_found_by_what_others_say_and_found_again_when_it_changes(three: Services) -> None:
    with HttpController(three.urls, SECRET, "clicks") as controller:
        for leader in (2, 2, 0, 1):
            three.let_lead(leader)
            assert three.heard(controller) == [leader]


def test_the_leader_is_found_by_trying_where_nobody_knows_or_what_is_said_is_strange(three: Services) -> None:
    with HttpController(",".join(three.urls), SECRET, "clicks") as controller:
        three.let_lead(2, told="")
        assert three.heard(controller) == [2]
        three.let_lead(1, told="http://somewhere.example:8420")
        assert three.heard(controller) == [1], "a token is sent to nobody but those that were named"


def test_a_service_that_does_not_answer_is_passed_over(three: Services) -> None:
    (nobody,) = free_ports(1)
    three.let_lead(0)
    with HttpController([f"http://{LOOPBACK}:{nobody}", three.urls[0]], SECRET, "clicks") as controller:
        assert three.heard(controller) == [0]


def test_nobody_leading_is_told_apart_from_nobody_answering(three: Services) -> None:
    three.let_lead(None)
    with HttpController(three.urls, SECRET, "clicks") as controller, pytest.raises(NotLeadingError, match="stands by"):
        controller.report("count", REPORT)
    (nobody,) = free_ports(1)
    with (
        HttpController(f"http://{LOOPBACK}:{nobody}", SECRET, "clicks") as controller,
        pytest.raises(ControllerAwayError, match="does not answer") as raised,
    ):
        controller.report("count", REPORT)
    assert not isinstance(raised.value, NotLeadingError)


@pytest.mark.parametrize("given", ["", "127.0.0.1:8420", "http://one:1,two:2", []])
def test_what_is_no_address_is_refused_with_an_example(given: str | list[str]) -> None:
    with pytest.raises(InputError, match=r"http://127\.0\.0\.1:8420 is needed"):
        service_urls(given)


def test_who_stands_by_says_so_where_its_health_is_asked_for(three: Services) -> None:
    three.let_lead(0)
    answer = httpx.get(f"{three.urls[1]}/v1/jobs")
    assert (answer.status_code, answer.headers["Headgate-Leader"]) == (421, three.urls[0])
    assert answer.text == f"this service stands by; {three.urls[0]} leads."
    assert httpx.get(f"{three.urls[1]}/readyz").status_code == 503

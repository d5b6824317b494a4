"""An agent that knows several services finds the one that leads, and finds it again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest

from headgate.agent.agent import HttpController
from headgate.core.errors import ControllerAwayError, InputError, NotLeadingError
from headgate.engines.agents.wire import service_urls
from headgate.local.machine import LOOPBACK, free_ports
from tests.service.several import REPORT, SECRET, Services


@pytest.fixture
def three() -> Iterator[Services]:
    with ExitStack() as stack:
        yield Services(stack, 3)


def test_the_leader_is_found_by_what_others_say_and_found_again_when_it_changes(three: Services) -> None:
    with HttpController(three.urls, SECRET, "clicks") as controller:
        for leader in (2, 2, 0, 1):
            three.let_lead(leader)
            assert three.receivers(controller) == [leader]


def test_the_leader_is_found_by_trying_where_nobody_knows_or_what_is_said_is_strange(three: Services) -> None:
    with HttpController(",".join(three.urls), SECRET, "clicks") as controller:
        three.let_lead(2, url="")
        assert three.receivers(controller) == [2]
        three.let_lead(1, url="http://somewhere.example:8420")
        assert three.receivers(controller) == [1], "a token is sent to nobody but those that were named"


def test_a_service_that_does_not_answer_is_passed_over(three: Services) -> None:
    (nobody,) = free_ports(1)
    three.let_lead(0)
    with HttpController([f"http://{LOOPBACK}:{nobody}", three.urls[0]], SECRET, "clicks") as controller:
        assert three.receivers(controller) == [0]


def test_no_leader_and_no_answer_are_different_errors(three: Services) -> None:
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


def test_a_standby_is_not_ready_and_names_the_leader(three: Services) -> None:
    three.let_lead(0)
    answer = httpx.get(f"{three.urls[1]}/v1/jobs")
    assert (answer.status_code, answer.headers["Headgate-Leader"]) == (421, three.urls[0])
    assert answer.text == f"this service stands by; {three.urls[0]} leads."
    assert httpx.get(f"{three.urls[1]}/readyz").status_code == 503


def test_a_store_that_is_away_is_no_other_that_leads(three: Services) -> None:
    three.let_lead(None, problem="the store postgresql://headgate@db.example/headgate cannot be used: refused.")
    why = "cannot determine the leader: its store cannot be reached."
    answer = httpx.get(f"{three.urls[1]}/v1/jobs")
    assert (answer.status_code, answer.text) == (421, f"this service {why}"), "where the store is, is for its logs"
    page = httpx.get(f"{three.urls[1]}/", headers={"Accept": "text/html"})
    assert f"It {why}" in page.text

"""Agents over a real socket: what goes up and comes down, and what is refused."""

from __future__ import annotations

import time
from collections.abc import Iterator

import httpx
import pytest

from headgate.agent import HttpController
from headgate.core.errors import ControllerAwayError, InputError, SupersededError, TokenRefusedError
from headgate.core.objective import parse_objective
from headgate.core.types import Decision, Instances, Sample, Verdict
from headgate.engines.agents import AgentsEngine, Report
from headgate.service.api import make_api
from headgate.service.config import JobSpec, OperatorSpec, ServiceConfig
from headgate.service.config.model import AccessRules
from headgate.service.service import Service
from headgate.service.serving import ApiServer
from headgate.service.store import open_store
from headgate.service.store.tokens import Scope

HAS_ONE = Instances(1, 1, 1)
SPEC = JobSpec(
    "sums",
    (OperatorSpec("parse"), OperatorSpec("sum")),
    parse_objective("latency p95 < 10s"),
    (("parse", "sum"),),
    report_every_s=0.5,
)
AT = "/v1/jobs/sums/operators/parse/reports"


@pytest.fixture
def service() -> Iterator[Service]:
    with Service(ServiceConfig((SPEC,), access=AccessRules(open_reading=False)), open_store("sqlite://")) as service:
        yield service


@pytest.fixture
def mailbox(service: Service) -> AgentsEngine:
    return service.fleet.job("sums").engine


@pytest.fixture
def token(service: Service) -> str:
    return service.store.tokens.make("agents", {Scope.AGENT, Scope.READ})


@pytest.fixture
def url(service: Service) -> Iterator[str]:
    with ApiServer(make_api(service)) as server:
        yield server.url


def test_a_report_goes_up_and_the_size_comes_down_in_the_answer(mailbox: AgentsEngine, url: str, token: str) -> None:
    with HttpController(url, token, "sums") as controller:
        taken_s = time.time() - 0.25
        first = controller.report("parse", Report("a", HAS_ONE, Sample("job", taken_s, arrived=7)))
        assert first.size is None
        assert first.report_every_s == 0.5
        seen = mailbox.observe().samples["parse"]
        assert seen.arrived == 7
        assert time.time() - seen.at_s == pytest.approx(0.25, abs=0.2)
        mailbox.apply(Decision(0.0, "test", {"parse": Verdict("parse", 1, 3, 3, "t", "asked")}))
        assert controller.report("parse", Report("a", HAS_ONE)).size == 3


def test_a_wrong_token_is_refused_and_nothing_is_taken_in(mailbox: AgentsEngine, url: str, token: str) -> None:
    with (
        HttpController(url, "another", "sums") as controller,
        pytest.raises(TokenRefusedError, match=r"a valid token is needed\. One is made by: headgate token make"),
    ):
        controller.report("parse", Report("a", HAS_ONE))
    assert not mailbox.joined
    assert httpx.get(f"{url}/v1/jobs/sums/state").status_code == 401


def test_the_state_is_given_with_a_token(url: str, token: str) -> None:
    answer = httpx.get(f"{url}/v1/jobs/sums/state", headers={"Authorization": f"Bearer {token}"})
    assert answer.json() == {"ticks": 0, "joined": [], "observation": None, "decision": None}


@pytest.mark.parametrize(
    ("text", "status", "message"),
    [
        ("{", 400, "a report is not JSON"),
        ("[]", 400, "a report is list; an object is needed."),
        ('{"version": 2}', 400, "a report is of version 2; version 1 is spoken here."),
        ('{"version": 1}', 400, "a report is not usable: agent: field required"),
        ('{"version": 1, "agent": "a", "instances": 3}', 400, "a report is not usable: instances"),
        ("x" * 1_000_001, 413, "a message may have 1000000 bytes at most."),
    ],
    ids=["syntax", "not an object", "another version", "nothing in it", "no sizes", "too long"],
)
def test_what_is_not_a_report_is_answered_with_a_sentence(
    url: str, token: str, text: str, status: int, message: str
) -> None:
    headers = {"Authorization": f"Bearer {token}"}
    answer = httpx.post(f"{url}{AT}", content=text, headers=headers)
    assert answer.status_code == status
    assert answer.text.startswith(message), answer.text


def test_an_unknown_operator_a_superseded_agent_and_a_closed_controller_give_different_errors(
    mailbox: AgentsEngine, url: str, token: str
) -> None:
    with HttpController(url, token, "sums") as controller:
        with pytest.raises(InputError, match="did you mean 'parse'"):
            controller.report("prase", Report("a", HAS_ONE))
        controller.report("parse", Report("a", HAS_ONE))
        with pytest.raises(ControllerAwayError, match="another agent reports for 'parse'"):
            controller.report("parse", Report("b", HAS_ONE))
        mailbox.release("parse")
        controller.report("parse", Report("b", HAS_ONE))
        with pytest.raises(SupersededError):
            controller.report("parse", Report("a", HAS_ONE))
        mailbox.close()
        with pytest.raises(ControllerAwayError, match="closed"):
            controller.report("parse", Report("b", HAS_ONE))


def test_the_refusal_of_an_unknown_job_says_what_to_do(url: str, token: str) -> None:
    message = (
        r"unknown job 'sum', did you mean 'sums'\? Known: sums\. Give a name that it knows, or add this one to the file"
    )
    with HttpController(url, token, "sum") as controller, pytest.raises(InputError, match=message):
        controller.report("parse", Report("a", HAS_ONE))


def test_a_controller_that_is_not_there_is_away() -> None:
    with (
        HttpController("http://127.0.0.1:9", "any", "sums") as controller,
        pytest.raises(ControllerAwayError, match="does not answer"),
    ):
        controller.report("parse", Report("a", HAS_ONE))

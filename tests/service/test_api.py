"""The HTTP interface: agents over a real socket, tokens, and what is refused."""

from __future__ import annotations

import time
from collections.abc import Iterator

import httpx
import pytest

from headgate.agent import HttpController
from headgate.core.errors import ControllerAwayError, InputError, SupersededError
from headgate.core.topology import Topology
from headgate.core.types import Decision, Instances, Sample, Verdict
from headgate.engines.agents import AgentsEngine, Report
from headgate.service.api import make_api
from headgate.service.server import LoopbackServer

TOKEN = "a-token-of-the-test"
HAS_ONE = Instances(1, 1, 1)


@pytest.fixture
def mailbox() -> AgentsEngine:
    return AgentsEngine(Topology.of(("parse", "sum")), report_every_s=0.5)


@pytest.fixture
def url(mailbox: AgentsEngine) -> Iterator[str]:
    with LoopbackServer(make_api(mailbox, TOKEN, time.time, lambda: {"sizes": {"parse": 1}})) as server:
        yield server.url


def test_a_report_goes_up_and_the_size_comes_down_in_the_answer(mailbox: AgentsEngine, url: str) -> None:
    with HttpController(url, TOKEN) as controller:
        taken_s = time.time() - 0.25
        first = controller.report("parse", Report("a", HAS_ONE, Sample("job", taken_s, arrived=7)))
        assert first.size is None
        assert first.report_every_s == 0.5
        seen = mailbox.observe().samples["parse"]
        assert seen.arrived == 7
        assert time.time() - seen.at_s == pytest.approx(0.25, abs=0.2)
        mailbox.apply(Decision(0.0, "test", {"parse": Verdict("parse", 1, 3, 3, "t", "asked")}))
        assert controller.report("parse", Report("a", HAS_ONE)).size == 3


def test_a_wrong_token_is_refused_and_nothing_is_taken_in(mailbox: AgentsEngine, url: str) -> None:
    with HttpController(url, "another") as controller, pytest.raises(InputError, match="a valid token is needed"):
        controller.report("parse", Report("a", HAS_ONE))
    assert not mailbox.joined
    assert httpx.get(f"{url}/v1/state").status_code == 401
    assert httpx.get(f"{url}/healthz").text == "ok"


def test_the_state_is_told_to_those_who_may_know(url: str) -> None:
    answer = httpx.get(f"{url}/v1/state", headers={"Authorization": f"Bearer {TOKEN}"})
    assert answer.json() == {"sizes": {"parse": 1}}


@pytest.mark.parametrize(
    ("text", "status", "told"),
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
def test_what_is_not_a_report_is_answered_with_a_sentence(url: str, text: str, status: int, told: str) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    answer = httpx.post(f"{url}/v1/operators/parse/reports", content=text, headers=headers)
    assert answer.status_code == status
    assert answer.text.startswith(told), answer.text


def test_a_strange_operator_a_superseded_agent_and_a_closed_controller_are_told_apart(
    mailbox: AgentsEngine, url: str
) -> None:
    with HttpController(url, TOKEN) as controller:
        with pytest.raises(InputError, match="did you mean 'parse'"):
            controller.report("prase", Report("a", HAS_ONE))
        controller.report("parse", Report("a", HAS_ONE))
        controller.report("parse", Report("b", HAS_ONE))
        with pytest.raises(SupersededError):
            controller.report("parse", Report("a", HAS_ONE))
        mailbox.close()
        with pytest.raises(ControllerAwayError, match="closed"):
            controller.report("parse", Report("b", HAS_ONE))


def test_a_controller_that_is_not_there_is_away() -> None:
    with (
        HttpController("http://127.0.0.1:9", TOKEN) as controller,
        pytest.raises(ControllerAwayError, match="does not answer"),
    ):
        controller.report("parse", Report("a", HAS_ONE))

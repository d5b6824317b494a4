"""An agent on its thread: it goes on after a failure, and ends when its place is taken."""

from __future__ import annotations

import threading
import time

import pytest

from headgate.agent.agent import Agent
from headgate.agent.join import RunningAgent
from headgate.core.errors import InputError, SupersededError, TokenRefusedError
from headgate.core.types import Observation
from headgate.engines.agents import Reply, Report
from headgate.simulation.engine import SimulatedEngine
from headgate.simulation.queue import QueueNetwork
from headgate.workloads import parse_workload


class Controller:
    """Gives its answers one after the other; the last one stays."""

    def __init__(self, *answers: Reply | Exception) -> None:
        self._answers = list(answers)
        self.requests = threading.Semaphore(0)

    def report(self, operator: str, report: Report) -> Reply:
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        self.requests.release()
        if isinstance(answer, Exception):
            raise answer
        return answer


def started(controller: Controller, seen: list[Observation]) -> RunningAgent[Agent]:
    engine = SimulatedEngine(QueueNetwork(parse_workload("constant:1"), 5.0))
    return RunningAgent(Agent(engine, "parse", controller), engine, seen.append).start()


SOON = Reply(2, report_every_s=0.01)


def test_an_agent_goes_on_after_a_refusal_and_shows_what_it_sees(caplog: pytest.LogCaptureFixture) -> None:
    controller, seen = Controller(SOON, InputError("a valid token is needed."), SOON), list[Observation]()
    agent = started(controller, seen)
    for _ in range(4):
        assert controller.requests.acquire(timeout=60)
    agent.stop()
    assert "a valid token is needed" in caplog.text
    assert seen[-1].instances["job"].planned == 2


def test_a_repeated_refusal_is_logged_once_and_again_when_it_changes(caplog: pytest.LogCaptureFixture) -> None:
    job, operator = InputError("unknown job 'clicks'."), InputError("unknown operator 'parse'.")
    controller = Controller(SOON, job, job, job, operator, operator, SOON)
    agent = started(controller, [])
    for _ in range(8):
        assert controller.requests.acquire(timeout=60)
    agent.stop()
    assert [record.getMessage() for record in caplog.records] == [
        "the agent cannot report, and goes on trying: unknown job 'clicks'.",
        "the agent cannot report, and goes on trying: unknown operator 'parse'.",
        "the agent reports again",
    ]


def test_an_agent_that_is_never_let_in_ends_and_one_that_was_goes_on() -> None:
    refused = TokenRefusedError("a valid token is needed.")
    never = started(Controller(refused), [])
    await_end(never)
    assert never.refused is refused
    never.stop()
    controller = Controller(SOON, refused, refused, SOON)
    once = started(controller, [])
    for _ in range(5):
        assert controller.requests.acquire(timeout=60)
    assert once.is_alive
    assert once.refused is None
    once.stop()


def await_end(agent: RunningAgent[Agent]) -> None:
    until_s = time.monotonic() + 60
    while agent.is_alive and time.monotonic() < until_s:
        time.sleep(0.01)
    assert not agent.is_alive


def test_an_agent_that_is_stopped_lets_go_of_what_it_held() -> None:
    closed: list[bool] = []
    engine = SimulatedEngine(QueueNetwork(parse_workload("constant:1"), 5.0))
    agent = RunningAgent(Agent(engine, "parse", Controller(SOON)), engine, closes=lambda: closed.append(True)).start()
    assert not closed
    agent.stop()
    assert closed


def test_an_agent_whose_place_was_taken_ends() -> None:
    agent = started(Controller(SOON, SupersededError("another agent has joined.")), [])
    await_end(agent)
    agent.stop()

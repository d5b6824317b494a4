"""An agent on its thread: it goes on after a failure, and ends when its place is taken."""

from __future__ import annotations

import threading
import time

import pytest

from headgate.agent.agent import Agent
from headgate.agent.running import RunningAgent
from headgate.core.errors import InputError, SupersededError
from headgate.core.types import Observation
from headgate.engines.agents import Reply, Report
from headgate.simulation.engine import SimulatedEngine
from headgate.simulation.queue import QueueNetwork
from headgate.workloads import parse_workload


class Controller:
    """Answers as it is told to, one after the other; the last answer stays."""

    def __init__(self, *answers: Reply | Exception) -> None:
        self._answers = list(answers)
        self.asked = threading.Semaphore(0)

    def report(self, operator: str, report: Report) -> Reply:
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        self.asked.release()
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
        assert controller.asked.acquire(timeout=10)
    agent.stop()
    assert "a valid token is needed" in caplog.text
    assert seen[-1].instances["job"].planned == 2


def test_what_keeps_an_agent_from_reporting_is_said_once_until_it_reports_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    refused, unknown = InputError("a valid token is needed."), InputError("unknown operator 'parse'.")
    controller = Controller(SOON, refused, refused, unknown, unknown, SOON, refused, SOON)
    agent = started(controller, [])
    for _ in range(9):
        assert controller.asked.acquire(timeout=10)
    agent.stop()
    told = [record.getMessage().rpartition(": ")[2] for record in caplog.records]
    assert told == [str(refused), str(unknown), str(refused)]


def test_an_agent_whose_place_was_taken_ends() -> None:
    agent = started(Controller(SOON, SupersededError("another agent has joined.")), [])
    until_s = time.monotonic() + 10
    while agent.is_alive and time.monotonic() < until_s:
        time.sleep(0.01)
    assert not agent.is_alive
    agent.stop()

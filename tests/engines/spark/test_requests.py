"""A request that was refused, or not answered, does not count as done."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from headgate.core.errors import EngineError, EngineGoneError
from headgate.core.types import Outcome
from headgate.engines.spark.backend import Kills, Requests


def test_what_the_cluster_took_is_confirmed() -> None:
    requests = Requests(lambda executors: True)
    assert requests.confirmed is None
    assert requests.ask(3) is None
    assert requests.confirmed == 3


@pytest.mark.parametrize(
    ("error", "outcome", "expected"),
    [
        (None, Outcome.REFUSED, "did not take"),
        (EngineError("the master is gone."), Outcome.FAILED, "the master is gone"),
    ],
)
def test_a_request_that_was_not_taken_is_repeated(error: Exception | None, outcome: Outcome, expected: str) -> None:
    requested: list[int] = []

    def ask(executors: int) -> bool:
        requested.append(executors)
        if error is not None:
            raise error
        return False

    requests = Requests(ask, confirmed=1)
    for _ in range(2):
        answer = requests.ask(3)
        assert answer is not None
        assert answer.outcome is outcome
        assert expected in answer.detail
    assert requests.confirmed == 1
    assert requested == [3, 3]


def test_a_session_that_is_gone_is_not_an_answer() -> None:
    def gone(executors: int) -> bool:
        raise EngineGoneError("the Spark session has stopped.")

    with pytest.raises(EngineGoneError):
        Requests(gone).ask(3)


def test_a_cluster_that_hangs_does_not_hold_up_the_loop_and_is_not_called_twice() -> None:
    answers, requested = threading.Event(), []

    def hanging(executors: int) -> bool:
        requested.append(executors)
        return answers.wait(10)

    requests = Requests(hanging, confirmed=1, answer_within_s=0.01)
    first, second = requests.ask(3), requests.ask(4)
    assert first is not None
    assert second is not None
    assert (first.outcome, second.outcome) == (Outcome.FAILED, Outcome.FAILED)
    assert "within 10ms" in first.detail
    assert "has not answered the request for 3 executors yet" in second.detail
    assert requested == [3]
    answers.set()
    while requests.ask(3) is not None:
        pass
    assert requests.confirmed == 3
    assert requested == [3]


def test_killed_executors_are_reported() -> None:
    killed: list[str] = []
    assert Kills(killed.extend).end(["3", "4"]) == "killed executor 3, 4"
    assert killed == ["3", "4"]


def test_a_cluster_that_hangs_does_not_hold_up_a_kill_either() -> None:
    answers, requested = threading.Event(), []

    def hanging(executors: Sequence[str]) -> None:
        requested.append(list(executors))
        answers.wait(10)

    kills = Kills(hanging, answer_within_s=0.01)
    assert kills.end(["3"]) == "the cluster has not answered within 10ms that executor 3 is to be killed"
    assert kills.end(["3"]) == "the cluster has not answered yet that executor 3 is to be killed"
    assert requested == [["3"]]
    answers.set()
    while "has not answered yet" in (message := kills.end(["3"])):
        pass
    assert message == "killed executor 3"


def test_a_kill_that_fails_is_reported() -> None:
    def failing(executors: Sequence[str]) -> None:
        raise EngineError("the master is gone.")

    with pytest.raises(EngineError, match="the master is gone"):
        Kills(failing).end(["3"])


def test_a_number_that_spark_has_forgotten_is_requested_again() -> None:
    """A new master of a YARN application in client mode clears it, and requests what the job was started with."""
    requested: list[int] = []

    def ask(executors: int) -> bool:
        requested.append(executors)
        return True

    requests = Requests(ask, confirmed=2)
    assert requests.ask(4) is None
    for known, again in ((4, []), (None, [4]), (4, []), (2, [4])):
        requested.clear()
        requests.sync(known)
        assert requests.ask(4) is None
        assert requested == again, known


def test_a_request_that_was_refused_is_not_taken_for_granted_because_spark_has_noted_it() -> None:
    requests = Requests(lambda executors: False, confirmed=1)
    assert requests.ask(3) is not None
    requests.sync(3)  # Spark notes the number before it asks the cluster.
    assert requests.confirmed == 1

"""Why executors are missing: found off the loop's thread, and reported once per reason."""

from __future__ import annotations

import threading
import time

import pytest

from headgate.engines.spark.shortage import (
    LOOK_EVERY_S,
    REPORT_AGAIN_AFTER_S,
    Shortage,
    another_like,
    failure_of,
    reason_of,
)
from headgate.engines.spark.snapshots import Executor

FULL = "exceeded quota: limit, requested: pods=1, used: pods=2, limited: pods=2"


class ClusterWords:
    """A cluster that gives a reason, and counts how often it is consulted."""

    def __init__(self, *reasons: str) -> None:
        self.reasons = list(reasons)
        self.looks = 0

    def ask(self, missing: int) -> str:
        self.looks += 1
        reason = self.reasons[min(self.looks, len(self.reasons)) - 1]
        if reason == "gone":
            raise OSError("connection refused")
        return reason


def reason_after(shortage: Shortage, words: ClusterWords, now: float, *, looks: int) -> str:
    """Look until the cluster was consulted so often and its answer was taken in."""
    until_s = time.monotonic() + 60.0
    while time.monotonic() < until_s:
        why = shortage.look(now, 0.0, 4, 2)
        if words.looks >= looks and shortage.is_settled:
            return why
        time.sleep(0.001)
    raise AssertionError(f"{words.looks} looks of {looks}")


def test_a_reason_is_given_with_each_reading() -> None:
    words = ClusterWords(FULL)
    shortage = Shortage(words.ask)
    assert reason_after(shortage, words, 6.0, looks=1) == FULL
    assert shortage.look(7.0, 0.0, 4, 2) == FULL
    assert words.looks == 1
    assert [event.detail for event in shortage.events] == [
        f"2 of 4 planned executors are ready; the cluster says: {FULL}"
    ]


def test_the_same_reason_with_other_numbers_is_not_reported_again_soon() -> None:
    words = ClusterWords(FULL, FULL.replace("2", "3"), FULL, "no image")
    shortage = Shortage(words.ask)
    at_s = 6.0
    for looks in (1, 2):
        reason_after(shortage, words, at_s, looks=looks)
        at_s += LOOK_EVERY_S
    assert len(shortage.events) == 1
    at_s += REPORT_AGAIN_AFTER_S
    reason_after(shortage, words, at_s, looks=3)
    assert len(shortage.events) == 2
    reason_after(shortage, words, at_s + LOOK_EVERY_S, looks=4)
    assert shortage.events[-1].detail.endswith("no image")


def test_a_cluster_that_does_not_answer_holds_nothing_up_and_gives_no_reason() -> None:
    answered = threading.Event()
    shortage = Shortage(lambda _: str(answered.wait(60)))
    assert [shortage.look(float(second), 0.0, 4, 2) for second in range(6, 60)] == [""] * 54
    answered.set()
    words = ClusterWords("gone")
    shortage = Shortage(words.ask)
    assert reason_after(shortage, words, 6.0, looks=1) == ""
    assert shortage.events == []


def test_where_there_is_no_way_to_ask_nothing_is_said() -> None:
    shortage = Shortage(None)
    assert [shortage.look(float(second), 0.0, 4, 2) for second in range(20)] == [""] * 20


def test_a_pod_that_is_tried_has_the_size_and_the_owner_of_another_and_nothing_else_of_it() -> None:
    pod = {
        "metadata": {"name": "a-exec-1", "uid": "1", "resourceVersion": "7", "labels": {"x": "y"}, "namespace": "n"},
        "spec": {"nodeName": "node", "containers": [{"image": "spark"}]},
        "status": {"phase": "Running"},
    }
    assert another_like(pod) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"labels": {"x": "y"}, "namespace": "n", "generateName": "headgate-dry-run-"},
        "spec": {"containers": [{"image": "spark"}]},
    }


def test_pods_that_start_or_leave_are_no_reason_and_the_most_frequent_one_is_given() -> None:
    starting = {"status": {"phase": "Pending", "containerStatuses": [state("waiting", "ContainerCreating")]}}
    leaving = {
        "metadata": {"deletionTimestamp": "now"},
        "status": {"phase": "Pending", "containerStatuses": [state("waiting", "ErrImagePull")]},
    }
    assert reason_of([starting, leaving]) == ""
    pulling = {"status": {"phase": "Pending", "containerStatuses": [state("waiting", "ImagePullBackOff", "gone.")]}}
    full = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes."}
    waiting = {"status": {"phase": "Pending", "conditions": [full]}}
    assert reason_of([starting, pulling, waiting, waiting]) == "2 pods cannot be scheduled: 0/1 nodes"


def executor(name: str, removed_ms: int | None, why: str = "") -> Executor:
    return Executor(name, removed_ms is None, 1, 0, 0, 0, 0, 0, removed_ms, removed_why=why)


@pytest.mark.parametrize(
    ("executors", "failure"),
    [
        ([executor("1", None)], ""),
        ([executor("1", 900, "exit code 1")], ""),
        ([executor("sent-away", 2000, "decommissioned")], ""),
        (
            [executor("1", 2000, "exit code 1"), executor("2", 3000, "exit code 2")],
            "executor 2 has failed: exit code 2",
        ),
        (
            [executor("1", 2000, "\nexited with exit code 137\n(SIGKILL).\n\nThe API gave the following: ...")],
            "executor 1 has failed: exited with exit code 137 (SIGKILL).",
        ),
    ],
)
def test_the_newest_failure_is_given_in_the_words_of_spark(executors: list[Executor], failure: str) -> None:
    assert failure_of(executors, {"sent-away"}, since_ms=1000) == failure


def test_a_failure_counts_where_the_cluster_gives_no_reason() -> None:
    silent, words = Shortage(None), ClusterWords(FULL)
    assert silent.look(5.0, 0.0, 4, 2, "it failed") == "it failed"
    assert [event.kind for event in silent.events] == ["executors-missing"]
    shortage = Shortage(words.ask)
    assert shortage.look(6.0, 0.0, 4, 2, "it failed") == "it failed"
    assert reason_after(shortage, words, 6.0, looks=1) == FULL


def test_an_answer_that_comes_after_the_shortage_is_not_of_the_next() -> None:
    answered = threading.Event()
    shortage = Shortage(lambda _: FULL if answered.wait(60) else "")
    assert shortage.look(6.0, 0.0, 4, 2) == ""
    answered.set()
    assert shortage.look(13.0, 8.0, 4, 2) == ""


def state(kind: str, reason: str, message: str = "") -> dict[str, object]:
    return {"state": {kind: {"reason": reason, "message": message}}}

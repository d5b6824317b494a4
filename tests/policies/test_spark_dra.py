"""spark-dra: requests that double while work waits, and executors that go when they are idle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from headgate.core.objective import parse_objective
from headgate.core.types import Batch, Sample
from headgate.core.window import History
from headgate.policies.frame.base import AnyPolicy
from tests.core.building import JOB, observation, policy

WAITING = {"scheduling_delay_s": 5.0, "utilization": 1.0}
CALM = {"scheduling_delay_s": 0.0, "utilization": 0.4}
NOTHING = {"scheduling_delay_s": 0.0, "utilization": 0.0, "input_rate_per_s": 0.0, "backlog": 0.0}


def made(**settings: object) -> AnyPolicy:
    return policy("spark-dra", parse_objective("latency < 10s").within(1, 40), **settings)


def run(chosen: AnyPolicy, readings: Sequence[tuple[float, dict[str, Any]]], planned: int = 2) -> list[int]:
    window = History(JOB)
    sizes = []
    for at_s, reading in readings:
        window.observe(observation(at_s, planned, sample=Sample("job", at_s, **reading)))
        planned = chosen.decide(at_s, window).targets["job"].instances
        sizes.append(planned)
    return sizes


def test_requests_double_while_work_waits() -> None:
    assert run(made(), [(at_s, WAITING) for at_s in range(6)]) == [2, 3, 5, 9, 17, 33]


def test_requests_that_fell_due_between_two_looks_are_made_together() -> None:
    assert run(made(), [(0, WAITING), (3, WAITING)]) == [2, 2 + 1 + 2 + 4]


def test_the_first_request_waits_for_the_backlog_timeout_and_others_for_the_sustained_one() -> None:
    chosen = made(scheduler_backlog_timeout_s=3, sustained_scheduler_backlog_timeout_s=2)
    assert run(chosen, [(at_s, WAITING) for at_s in range(8)]) == [2, 2, 2, 3, 3, 5, 5, 9]


def test_when_no_work_waits_the_doubling_restarts() -> None:
    readings = [(0, WAITING), (1, WAITING), (2, WAITING), (3, CALM), (4, WAITING), (5, WAITING)]
    assert run(made(), readings) == [2, 3, 5, 5, 5, 6]


def test_no_more_than_the_tasks_of_a_batch_can_use() -> None:
    chosen = made(tasks_per_batch=12, cores_per_instance=2)
    assert run(chosen, [(at_s, WAITING) for at_s in range(6)]) == [2, 3, 5, 6, 6, 6]


@pytest.mark.parametrize(
    ("took_s", "planned", "useful", "sizes"),
    [
        # Two waves: the tasks of the second wait for half of the batch. After 1 s, 2 s and 3 s of that more are
        # requested, one, two and four; the next batch begins with one again.
        (6.0, 4, 8, [4, 8]),
        (4.0, 4, 8, [4, 7]),
        (2.0, 4, 8, [4, 5]),
        (1.9, 4, 8, [4, 4]),
        # One wave: nothing waits, however long a batch takes.
        (60.0, 8, 8, [8, 8]),
        # Four waves of 2 s each: six seconds.
        (8.0, 2, 8, [2, 8]),
        (8.0, 2, 40, [2, 40]),
    ],
)
def test_tasks_that_wait_within_a_batch_make_it_grow(
    took_s: float, planned: int, useful: int, sizes: list[int]
) -> None:
    reading = {"scheduling_delay_s": 0.0, "useful_instances": useful, "input_rate_per_s": 10.0, "running_s": None}
    ended = {"batches": (Batch(10.0 - took_s, 10.0, 100),), "batch_ended_s": 10.0}
    assert run(made(), [(0, {**reading, "batch_ended_s": 0.0}), (11, {**reading, **ended})], planned) == sizes


def test_requests_of_a_batch_that_runs_are_not_made_again_when_it_has_ended() -> None:
    reading = {"scheduling_delay_s": 0.0, "useful_instances": 40, "input_rate_per_s": 10.0, "batch_ended_s": 0.0}
    readings: list[tuple[float, dict[str, Any]]] = [
        (0.0, {**reading, "running_s": 0.0}),
        # Of 4 s a share of 19/20 was waited: requests of 1, 2 and 4. At 9 instances there are 5 waves: 4.8 s of 6 s.
        (4.0, {**reading, "running_s": 4.0}),
        (6.0, {**reading, "running_s": None, "batches": (Batch(0.0, 6.0, 100),), "batch_ended_s": 6.0}),
        (7.0, {**reading, "running_s": None}),
    ]
    assert run(made(), readings) == [2, 9, 17, 17]


def test_executors_beyond_the_tasks_are_idle() -> None:
    chosen = made(tasks_per_batch=4)
    assert run(chosen, [(at_s, CALM) for at_s in (0, 30, 60)], planned=8) == [8, 8, 4]


def test_a_job_without_records_gives_all_back_after_the_idle_timeout_and_one_with_a_few_nothing() -> None:
    times = (0, 30, 60)
    assert run(made(), [(at_s, NOTHING) for at_s in times], planned=8) == [8, 8, 1]
    assert run(made(), [(at_s, {**CALM, "utilization": 0.05}) for at_s in times], planned=8) == [8, 8, 8]
    assert run(made(), [(0, NOTHING), (30, CALM), (60, NOTHING)], planned=8) == [8, 8, 8]


@pytest.mark.parametrize(
    ("reading", "waits"),
    [
        ({"scheduling_delay_s": 0.1}, True),
        ({"scheduling_delay_s": 0.0}, False),
        ({"utilization": 1.0}, True),
        ({"utilization": 0.99}, False),
        ({"scheduling_delay_s": 0.0, "backlog": 50.0}, False),
        ({"backlog": 50.0}, True),
        ({"backlog": 0.0}, False),
        ({}, False),
    ],
)
def test_what_counts_as_work_that_waits(reading: dict[str, float], waits: bool) -> None:
    assert (run(made(), [(0, reading), (1, reading)])[-1] > 2) is waits

"""Executors over time: who may leave first, how busy they were, how long they took to be of use."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headgate.core.types import Batch, Startup
from headgate.engines.spark.executors import STARTUP_WATCHED_S, ExecutorHistory, least_useful
from headgate.engines.spark.snapshots import Executor


def executor(
    name: str, *, active: int = 0, cached: int = 0, added_ms: int = 0, busy_ms: int = 0, completed: int = 0
) -> Executor:
    return Executor(
        id=name,
        is_active=True,
        cores=1,
        active_tasks=active,
        completed_tasks=completed,
        cached_blocks=cached,
        busy_ms=busy_ms,
        added_ms=added_ms,
        removed_ms=None,
    )


def test_the_least_useful_are_idle_then_without_blocks_then_young() -> None:
    executors = [
        executor("busy", active=1, added_ms=9),
        executor("cached", cached=3, added_ms=9),
        executor("old", added_ms=1),
        executor("young", added_ms=5),
        executor("miscounted", active=-1, added_ms=3),
    ]
    order = [executor.id for executor in least_useful(executors)]
    assert order == ["young", "miscounted", "old", "cached", "busy"]


@pytest.mark.parametrize(
    ("change", "can_work"),
    [({}, True), ({"is_active": False}, False), ({"is_excluded": True}, False), ({"is_leaving": True}, False)],
)
def test_ready_means_that_it_can_take_a_task_now(change: dict[str, bool], can_work: bool) -> None:
    assert replace(executor("1"), **change).can_work is can_work  # type: ignore[arg-type]


def test_an_executor_that_spark_has_forgotten_keeps_its_task_time() -> None:
    history = ExecutorHistory()
    history.see(10.0, 0.0, [executor("1", busy_ms=4000), executor("2", busy_ms=6000)])
    history.see(20.0, 0.0, [executor("2", busy_ms=9000)])
    assert history.busy_s == 13
    assert history.available_s == 20, "two slots for ten seconds; one from then on"
    history.see(30.0, 0.0, [executor("2", busy_ms=9000)])
    assert history.available_s == 30


def test_a_start_up_is_reported_at_registration_and_when_it_is_complete() -> None:
    history = ExecutorHistory()
    history.see(0.0, 0.0, [executor("1")])
    history.requested(2, 100.0)
    history.see(105.0, 0.0, [executor("1"), executor("2", added_ms=103_000)])
    assert history.take_startups(105.0) == (Startup("2", 100.0, 3.0),)
    assert history.take_startups(106.0) == ()
    history.on_batches([Batch(104.0, 108.0, 10, warming=True), Batch(110.0, 112.0, 10)])
    history.see(113.0, 0.0, [executor("1"), executor("2", added_ms=103_000, completed=1)])
    assert history.take_startups(113.0) == (Startup("2", 100.0, 3.0, 13.0, 10.0),)
    assert history.take_startups(114.0) == ()


def test_an_executor_without_work_is_reported_after_a_while() -> None:
    history = ExecutorHistory()
    history.requested(1, 100.0)
    history.see(110.0, 0.0, [executor("2", added_ms=105_000)])
    assert history.take_startups(110.0 + STARTUP_WATCHED_S) == (Startup("2", 100.0, 5.0),)


def test_executors_without_a_request_have_no_start_up_and_a_withdrawn_request_no_longer_counts() -> None:
    history = ExecutorHistory()
    history.requested(2, 100.0)
    history.requested(-1, 101.0)
    history.see(110.0, 0.0, [executor("2", added_ms=105_000), executor("3", added_ms=106_000)])
    assert [startup.instance for startup in history.take_startups(110.0 + STARTUP_WATCHED_S)] == ["2"]


def test_an_executor_that_died_while_it_started_is_not_reported() -> None:
    history = ExecutorHistory()
    history.requested(1, 100.0)
    history.see(110.0, 0.0, [replace(executor("2", added_ms=105_000), is_active=False, removed_ms=108_000)])
    assert history.take_startups(1000.0) == ()


def test_times_come_from_the_wall_and_are_moved_to_the_loops_clock() -> None:
    history = ExecutorHistory()
    history.see(50.0, -1000.0, [executor("1", added_ms=1_045_000)])
    assert history.joined_s == {"1": 45.0}

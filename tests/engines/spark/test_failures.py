"""Spark ends an application whose executors fail too often: that limit is known, raised, or not reached."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from headgate.core.types import Severity
from headgate.engines.spark.backend import FailureTracker
from headgate.engines.spark.executors import PAUSED_FOR_S, RAISED_LIMIT, FailureLimit
from headgate.engines.spark.snapshots import Executor
from tests.engines.spark.scala import same


def session(master: str, **settings: str) -> Any:
    conf = SimpleNamespace(getAll=lambda: list(settings.items()))
    return SimpleNamespace(sparkContext=SimpleNamespace(master=master, getConf=lambda: conf))


class Field:
    def __init__(self, holder: Any, name: str) -> None:
        self._holder, self._name = holder, name

    def setAccessible(self, accessible: bool) -> None:  # noqa: N802 - as Java has it
        """Allowed."""

    def get(self, target: Any) -> Any:
        return getattr(self._holder, self._name)

    def _set(self, target: Any, value: int) -> None:
        setattr(self._holder, self._name, value)

    setInt = setLong = _set  # noqa: N815


class Java:
    """An object whose attributes are also fields of its class."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)

    def getClass(self) -> Any:  # noqa: N802
        return SimpleNamespace(getDeclaredField=self._field, getSuperclass=same(None))

    def _field(self, name: str) -> Field:
        if name not in self.__dict__:
            from py4j.protocol import Py4JError

            raise Py4JError(f"java.lang.NoSuchFieldException: {name}")
        return Field(self, name)


def kubernetes(place: str) -> tuple[Any, Any, Any]:
    """A scheduler backend as that of a version of Spark, its manager of pods, and its tracker."""
    tracker = Java(executorFailuresValidityInterval=-1)
    manager = Java(maxNumExecutorFailures=4, getNumExecutorsFailed=same(2), failureTracker=lambda: tracker)
    return Java(**{place: manager}), manager, tracker


@pytest.mark.parametrize("place", ["podAllocator", "lifecycleEventHandler", "lifecycleManager"])
def test_a_limit_that_nobody_has_chosen_is_raised_where_spark_keeps_it(place: str) -> None:
    backend, manager, tracker = kubernetes(place)
    found = FailureTracker.found(None, backend, "k8s://https://10.0.0.1", "client")
    limit = FailureLimit.of(
        session("k8s://https://10.0.0.1", **{"spark.executor.instances": "2"}), found, 0.0, acts=True
    )
    assert (manager.maxNumExecutorFailures, tracker.executorFailuresValidityInterval) == (RAISED_LIMIT, 3_600_000)
    assert limit.limit == RAISED_LIMIT
    assert limit.event is not None
    assert limit.event.detail == (
        "Spark would end this application after more than 4 failed executors, as spark.executor.maxNumFailures is not "
        "set: raised to 100,000 within 1h"
    )
    limit.see(1.0, 0.0, [], ())
    assert limit.count == 2


@pytest.mark.parametrize(
    ("case", "settings", "acts"),
    [
        ("it was chosen", {"spark.executor.maxNumFailures": "50"}, True),
        ("by its older name", {"spark.yarn.max.executor.failures": "50"}, True),
        ("Headgate only observes", {}, False),
    ],
)
def test_a_limit_that_was_chosen_stays_and_so_does_any_where_headgate_does_not_act(
    case: str, settings: dict[str, str], acts: bool
) -> None:
    backend, manager, _ = kubernetes("lifecycleManager")
    found = FailureTracker.found(None, backend, "k8s://https://10.0.0.1", "client")
    limit = FailureLimit.of(session("k8s://https://10.0.0.1", **settings), found, 0.0, acts=acts)
    assert (manager.maxNumExecutorFailures, limit.event) == (4, None)
    assert limit.limit == (50 if settings else 3)


def test_on_yarn_in_client_mode_the_limit_is_out_of_reach_and_that_is_said_at_the_start() -> None:
    assert FailureTracker.found(None, Java(), "yarn", "client") is None
    limit = FailureLimit.of(session("yarn"), None, 0.0, acts=True)
    assert limit.limit == 3
    assert limit.event is not None
    assert limit.event.severity is Severity.WARNING
    assert "submit the job with spark.executor.maxNumFailures=1000" in limit.event.detail


def test_a_standalone_cluster_has_no_such_limit() -> None:
    limit = FailureLimit.of(session("spark://127.0.0.1:7077"), None, 0.0, acts=True)
    limit.see(1.0, 0.0, [executor("1", 0.5)], ())
    assert (limit.limit, limit.event, limit.why_paused(1.0)) == (None, None, None)


def executor(name: str, removed_s: float | None, tasks: int = 0) -> Executor:
    removed_ms = None if removed_s is None else int(1000 * removed_s)
    return Executor(name, removed_s is None, 1, 0, tasks, 0, 0, 0, removed_ms)


def test_near_the_limit_nothing_is_requested_for_a_while_after_an_executor_failed_at_its_start() -> None:
    limit = FailureLimit(6, None, None)
    limit.see(10.0, 0.0, [executor("1", 5.0), executor("2", 6.0), executor("3", None)], ())
    assert (limit.count, limit.why_paused(10.0)) == (2, None)
    limit.see(20.0, 0.0, [executor("3", 15.0), executor("4", 16.0), executor("5", None)], {"4"})
    assert limit.count == 3, "executor 4 was sent away, and did not fail"
    assert limit.why_paused(50.0) == (
        "executors have failed 3 times, 30s ago before doing any work, and Spark ends the application after more than "
        "6 (spark.executor.maxNumFailures): none is requested within 10m of such a failure"
    )
    assert limit.why_paused(20.0 + PAUSED_FOR_S) is None


def test_executors_that_had_worked_and_were_killed_are_replaced() -> None:
    """Requests have no part in such failures; to replace fewer would only make the job smaller."""
    limit = FailureLimit(4, None, None)
    limit.see(20.0, 0.0, [executor(str(number), 15.0, tasks=7) for number in range(4)], ())
    assert (limit.count, limit.why_paused(21.0)) == (4, None)


def test_pods_that_were_refused_are_failures_of_which_no_executor_tells() -> None:
    backend, manager, _ = kubernetes("lifecycleManager")
    found = FailureTracker.found(None, backend, "k8s://https://10.0.0.1", "client")
    limit = FailureLimit(20, None, found)
    for at_s, failures in ((1.0, 2), (2.0, 11)):
        manager.getNumExecutorsFailed = same(failures)
        limit.see(at_s, 0.0, [], ())
    assert limit.why_paused(3.0) is not None


def test_a_new_master_counts_its_own_failures() -> None:
    limit = FailureLimit(2, None, None)
    lost = [executor(str(number), 15.0) for number in range(3)]
    limit.see(20.0, 0.0, lost, ())
    assert limit.why_paused(20.0) is not None
    limit.restart()
    limit.see(30.0, 0.0, lost, ())
    assert (limit.count, limit.why_paused(30.0)) == (0, None)


def test_failures_are_forgotten_after_the_interval_that_was_set() -> None:
    limit = FailureLimit(2, 60.0, None)
    limit.see(10.0, 0.0, [executor("1", 5.0)], ())
    assert limit.why_paused(10.0) is not None
    limit.see(70.0, 0.0, [executor("1", 5.0)], ())
    assert (limit.count, limit.why_paused(70.0)) == (0, None)

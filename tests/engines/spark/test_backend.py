"""Which sessions cannot be scaled at all."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headgate.core.errors import UnsupportedEngineError
from headgate.engines.spark.backend import SparkBackend, own_session
from headgate.engines.spark.engine import application_id
from headgate.engines.spark.queries import SparkQueries
from tests.engines.spark.scala import JVM, PlayedExecution, same, text_value
from tests.engines.spark.test_versions import JavaClass


def connected(host: str) -> Any:
    kind = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session", "client": SimpleNamespace(host=host)})
    return kind()


@pytest.mark.parametrize("use", [own_session, application_id])
@pytest.mark.parametrize(("host", "behind"), [("lab", object()), ("localhost", None)])
def test_a_remote_session_is_refused_with_what_to_do_instead(
    monkeypatch: pytest.MonkeyPatch, host: str, behind: object, use: Callable[[Any], object]
) -> None:
    monkeypatch.setattr(SparkSession, "_instantiatedSession", behind)
    with pytest.raises(UnsupportedEngineError, match=r"Spark Connect session.*SparkConnectPlugin.*without remote"):
        use(connected(host))


def test_behind_a_session_of_connect_in_this_driver_is_one_that_can_be_scaled(monkeypatch: pytest.MonkeyPatch) -> None:
    behind = object()
    monkeypatch.setattr(SparkSession, "_instantiatedSession", behind)
    assert own_session(connected("localhost")) is behind
    assert own_session(behind) is behind


@pytest.mark.parametrize(("trigger", "expected"), [("RealTimeTrigger", True), ("ProcessingTimeTrigger", False)])
def test_an_application_with_a_query_in_real_time_mode_is_refused(trigger: str, expected: bool) -> None:
    played = PlayedExecution("a", 10, lambda records: {"records": records}, trigger=trigger).as_query()
    played.runId = same(text_value("run-1"))
    queries = object.__new__(SparkQueries)  # Making one takes a driver.
    queries._jvm, queries._session, queries._known, queries._list = JVM, None, {}, list
    queries._active = SimpleNamespace(elements=lambda: [played])
    with pytest.raises(UnsupportedEngineError, match="'played' runs in real-time mode") if expected else nullcontext():
        queries.refuse_real_time()


@pytest.mark.parametrize(
    ("running", "take_over", "stopped"),
    [(True, False, None), (True, True, True), (False, False, False), (False, True, False)],
)
def test_sparks_own_allocation_is_refused_or_stopped_only_while_it_runs(
    *, running: bool, take_over: bool, stopped: bool | None
) -> None:
    stops: list[bool] = []
    fields = JavaClass({"executor": SimpleNamespace(isShutdown=same(not running))})
    manager = SimpleNamespace(getClass=same(fields), stop=lambda: stops.append(True))
    backend = object.__new__(SparkBackend)  # Making one takes a driver.
    option = SimpleNamespace(isDefined=same(True), get=same(manager))
    backend._context = SimpleNamespace(executorAllocationManager=same(option))
    with pytest.raises(UnsupportedEngineError, match="take_over=True") if stopped is None else nullcontext():
        backend._stop_sparks_own(take_over)
    assert bool(stops) is bool(stopped)

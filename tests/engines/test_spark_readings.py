"""One reading of an application: several queries, executors that come and go, batches that take too long."""

from __future__ import annotations

import json

import pytest

from headgate.core.types import Sample
from headgate.engines.spark_readings import Readings

TRIGGERS_S = {"a": 2.0, "b": 10.0}


class Application:
    """Readings that are fed with batches of queries whose offsets count records."""

    def __init__(self) -> None:
        self.readings = Readings()
        self._ends: dict[str, int] = {}

    def batch(self, ended_s: float, took_s: float = 1.0, records: int = 20, query: str = "a", run: str = "1") -> None:
        start = self._ends.get(query)
        end = self._ends[query] = (start or 0) + records
        source = {
            "numInputRows": records,
            "startOffset": None if start is None else json.dumps({"records": start}),
            "endOffset": json.dumps({"records": end}),
            "latestOffset": json.dumps({"records": end}),
        }
        event = {"id": query, "runId": run, "durationMs": {"triggerExecution": took_s * 1000}, "sources": [source]}
        self.readings.on_progress(json.dumps(event), ended_s, TRIGGERS_S)

    def sample(self, now: float, utilization: float | None = None) -> Sample:
        sample = self.readings.sample("job", now, utilization)
        assert sample is not None
        return sample


def test_there_is_no_reading_before_the_first_batch() -> None:
    assert Readings().sample("job", 10.0, 0.5) is None


def test_a_reading_is_as_old_as_the_batch_behind_it() -> None:
    application = Application()
    application.batch(12.0)
    assert application.sample(20.0).at_s == 12.0
    assert application.sample(20.0).trigger_interval_s == 2.0
    assert application.sample(20.0, utilization=0.4).utilization == 0.4


@pytest.mark.parametrize(
    ("case", "joined_s", "left_s", "batches", "warming"),
    [
        # batches are (ended, took); the first of a query is always cold
        ("the first batch of a query", [0.0], [], [(5, 1)], True),
        ("the second one", [0.0], [], [(5, 1), (8, 1)], False),
        ("an executor joined during the batch", [0.0, 7.5], [], [(5, 1), (8, 1)], True),
        ("the first full batch with it", [0.0, 7.5], [], [(5, 1), (8, 1), (11, 1)], True),
        ("the second full batch with it", [0.0, 7.5], [], [(5, 1), (8, 1), (11, 1), (14, 1)], False),
        ("it joined after the batch", [0.0, 8.5], [], [(5, 1), (8, 1)], False),
        ("an executor left during the batch", [0.0], [7.5], [(5, 1), (8, 1)], True),
        ("the batch after it left", [0.0], [7.5], [(5, 1), (8, 1), (11, 1)], False),
    ],
)
def test_a_reading_is_warming_while_executors_come_and_go(
    case: str, joined_s: list[float], left_s: list[float], batches: list[tuple[float, float]], warming: bool
) -> None:
    application = Application()
    for ended_s, took_s in batches:
        known_joined = [at_s for at_s in joined_s if at_s <= ended_s]
        application.readings.on_executors(known_joined, [at_s for at_s in left_s if at_s <= ended_s])
        application.batch(ended_s, took_s)
    assert application.sample(batches[-1][0]).warming is warming, case


def test_an_empty_batch_warms_nobody_up() -> None:
    application = Application()
    application.batch(5.0)
    application.readings.on_executors([5.5], [])
    application.batch(8.0, records=0)
    application.batch(11.0)
    assert application.sample(11.0).warming


def test_queries_add_up_and_the_slowest_sets_the_latency() -> None:
    application = Application()
    for at_s in (10.0, 20.0):
        application.batch(at_s, took_s=1.0, records=20, query="a")
        application.batch(at_s + 1, took_s=4.0, records=60, query="b")
    sample = application.sample(22.0)
    assert sample.input_rate_per_s == pytest.approx(2.0 + 6.0)
    assert sample.processed_rate_per_s == pytest.approx(20.0 + 15.0)
    assert sample.backlog == 0
    assert sample.processing_time_s == pytest.approx(1.0), "a's records waited longer than b's batch takes"
    assert sample.latency_s == pytest.approx(9.0)
    assert sample.at_s == 21.0


def test_a_query_that_ended_no_longer_counts() -> None:
    application = Application()
    application.batch(10.0, query="a")
    application.batch(10.0, query="b")
    application.readings.on_terminated("a", "1")
    assert application.sample(11.0).trigger_interval_s == 10.0
    application.readings.on_terminated("b", "another run")
    assert application.sample(11.0).trigger_interval_s == 10.0
    application.readings.on_terminated("b", "1")
    assert application.readings.sample("job", 11.0, None) is None


def test_a_restarted_query_starts_cold() -> None:
    application = Application()
    application.batch(10.0)
    application.batch(12.0)
    assert not application.sample(12.0).warming
    application.batch(30.0, run="2")
    assert application.sample(30.0).warming


def test_a_batch_that_takes_longer_than_the_last_is_told_before_it_ends() -> None:
    application = Application()
    application.batch(10.0)
    application.batch(12.0)
    application.readings.on_busy("a", 12.5)
    assert application.sample(14.0).at_s == 12.0, "not late yet"
    late = application.sample(20.0)
    assert (late.at_s, late.latency_s, late.processed_rate_per_s) == (20.0, 7.5, None)
    application.batch(21.0, took_s=8.5)
    assert application.sample(21.5).at_s == 21.0


def test_an_idle_query_needs_nothing() -> None:
    application = Application()
    application.batch(10.0)
    application.readings.on_idle("a", "1", 30.0, TRIGGERS_S)
    sample = application.sample(31.0, utilization=0.0)
    assert (sample.at_s, sample.input_rate_per_s, sample.backlog, sample.latency_s) == (30.0, 0.0, 0.0, 0.0)
    assert not sample.warming

"""What cannot be true does not pass the gate, and what is true passes as it is."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from headgate.core.errors import EngineError
from headgate.core.reading_gate import GateResult, ReadingGate, Refusal
from headgate.core.types import COUNTERS, Batch, Instances, Observation, Sample, Startup
from headgate.simulation.batch_job import MicroBatchJob
from headgate.simulation.contract import Kernel
from headgate.simulation.engine import SimulatedEngine
from headgate.simulation.queue import QueueNetwork
from headgate.workloads import parse_workload

SIZE = Instances(4, 4, 4)
TICK_S = 5.0


def readings(count: int, rate_per_s: float = 100.0) -> Iterator[Sample]:
    """Readings of a job that keeps up, with 50 records waiting."""
    for tick in range(count):
        at_s = TICK_S * tick
        arrived = 1000 + rate_per_s * at_s
        yield Sample(
            "job",
            at_s,
            arrived=arrived,
            done=arrived - 50,
            emitted=arrived - 50,
            late=0.0,
            busy_s=2 * at_s,
            available_s=4 * at_s,
            backlog=50.0,
            latency_s=0.5,
            processed_rate_per_s=200.0,
            utilization=0.5,
        )


def checked(samples: Iterable[Sample]) -> list[GateResult]:
    gate = ReadingGate()
    return [
        gate.check(Observation(TICK_S * tick, {"job": sample}, {"job": SIZE})) for tick, sample in enumerate(samples)
    ]


def with_changes(count: int, changes: dict[int, dict[str, Any]]) -> list[Sample]:
    return [replace(sample, **changes.get(tick, {})) for tick, sample in enumerate(readings(count))]


IMPOSSIBLE = [
    *[(name, value) for name in COUNTERS for value in (math.nan, math.inf, -1.0, 1e300)],
    *[(name, value) for name in ("backlog", "latency_s", "running_s", "skew") for value in (math.nan, -math.inf, -0.5)],
    *[(name, value) for name in ("input_rate_per_s", "processed_rate_per_s") for value in (math.nan, 1e300)],
    *[("utilization", value) for value in (-0.1, 50.0, math.nan)],
    *[("batch_ended_s", value) for value in (math.nan, 1e9, -1e300)],
    ("processing_time_s", math.inf),
    ("scheduling_delay_s", -1.0),
    ("trigger_interval_s", 1e300),
]


@pytest.mark.parametrize(("field", "value"), IMPOSSIBLE)
def test_an_impossible_value_is_missing_and_costs_nothing_else(field: str, value: float) -> None:
    results = checked(with_changes(12, {8: {field: value}}))
    bad, after = results[8], results[9]
    assert getattr(bad.observation.samples["job"], field) is None
    assert [event.kind for event in bad.events] == [Refusal.IMPOSSIBLE]
    assert field in bad.events[0].detail
    assert bad.observation.samples["job"].at_s == 8 * TICK_S
    assert not after.events
    assert not any(result.events for result in (*results[:8], *results[9:]))


@pytest.mark.parametrize("at_s", [math.nan, math.inf, -math.inf, 1e300, -1e300, 8 * TICK_S + 300.0])
def test_a_reading_dated_at_no_possible_time_does_not_count(at_s: float) -> None:
    results = checked(with_changes(12, {8: {"at_s": at_s}}))
    assert "job" not in results[8].observation.samples
    assert [event.kind for event in results[8].events] == [Refusal.IMPOSSIBLE]
    assert [len(result.observation.samples) for result in results[9:]] == [1, 1, 1]


def test_an_age_that_cannot_be_makes_the_reading_useless() -> None:
    results = checked(with_changes(12, {8: {"age_s": math.nan}, 9: {"age_s": -300.0}}))
    assert [list(result.observation.samples) for result in results[8:]] == [[], [], ["job"], ["job"]]


JUMPS = [
    *[(name, times) for name in ("done", "arrived", "emitted", "available_s") for times in (1000.0, 10.0, 0.5, 0.0)],
    *[("busy_s", times) for times in (1000.0, 0.5, 0.0)],
    *[("backlog", times) for times in (1000.0, 100.0)],
]


@pytest.mark.parametrize(("field", "times"), JUMPS)
def test_a_jump_or_a_fall_that_nothing_explains_is_missing_until_it_is_over(field: str, times: float) -> None:
    true = list(readings(40))
    bad = replace(true[30], **{field: times * getattr(true[30], field)})
    results = checked([*true[:30], bad, *true[31:]])
    assert getattr(results[30].observation.samples["job"], field) is None
    assert results[30].doubted == {"job"}
    assert [getattr(result.observation.samples["job"], field) for result in results[31:]] == [
        getattr(sample, field) for sample in true[31:]
    ]


def test_a_counter_that_was_reset_is_missing_once_and_then_continues_alone() -> None:
    true = list(readings(40))
    reset = [*true[:30], *(replace(sample, done=(sample.done or 0.0) - 15_000) for sample in true[30:])]
    results = checked(reset)
    done = [result.observation.samples["job"].done for result in results]
    assert done[30] is None
    assert done[31:] == [(true[29].done or 0.0) + 500 * ticks for ticks in range(1, 10)]
    assert [event.kind for result in results for event in result.events] == [Refusal.QUARANTINED, Refusal.REBASED]
    assert [result.observation.samples["job"].arrived for result in results] == [sample.arrived for sample in true]


def test_rounding_is_no_fall() -> None:
    true = list(readings(10))
    noisy = [*true[:8], replace(true[8], busy_s=(true[7].busy_s or 0.0) - 1e-6), true[9]]
    results = checked(noisy)
    assert results[8].observation.samples["job"].busy_s == true[7].busy_s
    assert not any(result.events for result in results)


@pytest.mark.parametrize("times", [1000.0, 10.0])
def test_a_wrong_counter_that_stays_wrong_is_never_counted(times: float) -> None:
    wrong = {tick: {"done": times * (950 + 500 * tick)} for tick in range(30, 40)}
    results = checked(with_changes(60, wrong))
    true = list(readings(60))
    done = [result.observation.samples["job"].done for result in results]
    assert all(value is None for value in done[30:40])
    assert done[45:] == [sample.done for sample in true[45:]]


@pytest.mark.parametrize("arrived", [0.0, 15_500.0])
def test_a_counter_of_arrivals_that_stands_still_while_records_are_done_is_missing(arrived: float) -> None:
    true = list(readings(60))
    results = checked(with_changes(60, {tick: {"arrived": arrived} for tick in range(30, 40)}))
    found = [result.observation.samples["job"].arrived for result in results]
    assert all(value is None for value in found[30:40])
    assert found[41:] == [sample.arrived for sample in true[41:]]


@pytest.mark.parametrize("times", [10.0, 50.0, 1000.0])
def test_a_true_burst_passes_at_once(times: float) -> None:
    arrived = done = 0.0
    samples = []
    for tick in range(40):
        rate_per_s = 20.0 * (times if tick >= 20 else 1.0)
        arrived += rate_per_s * TICK_S
        done += min(400.0 * TICK_S, arrived - done)
        samples.append(Sample("job", TICK_S * tick, arrived=arrived, done=done, backlog=arrived - done))
    results = checked(samples)
    assert [result.observation.samples["job"] for result in results] == samples
    assert not any(result.events for result in results)


def test_readings_in_which_nothing_moves_though_records_wait_are_withheld() -> None:
    true = list(readings(30))
    frozen = [*true[:10], *(replace(true[10], at_s=sample.at_s) for sample in true[10:20]), *true[20:]]
    results = checked(frozen)
    assert [len(result.observation.samples) for result in results] == [1] * 11 + [0] * 9 + [1] * 10
    assert [tick for tick, result in enumerate(results) if result.doubted] == list(range(11, 20))
    assert [tick for tick, result in enumerate(results) if result.events] == [16], "it is reported only where it lasts"


def test_readings_that_come_more_often_than_they_change_are_not_frozen() -> None:
    changing = [sample for sample in readings(80) if sample.at_s % 10 == 0]
    often = [replace(sample, at_s=sample.at_s + late_s) for sample in changing for late_s in (0.0, TICK_S)]
    assert not any(result.doubted for result in checked(often))


def test_earlier_readings_that_are_dated_now_are_withheld_and_a_restart_is_not() -> None:
    true = list(readings(60))
    old = [*true[:40], *(replace(true[tick - 20], at_s=true[tick].at_s) for tick in range(40, 50)), *true[50:]]
    results = checked(old)
    assert [len(result.observation.samples) for result in results] == [1] * 40 + [0] * 10 + [1] * 10
    assert [event.kind for result in results for event in result.events] == [Refusal.OLD]
    assert results[-1].observation.samples["job"] is true[-1]
    first = next(readings(1))
    restarted = [*true[:40], *(replace(sample, at_s=sample.at_s + 200.0) for sample in readings(20))]
    again = checked(
        [
            replace(sample, arrived=(sample.arrived or 0) - 1000, done=(sample.done or 0) - 950)
            for sample in restarted
            if sample is not first
        ]
    )
    assert all(result.observation.samples for result in again)
    assert Refusal.REBASED in [event.kind for result in again for event in result.events]


@pytest.mark.parametrize(("rate_per_s", "expected"), [(0.0, None), (100_000.0, None), (150.0, 150.0)])
def test_a_rate_that_contradicts_the_counter_is_missing_once(rate_per_s: float, expected: float | None) -> None:
    results = checked(with_changes(40, {30: {"input_rate_per_s": rate_per_s}}))
    assert results[30].observation.samples["job"].input_rate_per_s == expected
    assert bool(results[30].doubted) is (expected is None)
    always = checked(with_changes(40, {tick: {"input_rate_per_s": rate_per_s} for tick in range(5, 40)}))
    assert {result.observation.samples["job"].input_rate_per_s for result in always[6:]} == {rate_per_s}


def test_time_that_stands_still_is_frozen_also_where_nothing_waits() -> None:
    true = [replace(sample, backlog=0.0, done=sample.arrived) for sample in readings(40)]
    frozen = [*true[:20], *(replace(true[20], at_s=sample.at_s) for sample in true[20:30]), *true[30:]]
    assert [len(result.observation.samples) for result in checked(frozen)] == [1] * 21 + [0] * 9 + [1] * 10
    idle = [*true[:20], *(replace(true[20], at_s=s.at_s, available_s=s.available_s) for s in true[20:])]
    assert not any(result.events for result in checked(idle))


def test_an_idle_job_is_not_frozen() -> None:
    idle = [Sample("job", TICK_S * tick, arrived=500.0, done=500.0, backlog=0.0, latency_s=0.0) for tick in range(100)]
    assert not any(result.events for result in checked(idle))


def test_a_reading_that_was_overtaken_does_not_count() -> None:
    true = list(readings(10))
    results = checked([*true[:8], true[3], true[9]])
    assert not results[8].observation.samples
    assert not any(result.events for result in results)


BATCH = Batch(30.0, 34.0, 400.0, oldest_s=29.0, late=0.0)


@pytest.mark.parametrize(
    "changes",
    [
        {"records": math.nan},
        {"records": -1.0},
        {"started_s": 36.0},
        {"ended_s": 1e9},
        {"ended_s": math.nan},
        {"oldest_s": math.inf},
        {"late": 5000.0},
        {"records": 400_000.0},
        {"instances": 10_000_000},
        {"started_s": 34.0 - 1e-7},
    ],
    ids=str,
)
def test_a_batch_that_cannot_be_is_left_out(changes: dict[str, Any]) -> None:
    true = [
        replace(sample, batches=(replace(BATCH, started_s=sample.at_s - 5, ended_s=sample.at_s - 1, oldest_s=None),))
        for sample in readings(7)
    ]
    results = checked([*true, replace(list(readings(8))[7], batches=(replace(BATCH, **changes),))])
    assert results[-1].observation.samples["job"].batches == ()
    assert not any(result.events for result in results[:-1])


@pytest.mark.parametrize("size", [Instances(-1, 4, 4), Instances(4, 4, 1_000_000), Instances(4, 4, math.nan)])  # type: ignore[arg-type]
def test_an_impossible_size_leaves_the_last_known_size_stale(size: Instances) -> None:
    gate = ReadingGate()
    gate.check(Observation(0.0, {}, {"job": SIZE}))
    result = gate.check(Observation(5.0, {}, {"job": size}))
    assert result.observation.instances == {"job": replace(SIZE, stale=True)}
    assert ReadingGate().check(Observation(5.0, {}, {"job": size})).observation.instances == {}


def test_metrics_parts_and_startups_are_checked_too() -> None:
    sample = Sample(
        "job",
        5.0,
        metrics={"heap": math.nan, "files": -3.0},
        parts={"a": Sample("a", 5.0, done=math.inf), "b": Sample("b", 5.0)},
    )
    startups = {"job": (Startup("1", 0.0, math.nan), Startup("2", 0.0, 4.0))}
    passed = ReadingGate().check(Observation(5.0, {"job": sample}, {}, startups)).observation
    assert passed.samples["job"].metrics == {"heap": None, "files": -3.0}
    assert list(passed.samples["job"].parts) == ["b"]
    assert [startup.instance for startup in passed.startups["job"]] == ["2"]


def test_an_observation_without_a_time_cannot_be_used() -> None:
    with pytest.raises(EngineError, match="dated nan"):
        ReadingGate().check(Observation(math.nan, {}, {}))


def test_a_field_that_stays_wrong_is_reported_once_a_minute() -> None:
    results = checked(replace(sample, skew=math.nan) for sample in readings(25))
    assert [tick for tick, result in enumerate(results) if result.events] == [0, 12, 24]
    assert not any(result.doubted for result in results), "a metric that is never right forbids nothing"


@pytest.mark.parametrize("load", ["sine:mean=50,amplitude=40,period=10m", "spike:base=1,peak=150,at=10m,width=3m"])
@pytest.mark.parametrize("model", ["queue", "spark", "kafka", "perfect"])
def test_true_readings_of_simulated_jobs_pass_as_the_objects_they_are(model: str, load: str) -> None:
    workload = parse_workload(load)
    kernel: Kernel = (
        QueueNetwork(workload, 10.0, ready=4)
        if model == "queue"
        else MicroBatchJob(workload, 10.0, ready=4, readings=model)
    )
    engine, gate = SimulatedEngine(kernel, startup_s=20.0), ReadingGate()
    for tick in range(500):
        engine.advance(TICK_S * tick)
        seen = engine.observe()
        result = gate.check(seen)
        assert result.observation is seen, result.events

"""What readings tell of a job, and how close a job that is calibrated to them comes to it."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from headgate.core.objective import parse_objective
from headgate.core.types import Batch, Role, Sample
from headgate.lab.fidelity import replay
from headgate.lab.journal_replay import estimates
from headgate.lab.what_if import (
    CandidatePolicy,
    RecordedJob,
    as_held_up,
    as_it_happened,
    most_records,
    recorded_load,
    until_trigger_s,
)
from headgate.runtime.simulate import SimulationResult, simulate
from headgate.simulation.micro_batch import MicroBatch
from headgate.workloads import parse_workload

OBJECTIVE = parse_objective("latency p95 < 8s").within(1, 8)


@pytest.fixture(scope="module")
def run() -> SimulationResult:
    """A job that was held up for reasons of its own, half a second for a while and once for twenty."""
    job = MicroBatch(
        trigger_interval_s=2.0,
        overhead_s=0.4,
        partitions=8,
        task_overhead_s=0.05,
        cold_task_s=3.0,
        noise=0.05,
        off_s=(*((200.0 + 2 * n, 0.5) for n in range(30)), (400.0, 20.0)),
    )
    return simulate(
        "reactive",
        parse_workload("sine:mean=22,amplitude=8,period=5m"),
        objective=OBJECTIVE,
        settings={"idle_for_s": 60.0},
        service_rate_per_s=12.0,
        model=job,
        start=4,
        startup_s=6.0,
        interval_s=2.0,
        seconds=600.0,
        seed=3,
    )


def job_of(run: SimulationResult) -> RecordedJob:
    return RecordedJob.of(run.observations, run.decisions, OBJECTIVE)


def test_the_recorded_sizes_come_to_what_was_measured(run: SimulationResult) -> None:
    job = job_of(run)
    measured, again = job.measured(OBJECTIVE, OBJECTIVE), job.again(OBJECTIVE)
    assert measured.late_records_pct is not None
    assert measured.late_records_pct > 2
    assert again.instance_seconds == pytest.approx(measured.instance_seconds, rel=0.02)
    assert again.late_records_pct == pytest.approx(measured.late_records_pct, rel=0.15)
    assert again.latency_p50_s == pytest.approx(measured.latency_p50_s, rel=0.1)
    assert again.latency_p95_s == pytest.approx(measured.latency_p95_s, rel=0.15)


def test_a_job_that_is_not_held_up_knows_nothing_of_what_held_it_up(run: SimulationResult) -> None:
    job = job_of(run)
    measured, never = job.measured(OBJECTIVE, OBJECTIVE), replay(job.recording, job.calibration, OBJECTIVE)
    assert (never.late_records_pct or 0.0) < 0.7 * (measured.late_records_pct or 0.0)
    held_up = as_held_up(job.recording, job.calibration, OBJECTIVE).model
    assert sum(by_s for at_s, by_s in held_up.off_s if 195 < at_s < 260) == pytest.approx(15.0, abs=4.0)
    assert held_up.cold_task_s == job.calibration.model.cold_task_s > 0
    assert as_it_happened(job.recording, job.calibration, OBJECTIVE).model.cold_task_s == 0


def test_the_policy_that_acted_is_reproduced_closely(run: SimulationResult) -> None:
    found, _ = job_of(run).under(CandidatePolicy("reactive", {"idle_for_s": 60.0}), OBJECTIVE)
    assert found.instance_seconds == pytest.approx(run.summary.instance_seconds, rel=0.15)


def test_what_was_estimates_lies_within_its_interval(run: SimulationResult) -> None:
    found = {estimate.name: estimate for estimate in estimates(job_of(run))}
    rate = found["service rate of an instance"]
    assert rate.low is not None
    assert rate.high is not None
    assert rate.low <= rate.value <= rate.high
    assert 0.8 * 12 < rate.low < 12.5
    assert found["start-up"].value == pytest.approx(6.0, rel=0.1)


def test_another_bound_than_was_counted_by_is_judged_by_the_batches(run: SimulationResult) -> None:
    job, strict = job_of(run), parse_objective("latency p95 < 3s").within(1, 8)
    assert (job.measured(strict, OBJECTIVE).late_records_pct or 0) > (
        job.measured(OBJECTIVE, OBJECTIVE).late_records_pct or 0
    )


def test_what_waited_at_first_is_part_of_the_load() -> None:
    samples = [Sample("job", at_s, arrived=count, backlog=90.0) for at_s, count in ((100.0, 500), (110.0, 600))]
    assert recorded_load(samples).arrivals(0.0, 10.0) == pytest.approx(190)
    assert recorded_load(samples, 2.0).arrivals(0.0, 2.0) == pytest.approx(90)
    assert recorded_load(samples, 2.0).arrivals(2.0, 12.0) == pytest.approx(100)


def test_arrivals_between_unknown_counts_are_not_lost() -> None:
    counts = ((0.0, 0.0), (5.0, None), (10.0, None), (15.0, 450.0), (20.0, 500.0))
    load = recorded_load([Sample("job", at_s, arrived=count) for at_s, count in counts])
    assert [load.rate_per_s(at_s) for at_s in (2.0, 12.0, 17.0)] == [30.0, 30.0, 10.0]


@pytest.mark.parametrize(
    ("records", "limit"),
    [((120, 120, 120, 120), 120), ((120, 120), None), ((120, 30, 250, 60, 10, 400, 5), None)],
    ids=["often the same", "too rarely", "never the same"],
)
def test_a_limit_is_what_batches_stop_at_while_more_waits(records: tuple[int, ...], limit: float | None) -> None:
    batches = [Batch(10.0 * n, 10.0 * n + 9, count, oldest_s=10.0 * n - 40) for n, count in enumerate(records)]
    assert most_records([*batches, Batch(990.0, 991.0, 3, oldest_s=900.0)]) in (limit, None)
    assert most_records([*batches, batches[-1]]) in (limit, None)
    without = [Batch(before.started_s, before.ended_s, before.records, oldest_s=before.started_s) for before in batches]
    assert most_records(without) is None


@pytest.mark.parametrize("phase_s", [0.0, 0.3, 1.9])
def test_triggers_are_found_from_the_batches_that_waited_for_them(phase_s: float) -> None:
    batches = [Batch(100 + phase_s + 2 * n, 100.8 + phase_s + 2 * n, 5) for n in range(20)]
    assert all(after.started_s > before.ended_s for before, after in pairwise(batches))
    lead_s = until_trigger_s(batches, 107.0, 2.0)
    assert (107.0 - lead_s - phase_s) % 2.0 == pytest.approx(0.0, abs=1e-6) or (
        107.0 - lead_s - phase_s
    ) % 2.0 == pytest.approx(2.0, abs=1e-6)


def test_where_nobody_acted_sizes_are_those_that_were_seen(run: SimulationResult) -> None:
    advice = [replace(decision, role=Role.RECOMMENDED) for decision in run.decisions]
    seen = RecordedJob.of(run.observations, advice, OBJECTIVE)
    assert seen.again(OBJECTIVE).instance_seconds == pytest.approx(run.summary.instance_seconds, rel=0.05)

"""The calibrated simulator comes to what a run was recorded to come to; here the recording is simulated itself."""

from __future__ import annotations

from statistics import fmean

import pytest

from headgate.core.errors import InputError
from headgate.core.objective import parse_objective
from headgate.core.types import Batch
from headgate.lab.batch_times import fit_batch_times
from headgate.lab.fidelity import COMPARED, Calibration, Recording, calibrate, compare, replay
from headgate.runtime.simulate import SimulationResult, simulate
from headgate.runtime.summary import RunRecord
from headgate.simulation.micro_batch import MicroBatch
from headgate.workloads import parse_workload

OBJECTIVE = parse_objective("latency p95 < 10s").within(1, 8)
JOB = MicroBatch(
    trigger_interval_s=2.0,
    overhead_s=0.3,
    max_records_per_batch=150,
    partitions=8,
    task_overhead_s=0.05,
    cold_task_s=3.0,
    noise=0.06,
)
LOADS = {
    "hill": "gaussian:base=5,peak=45,center=9m,sigma=3m",
    "plateau": "spike:base=10,peak=40,at=3m,width=6m",
    "slope": "ramp:from=5,to=45,over=14m",
}


def recorded(load: str) -> SimulationResult:
    return simulate(
        "reactive",
        parse_workload(load),
        objective=OBJECTIVE,
        settings={"idle_for_s": 20.0},
        service_rate_per_s=12.0,
        model=JOB,
        startup_s=6.0,
        startup_spread=0.25,
        drain_s=2.0,
        interval_s=2.0,
        seconds=960.0,
        seed=11,
    )


def recording_of(record: RunRecord, load: str) -> Recording:
    return Recording.of(
        record,
        parse_workload(load),
        trigger_interval_s=2.0,
        max_records_per_batch=150,
        partitions=8,
        drain_s=2.0,
    )


@pytest.fixture(scope="module", params=LOADS)
def run(request: pytest.FixtureRequest) -> tuple[str, SimulationResult, Calibration]:
    load = LOADS[request.param]
    result = recorded(load)
    return load, result, calibrate(recording_of(result.record, load))


def test_the_job_is_found_from_its_batches_and_start_ups(run: tuple[str, SimulationResult, Calibration]) -> None:
    _, _, calibration = run
    times = calibration.times
    assert times.expected_s(0, 1) == pytest.approx(0.3 + 8 * 0.05, abs=0.15)
    assert times.rate_per_s == pytest.approx(12.0, rel=0.1)
    assert times.noise == pytest.approx(0.06, abs=0.04)
    assert calibration.model.cold_task_s == pytest.approx(3.0, abs=1.5)
    assert calibration.startup_s == pytest.approx(6.0, rel=0.35)


def test_replays_come_within_15_percent_of_what_truly_happened(
    run: tuple[str, SimulationResult, Calibration],
) -> None:
    load, result, calibration = run
    recording = recording_of(result.record, load)
    replays = [replay(recording, calibration, OBJECTIVE, seed=seed) for seed in range(5)]
    off = {name: fmean(compare(result.summary, replayed)[name] or 0.0 for replayed in replays) for name in COMPARED}
    assert all(abs(share) < 0.15 for share in off.values()), off
    assert {replayed.rescales for replayed in replays} == {result.summary.rescales}


def test_more_runs_add_information() -> None:
    """Each of these has batches of one size only, which is not enough."""
    load = parse_workload("constant:1")
    few = Recording(load, 60.0, 1, [], [Batch(10 * n, 10 * n + 2.0, 10, instances=1) for n in range(5)], partitions=1)
    many = Recording(load, 60.0, 1, [], [Batch(10 * n, 10 * n + 3.0, 20, instances=1) for n in range(5)], partitions=1)
    for replayed in (few, many):
        with pytest.raises(InputError):
            calibrate(replayed)
    times = calibrate(few, many).times
    assert [times.expected_s(records, 1) for records in (10, 20, 40)] == pytest.approx([2.0, 3.0, 5.0], rel=1e-3)


def test_what_the_engine_counted_comes_to_what_truly_happened(
    run: tuple[str, SimulationResult, Calibration],
) -> None:
    """A live run has no other truth than this."""
    _, result, _ = run
    live = RunRecord(OBJECTIVE)
    live.observations, live.decisions = result.record.observations, result.record.decisions
    off = compare(result.summary, live.summary())
    assert all(share is not None and abs(share) < 0.15 for share in off.values()), off
    assert live.summary().late_records_pct == pytest.approx(result.summary.late_records_pct, abs=1.5)


def test_a_policy_runs_on_the_calibrated_job(run: tuple[str, SimulationResult, Calibration]) -> None:
    load, result, calibration = run
    again = simulate("static", parse_workload(load), objective=OBJECTIVE, seconds=60.0, **calibration.options)
    assert again.run["service_rate_per_s"] == calibration.times.rate_per_s
    assert len(result.observations) > 0


def test_times_of_tasks_are_those_of_the_slot_that_has_most() -> None:
    # Eight tasks of one second on one core each: 3 instances take three waves, and so do no fewer than 3.
    batches = [Batch(0, 0.5 + waves * size, 80 * size, instances=n) for n, waves in ((1, 8), (3, 3)) for size in (1, 2)]
    fitted = fit_batch_times(batches, tasks=8)
    assert fitted is not None
    assert [fitted.overhead_s, fitted.rate_per_s] == pytest.approx([0.5, 10.0], rel=1e-4)


@pytest.mark.parametrize(
    "batches",
    [
        [],
        [Batch(0, 1, 10, instances=1)] * 2,
        [Batch(0, 1, 10, instances=1)] * 5,
        [Batch(0, 1, 10 * n, instances=1, warming=True) for n in range(1, 9)],
        [Batch(0, 9 - n, 10 * n, instances=1) for n in range(1, 9)],
    ],
    ids=["none", "too few", "all alike", "all cold", "faster the more there is to do"],
)
def test_batches_that_tell_too_little_are_refused(batches: list[Batch]) -> None:
    assert fit_batch_times(batches) is None
    recording = Recording(parse_workload("constant:1"), 60.0, 1, [], batches)
    with pytest.raises(InputError, match="do not tell how long batches take"):
        calibrate(recording)


def test_a_run_that_saw_nothing_is_no_recording() -> None:
    with pytest.raises(InputError, match="0 observations are not enough"):
        Recording.of(RunRecord(OBJECTIVE), parse_workload("constant:1"))

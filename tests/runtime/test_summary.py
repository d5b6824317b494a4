"""The figures of a run, from a few observations that can be checked by hand."""

import json

import pytest

from headgate.core.objective import parse_objective
from headgate.core.types import Decision, GuardNote, Instances, Observation, Sample, Verdict
from headgate.runtime.summary import RunRecord, Summary, summarise

OBJECTIVE = parse_objective("latency p95 < 10s")


def seen(at_s: float, sample: Sample | None = None, *, ready: int = 1, requested: int | None = None) -> Observation:
    planned = ready if requested is None else requested
    instances = {"job": Instances(planned=planned, requested=planned, ready=ready)}
    return Observation(at_s, {} if sample is None else {"job": sample}, instances)


def reading(
    at_s: float,
    *,
    latency_s: float | None = 1.0,
    input_rate: float | None = 10.0,
    processed_rate: float | None = 20.0,
    backlog: float | None = 5.0,
) -> Sample:
    return Sample(
        "job",
        at_s,
        input_rate_per_s=input_rate,
        processed_rate_per_s=processed_rate,
        backlog=backlog,
        latency_s=latency_s,
    )


def decided(at_s: float, current: int, target: int, *notes: GuardNote, proposed: int | None = None) -> Decision:
    wanted = target if proposed is None else proposed
    verdict = Verdict("job", current, wanted, target, "code", "reason", {"load": float("inf"), "n": 2}, notes)
    return Decision(at_s, "test", {"job": verdict})


def test_each_observation_counts_for_the_time_since_the_one_before_it() -> None:
    observations = [
        seen(0, reading(0, latency_s=50), ready=9),
        seen(10, reading(10, latency_s=2, backlog=40), ready=1),
        seen(20, reading(20, latency_s=30, processed_rate=5), ready=1, requested=4),
        seen(40, reading(40, latency_s=4), ready=4),
    ]
    decisions = [decided(0, 9, 1), decided(10, 1, 4), decided(20, 4, 4)]
    assert summarise(observations, decisions, OBJECTIVE) == Summary(
        slo_violation_pct=25.0,
        qos_pct=75.0,
        mean_instances=(1 * 10 + 1 * 10 + 4 * 20) / 40,
        instance_seconds=1 * 10 + 4 * 10 + 4 * 20,
        rescales=2,
        max_backlog=40,
        latency_p50_s=4,
        latency_p95_s=30,
        latency_p99_s=30,
    )


def test_instances_that_are_still_there_after_a_scale_in_are_paid_for() -> None:
    observations = [seen(0, ready=3), seen(10, ready=3, requested=1), seen(20, ready=1)]
    assert summarise(observations, [], OBJECTIVE).instance_seconds == 40


@pytest.mark.parametrize(
    ("sample", "kept_up"),
    [
        (reading(10, processed_rate=20, input_rate=10, backlog=99), True),
        (reading(10, processed_rate=10, input_rate=10, backlog=99), True),
        (reading(10, processed_rate=9, input_rate=10, backlog=99), False),
        (reading(10, processed_rate=9, input_rate=10, backlog=0), True),
        (reading(10, processed_rate=None, input_rate=10, backlog=0), True),
    ],
)
def test_a_job_keeps_up_when_it_gets_through_what_arrives_or_nothing_waits(sample: Sample, kept_up: bool) -> None:
    assert summarise([seen(0), seen(10, sample)], [], OBJECTIVE).qos_pct == (100 if kept_up else 0)


def test_the_newest_known_reading_stands_until_there_is_another() -> None:
    observations = [seen(0, reading(0, latency_s=1)), seen(10), seen(20), seen(30, reading(30, latency_s=60))]
    summary = summarise(observations, [], OBJECTIVE)
    assert summary.slo_violation_pct == pytest.approx(100 / 3)


def test_while_a_batch_has_not_ended_the_newest_known_processed_rate_stands() -> None:
    running = reading(20, processed_rate=None, input_rate=10, backlog=200)
    for rate, qos_pct in ((5.0, 0), (15.0, 100)):
        observations = [seen(0), seen(10, reading(10, processed_rate=rate)), seen(20, running)]
        assert summarise(observations, [], OBJECTIVE).qos_pct == qos_pct


def test_what_was_never_known_is_none_and_time_before_the_first_reading_does_not_count() -> None:
    blind = summarise([seen(0), seen(10)], [], OBJECTIVE)
    assert (blind.slo_violation_pct, blind.qos_pct, blind.max_backlog, blind.latency_p50_s) == (None, None, None, None)
    assert (blind.mean_instances, blind.instance_seconds) == (1, 10)
    late = summarise([seen(0), seen(90), seen(100, reading(100, latency_s=60))], [], OBJECTIVE)
    assert late.slo_violation_pct == 100


def test_a_run_of_one_observation_or_none_has_a_summary_too() -> None:
    assert summarise([seen(0, reading(0, latency_s=60))], [], OBJECTIVE).slo_violation_pct == 100
    assert summarise([], [], OBJECTIVE).mean_instances == 0


def test_percentiles_are_of_time_and_not_of_readings() -> None:
    # Nine readings of 1 s in one minute, then one of 5 s for nine minutes.
    observations = [seen(0)]
    observations += [seen(60 * index / 9, reading(index, latency_s=1)) for index in range(1, 10)]
    observations.append(seen(600, reading(600, latency_s=5)))
    summary = summarise(observations, [], OBJECTIVE)
    assert (summary.latency_p50_s, summary.latency_p95_s) == (5, 5)


def test_a_record_keeps_changes_and_the_first_of_equal_interventions_by_a_guard() -> None:
    bounded = GuardNote("bounds", 12, 4, "at most 4 instances")
    record = RunRecord(OBJECTIVE)
    decisions = [
        decided(0, 1, 1),
        decided(5, 1, 4, bounded, proposed=12),
        decided(10, 4, 4, bounded, proposed=12),
        decided(15, 4, 4, bounded, proposed=12),
        decided(20, 4, 4),
        decided(25, 4, 4, bounded, proposed=12),
        decided(30, 4, 3),
    ]
    for decision in decisions:
        record(seen(decision.at_s), decision)
    assert [decision.at_s for decision in record.decisions] == [5, 25, 30]
    assert record.summary().rescales == 2


def test_a_report_counts_time_from_the_start_and_is_valid_json() -> None:
    record = RunRecord(OBJECTIVE)
    record(
        seen(1000), decided(1000, 1, 2, GuardNote("bounds", 9, 2, "at most 2"), GuardNote("blind", 2, 2), proposed=9)
    )
    record(seen(1005, reading(1004, latency_s=1 / 3), ready=1, requested=2), None)
    record(None, None)
    report = json.loads(json.dumps(record.to_json({"policy": "test"}), allow_nan=False))
    assert report["version"] == 1
    assert report["run"] == {"policy": "test"}
    assert report["series"] == [
        {"t": 0, "input_rate": None, "backlog": None, "latency_s": None, "ready": 1, "planned": 1},
        {"t": 5, "input_rate": 10, "backlog": 5, "latency_s": 0.333333, "ready": 1, "planned": 2},
    ]
    assert report["decisions"] == [
        {
            "t": 0,
            "operator": "job",
            "from": 1,
            "to": 2,
            "proposed": 9,
            "code": "code",
            "reason": "reason",
            "numbers": {"load": None, "n": 2},
            "guards": [{"guard": "bounds", "from": 9, "to": 2, "why": "at most 2"}],
        }
    ]

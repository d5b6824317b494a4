"""The figures of a run, from courses and from a few observations that can be checked by hand."""

import json
from dataclasses import asdict

import pytest

from headgate.core.course import Course, rows
from headgate.core.objective import parse_objective
from headgate.core.types import Batch, Decision, GuardNote, Instances, Observation, Sample, Verdict
from headgate.runtime.summary import RunRecord, Summary, course_of, summarise

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


def counted(*observations: Observation, objective: str = str(OBJECTIVE)) -> Summary:
    """The figures of a live run."""
    return summarise(course_of(observations, "job"), [], parse_objective(objective))


COURSE = Course(
    0,
    100,
    # A record that came at 10 s was done at 40 s; one that came at 20 s at 35 s.
    waits=rows([(10, 40, 0, 30), (20, 35, 0, 15)], 4),
    results=rows([(90, 0, 0), (10, 10, 30)], 3),
    loads=lambda: rows([(0, 50, 0, 100, 500), (50, 100, 100, 0, 500)], 5),
    behind=rows([(10, 30)], 2),
    sizes=rows([(0, 50, 2, 3), (50, 100, 1, 1)], 4),
    max_backlog=100,
)


@pytest.mark.parametrize(
    ("objective", "violated_pct", "late_pct"),
    [
        # Older than 10 s from 20 to 40 s.
        ("latency p95 < 10s", 20, 10),
        ("latency p95 < 20s", 10, 5),
        ("latency p95 < 30s", 0, 0),
        # 10 records/s: half of a second's records wait from 2.5 s on, until 2.5 s before the end.
        ("slow records < 50%", 95, None),
        ("throughput >= 95%", 20, None),
    ],
)
def test_a_run_is_scored_by_its_time_and_by_its_records(
    objective: str, violated_pct: float, late_pct: float | None
) -> None:
    decisions = [decided(0, 2, 1), decided(10, 1, 4), decided(20, 4, 4)]
    summary = summarise(COURSE, decisions, parse_objective(objective))
    expected = Summary(violated_pct, late_pct, 80, 1.5, 200, 2, 100, 0, 20, 28)
    assert asdict(summary) == pytest.approx(asdict(expected))


@pytest.mark.parametrize("objective", ["latency p95 < 10s", "slow records < 50%", "throughput >= 95%"])
def test_a_job_without_instances_violates_any_objective(objective: str) -> None:
    course = Course(
        0,
        100,
        waits=rows((), 4),
        loads=lambda: rows([(0, 100, 0, 0, 0)], 5),
        behind=rows((), 2),
        sizes=rows([(0, 75, 1, 1), (75, 100, 0, 0)], 4),
    )
    assert summarise(course, [], parse_objective(objective)).slo_violation_pct == 25


def test_an_objective_of_the_operator_itself_goes_before_the_one_from_end_to_end() -> None:
    own = parse_objective("latency p95 < 20s").slo
    objective = parse_objective("latency p95 < 10s")
    chosen = type(objective)(objective.slo, operators={"job": own})
    assert summarise(COURSE, [], chosen).slo_violation_pct == pytest.approx(10)


def test_a_record_with_the_truth_is_scored_on_it_and_not_on_its_readings() -> None:
    record = RunRecord(OBJECTIVE)
    record(seen(0, reading(0)), None)
    record(seen(100, reading(100, latency_s=99)), None)
    assert record.summary().slo_violation_pct == 89
    record.truth = COURSE
    assert record.summary().slo_violation_pct == pytest.approx(20)


def test_what_a_batch_tells_counts_however_rare_the_readings_are() -> None:
    # The oldest record of the second batch came at 20 s and was done at 50 s: too late from 30 s on.
    batches = (Batch(20, 28, 80, oldest_s=19), Batch(40, 50, 120, oldest_s=20), Batch(50, 55, 50, oldest_s=48))
    summary = counted(
        seen(0, Sample("job", 0, batch_ended_s=0, latency_s=0)),
        seen(100, Sample("job", 100, batches=batches, batch_ended_s=55, latency_s=0, backlog=0)),
    )
    assert summary.slo_violation_pct == 20
    # Those of the second batch came until 40 s, so that all of them are late; those of the first took 8 to 9 s.
    assert summary.late_records_pct == pytest.approx(100 * 120 / 250)
    assert [summary.latency_p50_s, summary.latency_p99_s] == pytest.approx([8 + 75 / 80, 30 - 2.5 / 6])


def test_late_records_that_the_engine_counted_go_before_what_follows_from_its_batches() -> None:
    batches = (Batch(40, 50, 120, oldest_s=20, late=30),)
    first = Sample("job", 0, arrived=1000, late=7, batch_ended_s=0)
    last = Sample("job", 100, arrived=1200, late=57, batches=batches, batch_ended_s=50)
    assert counted(seen(0, first), seen(100, last)).late_records_pct == 25


def test_a_restarted_counter_costs_one_interval_and_nothing_else() -> None:
    counters = [(1000, 0), (1100, 50), (10, 0), (110, 0)]
    samples = [Sample("job", at_s, arrived=arrived, late=late) for at_s, (arrived, late) in enumerate(counters)]
    assert counted(*(seen(sample.at_s, sample) for sample in samples)).late_records_pct == 25


def test_a_record_that_is_not_done_yet_counts_with_what_it_has_waited() -> None:
    stuck = Sample("job", 60, latency_s=60, backlog=100, batch_ended_s=0, running_s=50)
    summary = counted(seen(0, Sample("job", 0, latency_s=0, batch_ended_s=0)), seen(60, stuck))
    assert summary.slo_violation_pct == pytest.approx(100 * 50 / 60)
    assert summary.latency_p50_s == pytest.approx(30)


def test_each_reading_of_rates_and_sizes_counts_for_the_time_since_the_one_before_it() -> None:
    observations = [
        seen(0, reading(0), ready=9),
        seen(10, reading(10, backlog=40), ready=1),
        seen(20, reading(20, processed_rate=5), ready=1, requested=4),
        seen(40, reading(40), ready=4),
    ]
    summary = counted(*observations)
    assert (summary.qos_pct, summary.max_backlog) == (75, 40)
    assert summary.mean_instances == (1 * 10 + 1 * 10 + 4 * 20) / 40
    assert summary.instance_seconds == 1 * 10 + 4 * 10 + 4 * 20


def test_instances_that_are_still_there_after_a_scale_in_are_paid_for() -> None:
    observations = [seen(0, ready=3), seen(10, ready=3, requested=1), seen(20, ready=1)]
    assert counted(*observations).instance_seconds == 40


@pytest.mark.parametrize(
    ("sample", "is_current"),
    [
        (reading(10, processed_rate=20, input_rate=10, backlog=99), True),
        (reading(10, processed_rate=10, input_rate=10, backlog=99), True),
        (reading(10, processed_rate=9, input_rate=10, backlog=99), False),
        (reading(10, processed_rate=9, input_rate=10, backlog=0), True),
        (reading(10, processed_rate=None, input_rate=10, backlog=0), True),
    ],
)
def test_a_job_keeps_up_when_it_gets_through_what_arrives_or_nothing_waits(sample: Sample, is_current: bool) -> None:
    assert counted(seen(0), seen(10, sample)).qos_pct == (100 if is_current else 0)


def test_the_share_of_slow_records_is_judged_by_the_readings_where_there_is_nothing_better() -> None:
    slow = [seen(0, reading(0)), seen(10, reading(10, backlog=9)), seen(30, reading(30, backlog=2))]
    assert counted(*slow, objective="slow records < 50%").slo_violation_pct == pytest.approx(100 / 3)


def test_while_a_batch_has_not_ended_the_newest_known_processed_rate_stands() -> None:
    running = reading(20, processed_rate=None, input_rate=10, backlog=200)
    for rate, qos_pct in ((5.0, 0), (15.0, 100)):
        observations = [seen(0), seen(10, reading(10, processed_rate=rate)), seen(20, running)]
        assert counted(*observations).qos_pct == qos_pct


def test_what_was_never_known_is_none_and_time_before_the_first_reading_does_not_count() -> None:
    blind = counted(seen(0), seen(10))
    assert (blind.slo_violation_pct, blind.qos_pct, blind.max_backlog, blind.latency_p50_s) == (None, None, None, None)
    assert blind.late_records_pct is None
    assert (blind.mean_instances, blind.instance_seconds) == (1, 10)
    late = counted(seen(0), seen(90), seen(100, reading(100, latency_s=60)))
    assert late.slo_violation_pct == 100


def test_a_run_of_one_observation_or_none_has_a_summary_too() -> None:
    assert counted(seen(0, reading(0, latency_s=60))).slo_violation_pct == 100
    assert counted().mean_instances == 0


def test_without_batches_or_counters_percentiles_are_of_time_and_not_of_readings() -> None:
    # Nine readings of 1 s in one minute, then one of 5 s for nine minutes.
    observations = [seen(0, reading(0))]
    observations += [seen(60 * index / 9, reading(60 * index / 9, latency_s=1)) for index in range(1, 10)]
    observations.append(seen(600, reading(600, latency_s=5)))
    summary = counted(*observations)
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
    assert report["version"] == 3
    assert report["run"] == {"policy": "test"}
    assert report["series"] == [
        {"t": 0, "input_rate": None, "backlog": None, "latency_s": None, "ready": 1, "planned": 1},
        {"t": 5, "input_rate": 10, "backlog": 5, "latency_s": 0.333333, "ready": 1, "planned": 2},
    ]
    assert report["decisions"] == [
        {
            "t": 0,
            "role": "acting",
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


def test_a_record_of_a_long_run_keeps_no_more_than_it_may_and_budgets_have_seen_all() -> None:
    whole, thin = RunRecord(OBJECTIVE), RunRecord(OBJECTIVE, most=50)
    for at_s in range(500):
        sample = Sample("job", float(at_s), arrived=10.0 * at_s, done=10.0 * at_s, late=1.0 * at_s)
        seen = Observation(float(at_s), {"job": sample}, {"job": Instances(1, 1, 1)})
        whole(seen, None)
        thin(seen, None)
    assert len(thin.observations) <= 50
    assert (thin.observations[0].at_s, thin.observations[-1].at_s) == (0.0, 499.0)
    assert thin.standing() == whole.standing()


def test_a_record_keeps_no_more_batches_than_it_may() -> None:
    thin = RunRecord(OBJECTIVE, most=1000, most_batches=100)
    for at_s in range(500):
        batches = tuple(Batch(float(at_s), at_s + 0.1, 1.0) for _ in range(3))
        sample = Sample("job", float(at_s), batches=batches)
        thin(Observation(float(at_s), {"job": sample}, {"job": Instances(1, 1, 1)}), None)
        assert sum(len(observation.samples["job"].batches) for observation in thin.observations) <= 100
    assert (thin.observations[0].at_s, thin.observations[-1].at_s) == (0.0, 499.0)


def test_a_long_run_of_many_changes_counts_them_all_and_keeps_some() -> None:
    thin = RunRecord(OBJECTIVE, most=100)
    for at_s in range(200):
        thin(seen(float(at_s)), decided(at_s, 1 + at_s % 2, 2 - at_s % 2))
    assert len(thin.decisions) <= 20
    assert (thin.decisions[0].at_s, thin.decisions[-1].at_s) == (0, 199)
    assert thin.summary().rescales == 200

"""The values that travel through a control cycle."""

import dataclasses

import pytest

from headgate.core.types import METRIC_FIELDS, Batch, Decision, Instances, Sample, Verdict
from tests.core.building import decision


def test_every_gauge_and_rate_is_a_metric_by_its_name_and_counters_are_none() -> None:
    counters = {"arrived", "given", "done", "emitted", "late", "busy_s", "available_s", "paused_s"}
    of_the_engine = {"batch_ended_s", "running_s", "useful_instances"}
    optional = {field.name for field in dataclasses.fields(Sample) if field.default is None}
    assert optional == {*METRIC_FIELDS, *counters, *of_the_engine}


@pytest.mark.parametrize(
    ("name", "value"), [("latency_s", 1.5), ("heap", 0.75), ("files", None), ("backlog", None), ("unheard-of", None)]
)
def test_a_metric_is_found_by_name_and_none_where_it_is_not_known(name: str, value: float | None) -> None:
    sample = Sample("job", 0, latency_s=1.5, metrics={"heap": 0.75, "files": None})
    assert sample.metric(name) == value


def test_a_field_wins_over_a_metric_of_the_same_name() -> None:
    assert Sample("job", 0, latency_s=1.5, metrics={"latency_s": 9.0}).metric("latency_s") == 1.5


@pytest.mark.parametrize(("planned", "ready", "pending"), [(3, 1, 2), (3, 3, 0), (1, 3, -2)])
def test_instances_still_to_come_or_to_go_are_pending(planned: int, ready: int, pending: int) -> None:
    assert Instances(planned, planned, ready).pending == pending


def test_a_decision_is_a_hold_when_no_operator_changes() -> None:
    assert decision(0, 2, 2).is_hold
    assert not decision(0, 2, 3).is_hold
    assert Decision(0, "test", {}).is_hold


def test_a_decision_tells_its_targets() -> None:
    verdict = Verdict("job", 2, 9, 4, "test", "a test")
    assert Decision(0, "test", {"job": verdict}).targets == {"job": 4}
    assert verdict.change == 2


def test_values_cannot_be_changed() -> None:
    sample = Sample("job", 0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        sample.latency_s = 1.0  # type: ignore[misc]


def test_the_latency_by_name_is_the_worst_since_the_reading_before() -> None:
    batches = (Batch(0, 8, 10, oldest_s=-4), Batch(8, 9, 0, oldest_s=-90))
    sample = Sample("job", 10, latency_s=2.0, batches=batches)
    assert (sample.worst_latency_s, sample.metric("latency_s"), sample.latency_s) == (12, 12, 2)


@pytest.mark.parametrize(
    ("sample", "total_s"),
    [
        (Sample("job", 0, scheduling_delay_s=4, processing_time_s=6, latency_s=25), 10),
        (Sample("job", 0, scheduling_delay_s=4, processing_time_s=6, running_s=15), 15),
        (Sample("job", 0, processing_time_s=6, latency_s=25), 25),
        (Sample("job", 0), None),
    ],
    ids=["of the newest batch", "of one that runs longer already", "not known", "nothing known"],
)
def test_the_total_latency_leaves_out_the_wait_for_the_trigger(sample: Sample, total_s: float | None) -> None:
    assert sample.total_latency_s == total_s

"""What can be seen of a micro-batch job: as late and as roughly as Spark tells it, or as it is."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.errors import UnknownNameError
from headgate.core.types import Sample
from headgate.engines.spark.snapshots import QuerySource
from headgate.engines.spark.sources import SourceState
from headgate.simulation.batch_job import MicroBatchJob
from headgate.simulation.batch_readings import KnownArrivals
from headgate.simulation.micro_batch import MicroBatch
from headgate.workloads import parse_workload

PARTITION = ("topic", "0")
TASKS = MicroBatch(trigger_interval_s=10, overhead_s=0, partitions=4)
# 10 records/s until 30 s, then 50: the batch from 30 s on takes 30 s of its four tasks.
RISING = "spike:base=10,peak=50,at=30s,width=1h"


def job(
    readings: str, spec: str = RISING, rate: float = 10.0, model: MicroBatch = TASKS, late_after_s: float | None = None
) -> MicroBatchJob:
    return MicroBatchJob(parse_workload(spec), rate, model, readings=readings, late_after_s=late_after_s)


def read(running: MicroBatchJob, at_s: float) -> Sample:
    running.advance(at_s)
    return running.samples()["job"]


def test_spark_knows_arrivals_as_of_the_planning_of_the_newest_batch_and_guesses_since() -> None:
    running = job("spark")
    readings = [read(running, at_s) for at_s in (31, 36, 39)]
    # Planned at 30 s with 300 records, at the rate of 10/s until then; in truth 350, 600 and 750 have come.
    assert [sample.arrived for sample in readings] == [310, 360, 390]
    assert [sample.age_s for sample in readings] == [1, 6, 9]
    # Planned at 40 s: now it is known. What comes since is guessed from the last half a minute.
    known = read(running, 40.5)
    assert [known.arrived, known.age_s] == pytest.approx([800 + 0.5 * 700 / 30, 0.5])
    assert [sample.input_rate_per_s for sample in (*readings, known)] == [10, 10, 10, 50]


def test_before_a_second_planning_spark_knows_nothing_of_what_arrives() -> None:
    running = job("spark")
    readings = [read(running, at_s) for at_s in (0, 9, 11)]
    assert [(sample.arrived, sample.backlog, sample.latency_s) for sample in readings] == [
        (0, 0, 0),
        (None, None, None),
        (110, 110, 11),
    ]


def test_inside_a_long_batch_spark_tells_nothing_newer_of_the_source() -> None:
    running = job("spark")
    read(running, 41)
    # The batch of the 500 records from 30 to 40 s runs until 90 s.
    sample = read(running, 85)
    assert (sample.age_s, sample.arrived, sample.running_s) == (45, 800 + 45 * 700 / 30, 45)
    assert sample.batches == ()


def test_a_source_that_is_queried_reports_arrivals_as_of_now() -> None:
    running = job("kafka")
    readings = [read(running, at_s) for at_s in (31, 36, 85)]
    assert [sample.arrived for sample in readings] == [350, 600, 3050]
    assert [sample.age_s for sample in readings] == [0, 0, 0]


@pytest.mark.parametrize("readings", ["spark", "kafka", "perfect"])
def test_work_inside_a_batch_is_known_by_whole_tasks_and_batches_by_their_end(readings: str) -> None:
    running = job(readings, "constant:10")
    # The batch of 100 records from 10 s on: four tasks of 2.5 s, one after the other.
    assert [read(running, at_s).done for at_s in (12.4, 12.6, 15.1, 17.6)] == [0, 25, 50, 75]
    assert [batch.ended_s for batch in read(running, 19.9).batches] == []
    assert [batch.ended_s for batch in read(running, 20.1).batches] == [20]


def test_a_guess_that_was_too_high_is_taken_back_but_the_counter_waits_until_it_has_come_true() -> None:
    running = job("spark", "spike:base=5,peak=50,at=0s,width=10s", rate=1000)
    guessed = read(running, 19.9)
    assert [guessed.arrived, guessed.backlog] == pytest.approx([500 + 9.9 * 50, 9.9 * 50])
    # In truth 550 had come by 20 s.
    known = read(running, 20.5)
    assert [known.arrived, known.backlog] == pytest.approx([995, 0.5 * 550 / 20])
    assert read(running, 200).arrived == pytest.approx(500 + 190 * 5)


def test_spark_knows_between_which_plannings_the_records_of_a_batch_arrived_but_not_when() -> None:
    late_in_the_interval = "spike:base=0,peak=10,at=18s,width=2s"
    readings = {readings: read(job(readings, late_in_the_interval), 20.5) for readings in ("spark", "perfect")}
    assert (readings["spark"].latency_s, readings["perfect"].latency_s) == (10.5, 2.5)


def test_what_waits_between_batches_is_as_old_as_the_newest_planning() -> None:
    running = job("spark", "constant:10", rate=1000)
    sample = read(running, 27)
    assert (sample.latency_s, sample.backlog, sample.running_s) == (7, 70, None)


def test_a_source_that_went_quiet_is_seen_to_be_quiet() -> None:
    for readings in ("spark", "kafka", "perfect"):
        running = job(readings, "spike:base=0,peak=10,at=0s,width=20s", rate=1000)
        for at_s in range(60):
            read(running, at_s + 0.5)
        sample = read(running, 60)
        assert (sample.backlog, sample.latency_s, sample.running_s) == (0, 0, None)


def test_with_a_batch_per_interval_arrivals_are_reported_as_each_interval_ends() -> None:
    queueing = MicroBatch(trigger_interval_s=10, overhead_s=0, batch_per_interval=True)
    running = job("spark", "constant:10", rate=2, model=queueing)
    # The batch of the first interval runs until 60 s, and batches of the others wait.
    sample = read(running, 47)
    assert (sample.age_s, sample.arrived, sample.running_s, sample.latency_s) == (7, 470, 37, 47)


def test_a_way_to_read_that_there_is_not_gets_a_suggestion() -> None:
    with pytest.raises(UnknownNameError, match="unknown readings 'sprak', did you mean 'spark'"):
        job("sprak")


@given(
    st.sampled_from(["spark", "kafka", "perfect"]),
    st.sampled_from(["constant:7", RISING, "sine:mean=20,amplitude=30,period=90s"]),
    st.integers(1, 8),
    st.lists(st.floats(0.1, 30), min_size=1, max_size=30),
)
def test_counters_never_go_back_and_agree_with_each_other(
    readings: str, spec: str, partitions: int, gaps_s: list[float]
) -> None:
    model = MicroBatch(trigger_interval_s=5, overhead_s=0.5, partitions=partitions)
    running = job(readings, spec, rate=25, model=model, late_after_s=8)
    read(running, 5)
    before = read(running, 6)
    for gap_s in gaps_s:
        sample = read(running, before.at_s + gap_s)
        for name in ("arrived", "done", "emitted", "late", "busy_s", "available_s"):
            assert getattr(sample, name) >= getattr(before, name), name
        assert sample.arrived is not None
        assert sample.done is not None
        assert sample.backlog is not None
        assert 0 <= sample.backlog <= sample.arrived - sample.done + 1e-6
        assert sample.latency_s is not None
        assert 0 <= sample.latency_s <= sample.at_s
        assert (sample.late or 0.0) <= sample.arrived + 1e-6
        assert math.isfinite(sample.age_s)
        before = sample


def test_an_estimate_that_was_too_high_stays_counted_as_spark_readings_do() -> None:
    """The counter stands still until as many have arrived; what waits and the rate are corrected at once."""
    known, source = KnownArrivals(), SourceState.of(QuerySource("kafka"))
    source.begin({PARTITION: 0.0}, None)
    source.curve.begin(0.0, {PARTITION: 0.0})
    simulated = spark = 0.0
    plannings = {10: 100.0, 20: 200.0, 60: 240.0, 70: 250.0}
    counted = []
    for at_s in range(10, 80, 5):
        if at_s in plannings:
            known.see(float(at_s), plannings[at_s])
            source.curve.add(float(at_s), {PARTITION: plannings[at_s]})
        simulated = max(simulated, known.count(float(at_s)))
        reached, _ = source.reached(float(at_s), extrapolates=True)
        spark += source.count(reached)
        counted.append(simulated)
        assert spark == pytest.approx(simulated, abs=0.01), at_s
        assert source.rate_per_s() == pytest.approx(known.rate_per_s(5.0)), at_s
        assert source.backlog(reached) == pytest.approx(known.count(float(at_s)), abs=0.01), at_s
    assert counted[9:] == [counted[9]] * 5, "550 were assumed, and 250 had arrived"
    assert known.count(75.0) < 300

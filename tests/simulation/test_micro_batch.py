"""The micro-batch job, against batches worked out by hand."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.errors import InputError
from headgate.core.types import Sample
from headgate.simulation.micro_batch import MicroBatch, MicroBatchJob
from headgate.workloads import Workload, parse_workload
from headgate.workloads.steps import Steps

PLAIN = MicroBatch(trigger_interval_s=10, overhead_s=0)


def job(spec: str, service_rate_per_s: float, model: MicroBatch = PLAIN, ready: int = 1) -> MicroBatchJob:
    return MicroBatchJob(parse_workload(spec), service_rate_per_s, model, ready=ready)


def readings(running: MicroBatchJob, until_s: int) -> list[Sample]:
    """Every new reading, looked for once a second."""
    found: list[Sample] = []
    for at_s in range(int(running.now_s), until_s + 1):
        running.advance(at_s)
        found.extend(running.samples().values())
    return found


def newest(running: MicroBatchJob, at_s: float) -> Sample:
    running.advance(at_s)
    return running.samples()["job"]


def test_a_batch_takes_its_overhead_and_the_service_of_what_arrived() -> None:
    running = job("constant:10", 50, MicroBatch(trigger_interval_s=10, overhead_s=1))
    # 100 records at 10 s: 1 s + 100 / 50 s.
    assert newest(running, 14) == Sample(
        operator="job",
        at_s=13,
        input_rate_per_s=10,
        processed_rate_per_s=round(100 / 3, 9),
        backlog=30,
        latency_s=3,
        processing_time_s=3,
        scheduling_delay_s=0,
        trigger_interval_s=10,
        utilization=0.3,
    )


def test_a_batch_that_overruns_is_followed_at_once_and_the_delay_grows() -> None:
    running = job("constant:10", 5)
    running.advance(29)
    running.samples()
    ends = [newest(running, at_s) for at_s in (30, 70, 150)]
    # Batches of 100, 200 and 400 records, each twice as late as the one before.
    assert [sample.at_s for sample in ends] == [30, 70, 150]
    assert [sample.processing_time_s for sample in ends] == [20, 40, 80]
    assert [sample.scheduling_delay_s for sample in ends] == [0, 10, 30]
    assert [sample.latency_s for sample in ends] == [20, 50, 110]
    assert [sample.backlog for sample in ends] == [200, 400, 800]
    assert [sample.utilization for sample in ends] == [1, 1, 1]


def test_after_an_overrun_the_next_boundary_is_waited_for_again() -> None:
    running = job("constant:10", 10, MicroBatch(trigger_interval_s=10, overhead_s=3))
    assert newest(running, 23).at_s == 23
    running.resize("job", 13)
    # 130 records from 23 s on take 3 + 1 s; the next batch then starts at 30 s with 70 records.
    assert newest(running, 27).at_s == 27
    assert newest(running, 34).at_s == pytest.approx(30 + 3 + 70 / 130)


def test_an_admission_limit_leaves_records_to_later_batches_and_they_get_older() -> None:
    running = job("constant:10", 100, MicroBatch(trigger_interval_s=10, overhead_s=0, max_records_per_batch=50))
    ends = [newest(running, at_s) for at_s in (15, 25, 35)]
    # Half of what arrives is admitted: the oldest record of the next batches came at 5 s, then at 10 s.
    assert [sample.scheduling_delay_s for sample in ends] == pytest.approx([0, 5, 10])
    assert [sample.backlog for sample in ends] == pytest.approx([55, 105, 155])


@pytest.mark.parametrize(
    ("model", "end_s"),
    [
        # Half of 100 records is left after 5 s of 10; twice the instances take 2.5 s for it.
        (PLAIN, 17.5),
        (MicroBatch(trigger_interval_s=10, overhead_s=0, partitions=1), 20),
        (MicroBatch(trigger_interval_s=10, overhead_s=0, rescale_pause_s=3), 20.5),
        # 7 s of overhead: 5 of them are over, and so is none of the work.
        (MicroBatch(trigger_interval_s=10, overhead_s=7), 15 + 2 + 5),
    ],
    ids=["new instances help", "no slot for them", "pause", "during the overhead"],
)
def test_instances_that_join_during_a_batch(model: MicroBatch, end_s: float) -> None:
    running = job("constant:10", 10, model)
    running.advance(15)
    running.resize("job", 2)
    sample = newest(running, 23)
    assert sample.at_s == pytest.approx(end_s)
    assert sample.warming


def test_instances_that_leave_during_a_batch_slow_down_the_rest_of_it() -> None:
    running = job("constant:10", 10, ready=2)
    running.advance(12)
    running.resize("job", 1)
    # 40 of 100 records are done after 2 s.
    assert newest(running, 19).at_s == pytest.approx(18)


def test_without_instances_a_batch_stands_still_until_one_comes_back() -> None:
    running = job("constant:10", 10)
    running.advance(15)
    running.resize("job", 0)
    running.advance(100)
    running.resize("job", 1)
    assert newest(running, 105).at_s == pytest.approx(105)


def test_partitions_limit_the_slots_of_a_batch() -> None:
    # 4 cores serve 40/s, but only 2 partitions can be worked on at once.
    running = job("constant:10", 40, MicroBatch(trigger_interval_s=10, overhead_s=0, cores=4, partitions=2))
    assert newest(running, 16).processing_time_s == pytest.approx(5)


def test_the_first_batches_after_an_instance_joined_are_slow_and_marked() -> None:
    running = job("constant:10", 10, MicroBatch(trigger_interval_s=10, overhead_s=0, cold_factor=1.5, cold_batches=2))
    running.advance(5)
    running.resize("job", 2)
    batches = [newest(running, at_s) for at_s in (19, 29, 39)]
    assert [sample.processing_time_s for sample in batches] == pytest.approx([7.5, 7.5, 5])
    assert [sample.warming for sample in batches] == [True, True, False]


def test_an_instance_that_left_makes_no_batch_cold() -> None:
    running = job("constant:10", 10, MicroBatch(trigger_interval_s=10, overhead_s=0, cold_factor=1.5), ready=2)
    running.advance(5)
    running.resize("job", 1)
    assert newest(running, 20).processing_time_s == 10


def test_a_pause_between_batches_delays_the_next_one() -> None:
    running = job("constant:10", 100, MicroBatch(trigger_interval_s=10, overhead_s=0, rescale_pause_s=3))
    running.advance(9)
    running.resize("job", 2)
    sample = newest(running, 13)
    assert sample.at_s == pytest.approx(12 + 120 / 200)
    assert sample.scheduling_delay_s == 2


def test_a_change_at_the_very_start_of_a_batch_counts_for_all_of_it() -> None:
    running = job("constant:10", 10)
    running.advance(10)
    running.resize("job", 2)
    assert newest(running, 15).at_s == 15


def test_a_job_without_records_is_idle_and_says_so_at_every_trigger() -> None:
    samples = readings(job("spike:base=0,peak=10,at=25s,width=5s", 10), 51)
    # 50 records at 30 s, and before and after that nothing: a batch is due and there is none.
    assert [sample.at_s for sample in samples] == [0, 10, 20, 35, 40, 50]
    assert [sample.latency_s for sample in samples] == [0, 0, 0, 5, 0, 0]
    assert [sample.backlog for sample in samples] == [0, 0, 0, 0, 0, 0]
    assert samples[-1].processed_rate_per_s is None


def test_records_that_came_late_are_not_older_than_they_are() -> None:
    # The batch of 100 records from 10 s on ends at 60 s; the next records came at 50 s only.
    running = job("periodic:base=10,peak=0,high=40s,low=10s", 2)
    running.advance(60)
    running.samples()
    running.advance(111)
    assert running.samples()["job"].scheduling_delay_s == 0


def test_a_batch_that_is_later_than_the_last_one_was_is_reported_before_it_ends() -> None:
    running = job("constant:10", 5)
    assert newest(running, 30).latency_s == 20
    running.advance(40)
    assert running.samples() == {}, "a batch that is within its trigger interval is not late yet"
    sample = newest(running, 45)
    # The batch of 200 records that started at 30 s: 10 s of delay and 15 s so far.
    assert (sample.at_s, sample.latency_s, sample.backlog, sample.input_rate_per_s) == (45, 25, 350, 10)
    assert sample.processed_rate_per_s is None
    assert newest(running, 70).latency_s == 50


def test_noise_is_repeatable_by_its_seed_and_one_on_average() -> None:
    workload = parse_workload("constant:10")

    def times_s(seed: int) -> list[float]:
        noisy = MicroBatchJob(workload, 50, MicroBatch(trigger_interval_s=10, overhead_s=0, noise=0.3), seed=seed)
        return [sample.processing_time_s or 0.0 for sample in readings(noisy, 5000)][2:]

    assert times_s(1) == times_s(1)
    assert times_s(1) != times_s(2)
    assert sum(times_s(1)) / len(times_s(1)) == pytest.approx(2, rel=0.05)


@pytest.mark.parametrize(
    ("setting", "value", "rule"),
    [
        ("trigger_interval_s", 0, "finite and above 0"),
        ("overhead_s", -1, "finite and not negative"),
        ("max_records_per_batch", 0, "above 0"),
        ("cores", 0, "at least 1"),
        ("partitions", 0, "at least 1"),
        ("cold_factor", 0.5, "finite and at least 1"),
        ("cold_batches", -1, "not negative"),
        ("rescale_pause_s", float("inf"), "finite and not negative"),
        ("noise", float("nan"), "finite and not negative"),
    ],
)
def test_a_behaviour_that_cannot_be_is_refused(setting: str, value: float, rule: str) -> None:
    with pytest.raises(InputError, match=re.escape(f"{setting} {value} is not allowed; it must be {rule}.")):
        MicroBatch(**{setting: value})  # type: ignore[arg-type]


MODELS = st.builds(
    MicroBatch,
    trigger_interval_s=st.floats(1, 30),
    overhead_s=st.floats(0, 5),
    max_records_per_batch=st.none() | st.floats(10, 1000),
    cores=st.integers(1, 4),
    partitions=st.none() | st.integers(1, 8),
    cold_factor=st.floats(1, 3),
    cold_batches=st.integers(0, 3),
    rescale_pause_s=st.floats(0, 10),
    noise=st.floats(0, 0.5),
)
WORKLOADS = st.sampled_from(
    [
        "constant:10",
        "periodic:base=0,peak=30,high=20s,low=40s",
        "sine:mean=20,amplitude=30,period=90s",
        "gaussian:base=0,peak=100,center=100s,sigma=30s",
        "ramp:from=0,to=50,over=200s",
    ]
).map(parse_workload)
SIZES = st.lists(st.tuples(st.floats(0, 300), st.integers(0, 5)), max_size=4).map(sorted)


def run(workload: Workload, model: MicroBatch, sizes: list[tuple[float, int]], stops_s: list[float]) -> MicroBatchJob:
    """A job that changes its size, for 300 s with some stops on the way."""
    running = MicroBatchJob(workload, 10, model, seed=7)
    events = sorted([*sizes, *((at_s, None) for at_s in stops_s)], key=lambda event: event[0])
    for at_s, ready in events:
        running.advance(at_s)
        if ready is not None:
            running.resize("job", ready)
    running.advance(300)
    return running


@given(WORKLOADS, MODELS, SIZES)
def test_no_record_is_lost_or_made(workload: Workload, model: MicroBatch, sizes: list[tuple[float, int]]) -> None:
    running = run(workload, model, sizes, [])
    assert 0 <= running.processed() <= running.arrived() + 1e-6
    for sample in running.samples().values():
        assert sample.backlog is not None
        assert sample.backlog >= 0
        assert sample.backlog + running.processed() == pytest.approx(workload.arrivals(0, sample.at_s), abs=1e-6)


@given(WORKLOADS, MODELS, SIZES, st.lists(st.floats(0, 300), max_size=20))
def test_how_time_is_cut_makes_no_difference(
    workload: Workload, model: MicroBatch, sizes: list[tuple[float, int]], stops_s: list[float]
) -> None:
    assert run(workload, model, sizes, stops_s).samples() == run(workload, model, sizes, []).samples()


def test_records_may_grow_heavier_at_once_or_bit_by_bit() -> None:
    course = ((0.0, 1.0), (20.0, 1.0), (20.0, 2.0), (30.0, 2.0), (50.0, 4.0))
    running = job("constant:10", 50, MicroBatch(trigger_interval_s=10, overhead_s=0, work_factor=course))
    # 100 records per batch of 50/s: 2 s, times the factor at the start of the batch.
    assert [sample.processing_time_s for sample in readings(running, 69)] == pytest.approx([0, 2, 4, 4, 6, 8, 8])


@pytest.mark.parametrize("course", [((10.0, 1.0), (5.0, 1.0)), ((0.0, 0.0),), ((0.0, float("inf")),)])
def test_a_course_that_goes_back_in_time_or_weighs_nothing_is_refused(course: tuple[tuple[float, float], ...]) -> None:
    with pytest.raises(InputError, match="work_factor"):
        MicroBatch(work_factor=course)


def test_with_a_batch_per_interval_batches_queue_up_and_wait_for_their_turn() -> None:
    # 10 records/s at 5 per second: the batch of each 10 s takes 20 s, so that each waits 10 s longer than the last.
    model = MicroBatch(trigger_interval_s=10.0, overhead_s=0.0, batch_per_interval=True)
    job = MicroBatchJob(parse_workload("constant:10"), 5.0, model)
    told = []
    for end_s in (30.0, 50.0, 70.0):
        job.advance(end_s)
        sample = job.samples()["job"]
        told.append((sample.at_s, sample.processing_time_s, sample.scheduling_delay_s, sample.latency_s))
    assert told == [(30.0, 20.0, 0.0, 20.0), (50.0, 20.0, 10.0, 30.0), (70.0, 20.0, 20.0, 40.0)]
    assert job.processed() == 300


def test_queued_batches_are_caught_up_one_by_one() -> None:
    model = MicroBatch(trigger_interval_s=10.0, overhead_s=0.0, batch_per_interval=True)
    job = MicroBatchJob(parse_workload("constant:10"), 5.0, model)
    job.advance(50.0)
    job.resize("job", 10)
    # Two of the batches due at 10 … 50 s are done; the others take 2 s each.
    job.advance(56.0)
    assert job.processed() == 500
    assert job.samples()["job"].scheduling_delay_s == pytest.approx(4.0)


def test_a_batch_takes_as_long_as_the_work_in_it() -> None:
    # The records of the second interval are worth three each.
    work = Steps([0.0, 10.0, 20.0, 30.0], [10.0, 30.0, 10.0])
    model = MicroBatch(trigger_interval_s=10.0, overhead_s=0.0)
    job = MicroBatchJob(parse_workload("constant:10"), 50.0, model, work=work)
    taken = []
    for end_s in (12.0, 26.0, 32.0):
        job.advance(end_s)
        taken.append(job.samples()["job"].processing_time_s)
    assert taken == pytest.approx([2.0, 6.0, 2.0])

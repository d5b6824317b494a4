"""The micro-batch job, against batches worked out by hand."""

import math
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.errors import InputError
from headgate.core.types import Batch, Sample
from headgate.simulation.batch_job import MicroBatchJob
from headgate.simulation.micro_batch import MicroBatch
from headgate.workloads import Workload, parse_workload
from headgate.workloads.steps import Steps

PLAIN = MicroBatch(trigger_interval_s=10, overhead_s=0)


def job(spec: str, service_rate_per_s: float, model: MicroBatch = PLAIN, ready: int = 1) -> MicroBatchJob:
    return MicroBatchJob(parse_workload(spec), service_rate_per_s, model, ready=ready, readings="perfect")


def read(running: MicroBatchJob, at_s: float) -> Sample:
    running.advance(at_s)
    return running.samples()["job"]


def newest(running: MicroBatchJob, at_s: float) -> Batch:
    """The batch that ended last before a time, and after the reading before."""
    return read(running, at_s).batches[-1]


def test_a_batch_takes_its_overhead_and_the_service_of_what_arrived() -> None:
    running = job("constant:10", 50, MicroBatch(trigger_interval_s=10, overhead_s=1))
    # 100 records at 10 s: 1 s + 100 / 50 s.
    assert newest(running, 14) == Batch(10, 13, 100, 0, trigger_interval_s=10, instances=1)


@pytest.mark.parametrize(("ready", "took_s"), [(1, 8.0), (2, 5.0), (3, 4.5), (4, 4.0), (8, 4.0)])
def test_several_instances_may_get_through_less_than_as_many_times_as_much(ready: int, took_s: float) -> None:
    model = MicroBatch(trigger_interval_s=10, overhead_s=0, speed_up=((1, 1.0), (2, 1.6), (4, 2.0)))
    batch = newest(job("constant:40", 50, model, ready), 19.9)
    assert batch.processing_time_s == pytest.approx(took_s if ready != 3 else 8 / 1.8)


@pytest.mark.parametrize("speed_up", [((2, 1.0),), ((1, 1.0), (1, 2.0)), ((1, 0.0),)])
def test_a_speed_up_begins_with_one_instance_and_rises(speed_up: tuple[tuple[int, float], ...]) -> None:
    with pytest.raises(InputError, match=r"speed_up .* is not allowed; it must be rising instances from 1 on"):
        MicroBatch(speed_up=speed_up)


def test_a_reading_tells_how_far_the_job_is_now() -> None:
    running = job("constant:10", 50, MicroBatch(trigger_interval_s=10, overhead_s=1))
    running.advance(5)
    running.samples()
    # In the middle of a batch of 100 records that started at 10 s, 50 of which are done.
    assert read(running, 12) == Sample(
        operator="job",
        at_s=12,
        arrived=120,
        done=50,
        emitted=0,
        busy_s=0,
        available_s=10,
        backlog=70,
        latency_s=12,
        running_s=2,
        trigger_interval_s=10,
    )
    # After it: what came since it started waits, the first of it for 4 s.
    after = read(running, 14)
    assert (after.backlog, after.latency_s, after.running_s, after.batch_ended_s) == (40, 4, None, 13)
    assert (after.busy_s, after.available_s, after.emitted) == (2, 14, 100)


def test_every_ask_gets_a_reading_and_the_same_moment_the_same_one() -> None:
    running = job("constant:10", 5)
    first = read(running, 45)
    assert running.samples()["job"] == first
    again = read(running, 46)
    assert (again.at_s, again.batches, again.latency_s) == (46, (), 36)


def test_a_batch_that_overruns_is_followed_at_once_and_the_delay_grows() -> None:
    running = job("constant:10", 5)
    ends = [newest(running, at_s) for at_s in (30, 70, 150)]
    # Batches of 100, 200 and 400 records, each twice as late as the one before.
    assert [batch.ended_s for batch in ends] == [30, 70, 150]
    assert [batch.processing_time_s for batch in ends] == [20, 40, 80]
    assert [batch.scheduling_delay_s for batch in ends] == [0, 10, 30]
    assert [batch.latency_s for batch in ends] == [30, 60, 120]


def test_after_an_overrun_the_next_boundary_is_waited_for_again() -> None:
    running = job("constant:10", 10, MicroBatch(trigger_interval_s=10, overhead_s=3))
    assert newest(running, 23).ended_s == 23
    running.resize("job", 13)
    # 130 records from 23 s on take 3 + 1 s; the next batch then starts at 30 s with 70 records.
    assert newest(running, 27).ended_s == 27
    assert newest(running, 34).ended_s == pytest.approx(30 + 3 + 70 / 130)


def test_an_admission_limit_leaves_records_to_later_batches_and_they_get_older() -> None:
    running = job("constant:10", 100, MicroBatch(trigger_interval_s=10, overhead_s=0, max_records_per_batch=50))
    ends = [newest(running, at_s) for at_s in (15, 25, 35)]
    # Half of what arrives is admitted: the oldest record of the next batches came at 5 s, then at 10 s.
    assert [batch.scheduling_delay_s for batch in ends] == pytest.approx([0, 5, 10])
    assert [read(running, at_s).backlog for at_s in (35.5, 45.5)] == pytest.approx([205, 255])


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
    ids=["new instances help", "no task for them", "pause", "during the overhead"],
)
def test_instances_that_join_during_a_batch(model: MicroBatch, end_s: float) -> None:
    running = job("constant:10", 10, model)
    running.advance(15)
    running.resize("job", 2)
    batch = newest(running, 23)
    assert batch.ended_s == pytest.approx(end_s)
    assert batch.warming


def test_instances_that_leave_during_a_batch_slow_down_the_rest_of_it() -> None:
    running = job("constant:10", 10, ready=2)
    running.advance(12)
    running.resize("job", 1)
    # 40 of 100 records are done after 2 s.
    assert newest(running, 19).ended_s == pytest.approx(18)


def test_without_instances_a_batch_stands_still_until_one_comes_back() -> None:
    running = job("constant:10", 10)
    running.advance(15)
    running.resize("job", 0)
    assert read(running, 100).latency_s == 100
    running.resize("job", 1)
    assert newest(running, 105).ended_s == pytest.approx(105)


def test_partitions_limit_the_slots_of_a_batch() -> None:
    # 4 cores serve 40/s, but only 2 partitions can be worked on at once.
    running = job("constant:10", 40, MicroBatch(trigger_interval_s=10, overhead_s=0, cores=4, partitions=2))
    sample = read(running, 16)
    assert sample.batches[-1].processing_time_s == pytest.approx(5)
    assert sample.useful_instances == 1


@pytest.mark.parametrize(("ready", "waves"), [(1, 8), (2, 4), (3, 3), (4, 2), (7, 2), (8, 1), (20, 1)])
def test_tasks_run_in_waves(ready: int, waves: int) -> None:
    # 80 records in 8 tasks of one second each.
    running = job("constant:8", 10, MicroBatch(trigger_interval_s=10, overhead_s=0.5, partitions=8), ready=ready)
    assert newest(running, 20).processing_time_s == pytest.approx(0.5 + waves)


def test_what_is_done_of_a_running_batch_shows_by_whole_tasks() -> None:
    running = job("constant:8", 10, MicroBatch(trigger_interval_s=10, overhead_s=0.5, partitions=8), ready=3)
    assert [read(running, at_s).done for at_s in (10.5, 11.4, 11.6, 12.6, 13.6)] == [0, 0, 30, 60, 80]


def test_the_first_batches_after_an_instance_joined_are_slow_and_marked() -> None:
    running = job("constant:10", 10, MicroBatch(trigger_interval_s=10, overhead_s=0, cold_factor=1.5, cold_batches=2))
    running.advance(5)
    running.resize("job", 2)
    samples = [read(running, at_s) for at_s in (19, 29, 39)]
    assert [sample.batches[-1].processing_time_s for sample in samples] == pytest.approx([7.5, 7.5, 5])
    assert [sample.batches[-1].warming for sample in samples] == [True, True, False]
    assert [sample.warming for sample in samples] == [True, True, False]


def test_a_reading_without_a_new_batch_is_as_typical_as_the_last_one_was() -> None:
    running = job("constant:10", 10, MicroBatch(trigger_interval_s=10, overhead_s=0, cold_factor=1.5))
    running.advance(5)
    running.resize("job", 2)
    assert [read(running, at_s).warming for at_s in (19, 22, 29, 32)] == [True, True, False, False]


def test_an_instance_that_left_makes_no_batch_cold() -> None:
    running = job("constant:10", 10, MicroBatch(trigger_interval_s=10, overhead_s=0, cold_factor=1.5), ready=2)
    running.advance(5)
    running.resize("job", 1)
    assert newest(running, 20).processing_time_s == 10


def test_a_pause_between_batches_delays_the_next_one() -> None:
    running = job("constant:10", 100, MicroBatch(trigger_interval_s=10, overhead_s=0, rescale_pause_s=3))
    running.advance(9)
    running.resize("job", 2)
    batch = newest(running, 13)
    assert batch.ended_s == pytest.approx(12 + 120 / 200)
    assert batch.scheduling_delay_s == pytest.approx(2)


def test_a_change_at_the_very_start_of_a_batch_counts_for_all_of_it() -> None:
    running = job("constant:10", 10)
    running.advance(10)
    running.resize("job", 2)
    assert newest(running, 15).ended_s == 15


def test_a_job_without_records_runs_no_batches_and_nothing_waits() -> None:
    sample = read(job("spike:base=0,peak=10,at=25s,width=5s", 10), 51)
    # 50 records at 30 s, and before and after that nothing: a batch is due and there is none.
    assert [(batch.ended_s, batch.records) for batch in sample.batches] == [(35, 50)]
    assert (sample.backlog, sample.latency_s, sample.batch_ended_s, sample.running_s) == (0, 0, 35, None)


def test_records_that_arrived_late_are_not_older_than_they_are() -> None:
    # The batch of 100 records from 10 s on ends at 60 s; the next records came at 50 s only.
    running = job("periodic:base=10,peak=0,high=40s,low=10s", 2)
    running.advance(60)
    running.samples()
    batch = newest(running, 111)
    assert (batch.oldest_s, batch.scheduling_delay_s) == (50, 0)


def test_late_records_are_counted_as_their_time_runs_out_and_never_twice() -> None:
    running = MicroBatchJob(parse_workload("constant:10"), 5, PLAIN, readings="perfect", late_after_s=30)
    # The batch from 10 to 30 s is in time; the next one, of what came from 10 to 30 s, ends at 70 s.
    assert [read(running, at_s).late for at_s in (40, 50, 60, 70, 150)] == [0, 100, 200, 300, 1100]
    late = [batch.late for at_s in (310, 630) for batch in read(running, at_s).batches]
    assert late == [800, 1600]


def test_noise_is_repeatable_by_its_seed_and_one_on_average() -> None:
    workload = parse_workload("constant:10")

    def times_s(seed: int) -> list[float]:
        noisy = MicroBatchJob(workload, 50, MicroBatch(trigger_interval_s=10, overhead_s=0, noise=0.3), seed=seed)
        return [batch.processing_time_s for batch in read(noisy, 5000).batches if batch.records]

    assert times_s(1) == times_s(1)
    assert times_s(1) != times_s(2)
    assert sum(times_s(1)) / len(times_s(1)) == pytest.approx(2, rel=0.05)


def test_an_instance_that_joins_is_reported_at_its_first_task_and_once_it_slows_nothing_down() -> None:
    model = MicroBatch(trigger_interval_s=10, overhead_s=1, cold_factor=2, cold_batches=1, partitions=4)
    running = job("constant:8", 10, model)
    running.advance(15)
    # Three tasks of 2 s are done or running, the fourth is left for it.
    running.resize("job", 2)
    running.advance(42)
    # The batch it joined was disturbed, the next one cold, and the one from 30 s on as usual.
    (found,) = running.warmed("job")
    assert (found.joined_s, found.first_task_s, found.warm_s) == (15, 17, 30)
    assert running.warmed("job") == []


def test_an_instance_for_which_no_task_is_left_does_its_first_one_in_the_next_batch() -> None:
    running = job("constant:8", 10, MicroBatch(trigger_interval_s=10, overhead_s=1, partitions=1))
    running.advance(12)
    running.resize("job", 2)
    running.advance(60)
    (found,) = running.warmed("job")
    assert (found.first_task_s, found.warm_s) == (20 + 1 + 8, 30)


@pytest.mark.parametrize(
    ("joined_s", "ended_s"),
    [
        # Tasks of 2 s, one after the other from 11 s on: the last is left for the new one, which takes 5 s longer.
        (15, [15 + 2 + 5, 22 + 1 + 2 * 2.4]),
        # Before the first task: the new one does one while the other does three.
        (10.5, [11 + 2 + 5, 20 + 1 + 2 * 2]),
        # No task is left for it: it is the next batch that it holds up.
        (18, [19, 20 + 1 + 2 + 5]),
        # No batch is running.
        (19.5, [19, 20 + 1 + 2 + 5]),
    ],
)
def test_the_first_task_of_a_new_instance_holds_up_its_batch(joined_s: float, ended_s: list[float]) -> None:
    model = MicroBatch(trigger_interval_s=10, overhead_s=1, partitions=4, cold_task_s=5)
    running = job("constant:8", 10, model)
    running.advance(joined_s)
    running.resize("job", 2)
    found = [batch.ended_s for batch in read(running, 39).batches[:2]]
    assert found == pytest.approx(ended_s)


def test_a_task_takes_some_time_however_few_its_records_are() -> None:
    running = job("constant:8", 10, MicroBatch(trigger_interval_s=10, overhead_s=1, partitions=4, task_overhead_s=0.25))
    (batch,) = read(running, 20).batches
    assert batch.ended_s == pytest.approx(10 + 1 + 8 + 4 * 0.25)


def test_a_trigger_that_is_longer_than_the_bound_is_not_waited_for() -> None:
    model = MicroBatch(trigger_interval_s=60, overhead_s=0)
    running = MicroBatchJob(parse_workload("constant:10"), 60, model, readings="perfect", late_after_s=10)
    # The batch of each minute takes 10 s; only that counts, and it is just in time.
    waiting, done = read(running, 59), read(running, 75)
    assert (waiting.latency_s, waiting.backlog, waiting.late) == (0, 590, 0)
    assert [(batch.latency_s, batch.late) for batch in done.batches] == [(10, 0)]
    running.resize("job", 0)
    assert read(running, 135).latency_s == 15
    assert running.course().late_share(10) == pytest.approx(5 * 10 / 1350)


@pytest.mark.parametrize(
    ("at_s", "cores", "through_s"),
    [
        # Eight tasks of 1 s on four slots: two waves, from 11 s on.
        (5.0, 1, [5.0, 5.0, 5.0]),
        (10.5, 1, [10.5, 10.5, 10.5]),
        (11.5, 1, [12.0, 12.0, 12.0]),
        (12.5, 2, [13.0]),
    ],
    ids=["between batches", "during the overhead", "in the first wave", "two slots each"],
)
def test_an_instance_that_leaves_finishes_its_task(at_s: float, cores: int, through_s: list[float]) -> None:
    model = MicroBatch(trigger_interval_s=10, overhead_s=1, partitions=8, cores=cores)
    running = job("constant:8", 10 * cores, model, ready=4 // cores)
    running.advance(at_s)
    assert list(running.resize("job", 1)) == through_s


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
        ("cold_task_s", -1, "finite and not negative"),
        ("off_s", ((5.0, 1.0), (4.0, 1.0)), "pairs of times that do not fall and finite seconds"),
        ("off_s", ((5.0, math.nan),), "pairs of times that do not fall and finite seconds"),
        ("task_overhead_s", -1, "finite and not negative"),
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
    cold_task_s=st.floats(0, 10),
    task_overhead_s=st.floats(0, 1),
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
    running = MicroBatchJob(workload, 10, model, seed=7, readings="perfect")
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
        assert sample.done is not None
        assert sample.backlog >= 0
        assert running.processed() - 1e-6 <= sample.done <= running.arrived() + 1e-6
        assert sample.backlog + sample.done == pytest.approx(workload.arrivals(0, sample.at_s), abs=1e-6)
    assert running.course().results[:, 0].sum() == pytest.approx(running.arrived(), rel=1e-6, abs=1e-5)


@given(WORKLOADS, MODELS, SIZES, st.lists(st.floats(0, 300), max_size=20))
def test_how_time_is_cut_makes_no_difference(
    workload: Workload, model: MicroBatch, sizes: list[tuple[float, int]], stops_s: list[float]
) -> None:
    assert run(workload, model, sizes, stops_s).samples() == run(workload, model, sizes, []).samples()


def test_records_may_grow_heavier_at_once_or_bit_by_bit() -> None:
    course = ((0.0, 1.0), (20.0, 1.0), (20.0, 2.0), (30.0, 2.0), (50.0, 4.0))
    running = job("constant:10", 50, MicroBatch(trigger_interval_s=10, overhead_s=0, work_factor=course))
    # 100 records per batch of 50/s: 2 s, times the factor at the start of the batch.
    times_s = [batch.processing_time_s for batch in read(running, 69).batches]
    assert times_s == pytest.approx([2, 4, 4, 6, 8, 8])


@pytest.mark.parametrize("course", [((10.0, 1.0), (5.0, 1.0)), ((0.0, 0.0),), ((0.0, float("inf")),)])
def test_a_course_that_goes_back_in_time_or_weighs_nothing_is_refused(course: tuple[tuple[float, float], ...]) -> None:
    with pytest.raises(InputError, match="work_factor"):
        MicroBatch(work_factor=course)


def test_with_a_batch_per_interval_batches_queue_up_and_wait_for_their_turn() -> None:
    # 10 records/s at 5 per second: the batch of each 10 s takes 20 s, so that each waits 10 s longer than the last.
    model = MicroBatch(trigger_interval_s=10.0, overhead_s=0.0, batch_per_interval=True)
    running = job("constant:10", 5, model)
    batches = read(running, 70).batches
    reported = [
        (batch.ended_s, batch.processing_time_s, batch.scheduling_delay_s, batch.latency_s) for batch in batches
    ]
    assert reported == [(30.0, 20.0, 0.0, 30.0), (50.0, 20.0, 10.0, 40.0), (70.0, 20.0, 20.0, 50.0)]
    assert running.processed() == 300


def test_queued_batches_are_caught_up_one_by_one() -> None:
    model = MicroBatch(trigger_interval_s=10.0, overhead_s=0.0, batch_per_interval=True)
    running = job("constant:10", 5, model)
    running.advance(50.0)
    running.resize("job", 10)
    # Two of the batches due at 10 … 50 s are done; the others take 2 s each.
    assert newest(running, 56.0).scheduling_delay_s == pytest.approx(4.0)
    assert running.processed() == 500


def test_a_batch_takes_as_long_as_the_work_in_it() -> None:
    # The records of the second interval are worth three each.
    work = Steps([0.0, 10.0, 20.0, 30.0], [10.0, 30.0, 10.0])
    model = MicroBatch(trigger_interval_s=10.0, overhead_s=0.0)
    running = MicroBatchJob(parse_workload("constant:10"), 50.0, model, work=work)
    taken_s = [batch.processing_time_s for batch in read(running, 32.0).batches if batch.records]
    assert taken_s == pytest.approx([2.0, 6.0, 2.0])


@pytest.mark.parametrize(
    ("stops", "end_s"),
    [
        ([(12.0, 20.0)], 22.0),  # Of a batch that would end at 14.
        ([(12.0, 20.0), (13.0, 25.0)], 27.0),  # The second begins anew.
        ([(12.0, 20.0), (13.0, 15.0)], 22.0),
        ([(5.0, 12.0)], 16.8),  # Before it starts.
    ],
)
def test_a_job_that_stands_still_goes_on_where_it_was(stops: list[tuple[float, float]], end_s: float) -> None:
    running = job("constant:10", 25.0)
    for at_s, until_s in stops:
        running.advance(at_s)
        running.stand_still(until_s)
    running.advance(end_s + 0.1)
    first = running.samples()["job"].batches[0]
    assert first.ended_s == pytest.approx(end_s)


@pytest.mark.parametrize("partitions", [None, 4])
def test_batches_are_off_by_what_is_said_and_what_one_cannot_make_up_for_is_left_to_the_next(
    partitions: int | None,
) -> None:
    plain = MicroBatch(trigger_interval_s=10, overhead_s=1, partitions=partitions)
    off = replace(plain, off_s=((10.0, 3.0), (30.0, -1.0), (50.0, -9.0)))
    times_s = []
    for model in (plain, off):
        job = MicroBatchJob(parse_workload("constant:10"), 25.0, model, readings="perfect")
        ended_s: list[float] = []
        job.on_batch = lambda at_s, records, ends=ended_s: ends.append(at_s)  # type: ignore[misc]  # a default of its own
        job.advance(100.0)
        times_s.append(ended_s)
    longer_s = [one_s - usual_s for usual_s, one_s in zip(*times_s, strict=True)]
    # A batch has four seconds of work, of which a tenth is always left.
    assert longer_s == pytest.approx([3.0, 0.0, -1.0, 0.0, -3.6, -3.6, -1.8, 0.0, 0.0])

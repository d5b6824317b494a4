"""Records that all have one key are for one slot, and more instances do not help it."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headgate.core.course import Course
from headgate.core.errors import InputError
from headgate.simulation.batch_job import MicroBatchJob
from headgate.simulation.batch_work import BatchWork, Fluid, Tasks
from headgate.simulation.micro_batch import MicroBatch
from headgate.workloads import parse_workload


def course(model: MicroBatch, ready: int, spec: str = "constant:40", seconds: float = 100.0) -> Course:
    running = MicroBatchJob(parse_workload(spec), 50.0, model, ready=ready)
    running.advance(seconds)
    return running.course()


def batch_took_s(model: MicroBatch, ready: int) -> float:
    """Of the first batch: 400 records, which take one slot of one instance 8 s."""
    _, shortest_s, _ = course(model, ready, seconds=30.0).results[0]
    return float(shortest_s)


@pytest.mark.parametrize(
    ("skew", "partitions", "took_s"),
    [
        (0.0, None, {1: 8.0, 2: 4.0, 4: 2.0, 8: 1.0}),
        (0.5, None, {1: 8.0, 2: 4.0, 4: 4.0, 8: 4.0}),
        (0.25, None, {1: 8.0, 2: 4.0, 4: 2.0, 8: 2.0}),
        (1.0, None, {1: 8.0, 8: 8.0}),
        # The largest of 8 tasks takes 4 s, each of the others 4/7 s.
        (0.5, 8, {1: 8.0, 2: 4.0, 4: 4.0, 8: 4.0}),
        # It takes 2.4 s, the others 0.8 s: two slots are even, and three have one to spare.
        (0.3, 8, {1: 8.0, 2: 4.0, 3: 3.2, 4: 2.4, 8: 2.4}),
        # Equal tasks are larger than that.
        (0.1, 8, {1: 8.0, 2: 4.0, 3: 3.0, 8: 1.0}),
    ],
)
def test_a_batch_takes_at_least_as_long_as_its_largest_piece(
    skew: float, partitions: int | None, took_s: dict[int, float]
) -> None:
    model = MicroBatch(trigger_interval_s=10, overhead_s=0, skew=skew, partitions=partitions)
    assert {ready: batch_took_s(model, ready) for ready in took_s} == pytest.approx(took_s)


def test_several_cores_do_not_share_a_key() -> None:
    model = MicroBatch(trigger_interval_s=10, overhead_s=0, skew=0.5, cores=4)
    assert batch_took_s(model, 1) == pytest.approx(16.0), "a core is a quarter of an instance"


def test_a_skew_that_does_not_matter_changes_nothing() -> None:
    plain, skewed = (
        course(MicroBatch(partitions=6, noise=0.2, cold_task_s=1.0, skew=skew), 4) for skew in (0.0, 1 / 7)
    )
    assert plain.results.tobytes() == skewed.results.tobytes()


def test_more_instances_do_not_help_a_skewed_job() -> None:
    latencies_s = [
        course(MicroBatch(skew=0.4), ready, "constant:115", 600.0).latencies_s(0.95)[0] for ready in (2, 3, 6, 12)
    ]
    assert latencies_s[0] is not None
    assert latencies_s[1] is not None
    assert latencies_s[0] > 2 * latencies_s[1], "two do not keep up"
    assert latencies_s[1:] == [pytest.approx(latencies_s[1])] * 3


def test_an_instance_that_is_lost_takes_the_largest_task_along() -> None:
    work = Tasks(0.0, 0.0, 8.0, 2, 5, largest_s=4.0)
    assert work.end_s == 4.0
    work.resize(1.5, 1, 0.0, lost=True)
    work.resize(1.5, 0, 0.0, lost=True)
    assert work.end_s == math.inf
    assert work.share(1.5) == pytest.approx(1 / 8)
    work.resize(2.0, 2, 0.0)
    assert work.end_s == 6.0, "it is begun again, and takes as long as it did"


def test_a_change_of_size_while_one_slot_works_alone_changes_nothing() -> None:
    work = Fluid(0.0, 0.0, 10.0, 5, 6.0)
    work.resize(3.0, 2, 0.0)
    work.finish()
    # Four others do 4 s of work in 1 s; from then on there is one piece for one slot.
    times_s, done = zip(*work.knots, strict=True)
    assert np.interp([0.5, 1.0, 3.0, 4.5, 6.0], times_s, done) == pytest.approx([0.25, 0.5, 0.7, 0.85, 1.0])


@pytest.mark.parametrize("skew", [-0.1, 1.1, math.nan])
def test_a_skew_is_a_share(skew: float) -> None:
    with pytest.raises(InputError, match=r"skew .* is not allowed; it must be between 0 and 1"):
        MicroBatch(skew=skew)


@example(share=0.5204487587516893, tasks=None, slots=1, changes=[(0.9375, 5, 0.5), (1.875, 2, 0.0)])
@example(share=0.5204487587516893, tasks=None, slots=1, changes=[(0.9375, 5, 0.5), (1.875, 1, 0.0)])
@given(
    share=st.floats(0.05, 1.0),
    tasks=st.none() | st.integers(2, 9),
    slots=st.integers(1, 6),
    changes=st.lists(st.tuples(st.floats(0.1, 3.0), st.integers(1, 6), st.sampled_from([0.0, 0.5])), max_size=5),
)
def test_work_is_done_to_the_end_whatever_the_size_does(
    share: float, tasks: int | None, slots: int, changes: list[tuple[float, int, float]]
) -> None:
    work: BatchWork
    if tasks is None:
        work = Fluid(0.0, 1.0, 10.0, slots, 10 * share)
    else:
        work = Tasks(0.0, 1.0, 10.0, slots, tasks, largest_s=10 * share if share * tasks > 1 else 0.0)
    at_s, most = 0.0, slots
    for after_s, size, pause_s in changes:
        if at_s + after_s >= work.end_s:
            break
        at_s += after_s
        if size != slots:
            work.resize(at_s, size, pause_s)
            slots, most = size, max(most, size)
    end_s = work.end_s
    work.finish()
    assert end_s >= 1 + 10 / most - 1e-9
    if tasks is None or share * tasks > 1:
        assert end_s >= 1 + 10 * share - 1e-9
    times_s, done = zip(*work.knots, strict=True)
    assert list(times_s) == sorted(times_s)
    assert all(before <= after + 1e-9 for before, after in pairwise(done))
    assert (times_s[-1], done[-1]) == (pytest.approx(end_s), pytest.approx(1.0))

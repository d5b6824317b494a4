"""What the kernels say truly happened, against the same job watched in tiny steps."""

import math

import numpy as np
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from headgate.core.course import Course, above, span_s
from headgate.core.topology import Topology
from headgate.simulation.batch_job import MicroBatchJob
from headgate.simulation.micro_batch import MicroBatch
from headgate.simulation.queue import QueueNetwork
from headgate.simulation.station import BusyPhase, _ArrivalLine
from headgate.workloads import Workload, parse_workload

BOUND_S = 8.0
SECONDS = 120.0
STEP_S = 0.05
CHAIN = Topology.of(("first", "job"))
LOADS = [
    "constant:10",
    "constant:0",
    "periodic:base=0,peak=30,high=20s,low=40s",
    "spike:base=5,peak=40,at=33s,width=20s",
    "sine:mean=20,amplitude=30,period=90s",
    "ramp:from=0,to=50,over=100s",
]
SIZES = st.lists(st.tuples(st.floats(0, SECONDS), st.integers(0, 5)), max_size=4).map(sorted)
Kernel = QueueNetwork | MicroBatchJob


def kernels(workload: Workload) -> list[Kernel]:
    batches = MicroBatch(trigger_interval_s=5, overhead_s=0.5)
    return [
        QueueNetwork(workload, 10, late_after_s=BOUND_S),
        QueueNetwork(workload, {"first": 12, "job": 10}, topology=CHAIN, late_after_s=BOUND_S),
        *(
            MicroBatchJob(workload, 10, model, readings="perfect", late_after_s=BOUND_S)
            for model in (
                batches,
                MicroBatch(trigger_interval_s=5, overhead_s=0.5, partitions=4, rescale_pause_s=1),
                MicroBatch(trigger_interval_s=5, overhead_s=0.5, max_records_per_batch=60),
                MicroBatch(trigger_interval_s=5, overhead_s=0.5, batch_per_interval=True),
            )
        ),
    ]


def run(kernel: Kernel, sizes: list[tuple[float, int]], step_s: float = math.inf) -> list[tuple[float, float, float]]:
    """Run to the end with changes of size on the way; time, backlog and latency at every step."""
    seen = []
    changes = list(sizes)
    at_s = 0.0
    while at_s < SECONDS:
        next_s = min(SECONDS, at_s + step_s)
        while changes and changes[0][0] <= next_s:
            changed_s, ready = changes.pop(0)
            kernel.advance(changed_s)
            kernel.resize("job", ready)
        at_s = next_s
        kernel.advance(at_s)
        if step_s < math.inf:
            sample = kernel.samples()["job"]
            assert sample.backlog is not None
            assert sample.latency_s is not None
            seen.append((at_s, sample.backlog, sample.latency_s))
    return seen


def late_s(course: Course, bound_s: float) -> float:
    assert course.waits is not None
    return span_s(above(course.waits, bound_s), course.from_s, course.to_s)


@settings(max_examples=10, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(st.sampled_from(LOADS).map(parse_workload), SIZES)
def test_the_truth_is_what_one_sees_who_looks_all_the_time(workload: Workload, sizes: list[tuple[float, int]]) -> None:
    for kernel in kernels(workload):
        seen = run(kernel, sizes, STEP_S)
        course = kernel.course("job")
        latencies_s = np.array([latency_s for _, _, latency_s in seen])
        # A look tells of a moment; between two looks a bound may be crossed once or twice.
        assert late_s(course, BOUND_S) == pytest.approx(STEP_S * (latencies_s > BOUND_S).sum(), abs=0.6)
        assert course.max_backlog == pytest.approx(max(backlog for _, backlog, _ in seen), rel=0.01, abs=2.0)


@given(st.sampled_from(LOADS).map(parse_workload), SIZES)
def test_late_records_by_the_course_are_those_that_were_counted(
    workload: Workload, sizes: list[tuple[float, int]]
) -> None:
    for kernel in kernels(workload):
        run(kernel, sizes)
        sample, share = kernel.samples()["job"], kernel.course("job").late_share(BOUND_S)
        assert share is not None
        assert sample.arrived is not None
        assert share * sample.arrived == pytest.approx(sample.late, rel=0.01, abs=1.0)


@example(parse_workload("sine:mean=20,amplitude=30,period=90s"), [(math.nextafter(1.2, 0), 0)], 0.3)
@example(parse_workload("sine:mean=20,amplitude=30,period=90s"), [(1.1999999999999993, 0)], 0.3)
@given(st.sampled_from(LOADS).map(parse_workload), SIZES, st.floats(0.3, 50))
def test_the_truth_does_not_depend_on_who_looks_when(
    workload: Workload, sizes: list[tuple[float, int]], step_s: float
) -> None:
    for watched, unwatched in zip(kernels(workload), kernels(workload), strict=True):
        run(watched, sizes, step_s)
        run(unwatched, sizes)
        courses = [kernel.course("job") for kernel in (watched, unwatched)]
        first, second = (
            [
                late_s(course, BOUND_S),
                course.late_share(BOUND_S),
                course.max_backlog,
                0.0 if course.behind is None else span_s(course.behind, 0.0, SECONDS),
                course.latencies_s(0.5, 0.95)[1] or 0.0,
            ]
            for course in courses
        )
        assert first == pytest.approx(second, rel=1e-6, abs=1e-6)


def test_a_batch_whose_tasks_end_one_after_the_other_has_its_largest_backlog_before_the_first_of_them_does() -> None:
    model = MicroBatch(trigger_interval_s=10, overhead_s=0, partitions=4)
    job = MicroBatchJob(parse_workload("constant:10"), 20, model)
    job.advance(60)
    # 100 records as it starts, 12.5 more until 25 of them are done.
    assert job.course().max_backlog == pytest.approx(112.5)


def test_the_latencies_of_records_lie_between_those_of_the_newest_and_the_oldest_of_their_batch() -> None:
    job = MicroBatchJob(parse_workload("constant:10"), 20, MicroBatch(trigger_interval_s=10, overhead_s=0))
    job.advance(40)
    # Batches from 10, 20 and 30 s on take 5 s each; what came since 30 s is not done yet.
    assert job.course().results.tolist() == [[100, 5, 15], [100, 5, 15], [100, 5, 15], [100, 0, 10]]
    assert job.course().latencies_s(0.5) == [pytest.approx(8.75)]


@settings(max_examples=200)
@given(st.integers(0, 2**32 - 1), st.sampled_from((0.0, 1e-3, 1.0, 50.0)))
def test_a_phase_finds_the_same_moments_as_a_search_over_all_arrivals(seed: int, capacity_per_s: float) -> None:
    rng = np.random.default_rng(seed)
    times_s = np.sort(np.round(rng.random(40) * 50) * 20)
    counts = np.concatenate([[0.0], np.cumsum(rng.random(39) * rng.integers(0, 3, 39) * 100)])
    from_s = float(rng.choice(times_s))
    phase = BusyPhase(from_s, from_s + 300 * rng.random(), float(rng.choice(counts)), float(counts[-1]), capacity_per_s)
    every = [np.array([phase.from_s, phase.until_s]), times_s]
    if capacity_per_s > 0:
        every.append(phase.from_s + (counts - phase.done_before) / capacity_per_s)
    at_s = np.unique(np.concatenate(every))
    expected_s = at_s[(at_s >= phase.from_s) & (at_s <= phase.until_s)]
    assert np.array_equal(_ArrivalLine(times_s, counts).moments_s(phase), expected_s)

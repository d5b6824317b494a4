"""Long runs of which the older part is settled, against the same runs in full."""

import math

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from headgate.core.course import Course, Rows, above, span_s
from headgate.core.objective import parse_objective
from headgate.core.topology import Topology
from headgate.runtime.summary import violated_parts
from headgate.simulation.batch_job import MicroBatchJob
from headgate.simulation.fleet import SimulatedFleet
from headgate.simulation.micro_batch import MicroBatch
from headgate.simulation.queue import QueueNetwork
from headgate.simulation.settled import LEAST, RELATIVE_ERROR, Settled
from headgate.workloads import Workload, parse_workload

BOUND_S = 8.0
SECONDS = 400.0
FEW = 6
MANY = 10**9
CHAIN = Topology.of(("first", "job"))
LOADS = [
    "constant:10",
    "constant:0",
    "periodic:base=0,peak=30,high=20s,low=40s",
    "spike:base=5,peak=40,at=33s,width=20s",
    "sine:mean=20,amplitude=30,period=90s",
    "ramp:from=0,to=50,over=100s",
]
SIZES = st.lists(st.tuples(st.floats(0, SECONDS), st.integers(0, 5)), max_size=12).map(sorted)
Kernel = QueueNetwork | MicroBatchJob


def kernels(workload: Workload, most: int) -> list[Kernel]:
    return [
        QueueNetwork(workload, 10, late_after_s=BOUND_S, most_retained=most),
        QueueNetwork(workload, {"first": 12, "job": 10}, topology=CHAIN, late_after_s=BOUND_S, most_retained=most),
        *(
            MicroBatchJob(workload, 10, model, readings="perfect", late_after_s=BOUND_S, most_batches=most)
            for model in (
                MicroBatch(trigger_interval_s=5, overhead_s=0.5, noise=0.3),
                MicroBatch(trigger_interval_s=10, overhead_s=0.5),
                MicroBatch(trigger_interval_s=5, overhead_s=0.5, partitions=4, rescale_pause_s=1),
                MicroBatch(trigger_interval_s=5, overhead_s=0.5, max_records_per_batch=200),
                MicroBatch(trigger_interval_s=5, overhead_s=0.5, batch_per_interval=True),
            )
        ),
    ]


def course_of(kernel: Kernel, sizes: list[tuple[float, int]]) -> Course:
    for changed_s, ready in sizes:
        kernel.advance(changed_s)
        kernel.resize("job", ready)
    kernel.advance(SECONDS)
    return kernel.course("job")


def lasts_s(course: Course, parts: Rows | None) -> float:
    assert parts is not None
    return span_s(parts, course.from_s, course.to_s)


@settings(max_examples=8, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(st.sampled_from(LOADS).map(parse_workload), SIZES)
def test_a_settled_run_has_the_same_totals(workload: Workload, sizes: list[tuple[float, int]]) -> None:
    slow = parse_objective("slow records < 5%")
    for settling, whole in zip(kernels(workload, FEW), kernels(workload, MANY), strict=True):
        found, true = course_of(settling, sizes), course_of(whole, sizes)
        records = max(1.0, true.results[:, 0].sum())
        assert (found.from_s, found.to_s) == (true.from_s, true.to_s)
        assert found.max_backlog == pytest.approx(true.max_backlog, rel=1e-4, abs=1e-6)
        assert found.results[:, 0].sum() == pytest.approx(true.results[:, 0].sum(), abs=1e-6 * records)
        assert found.late_share(BOUND_S) == pytest.approx(true.late_share(BOUND_S), abs=2e-3)
        assert found.waits is not None
        assert true.waits is not None
        violated_s = lasts_s(true, above(true.waits, BOUND_S))
        assert lasts_s(found, above(found.waits, BOUND_S)) == pytest.approx(violated_s, abs=0.01)
        for bound_s in (1.0, 20.0):
            least_s, most_s = (lasts_s(true, above(true.waits, bound_s * (1 + off))) for off in (0.01, -0.01))
            assert least_s - 0.05 <= lasts_s(found, above(found.waits, bound_s)) <= most_s + 0.05
        assert lasts_s(found, found.behind) == pytest.approx(lasts_s(true, true.behind), abs=0.5)
        slow_s = lasts_s(true, violated_parts(true, slow))
        assert lasts_s(found, violated_parts(found, slow)) == pytest.approx(slow_s, abs=0.5)
        hairs = [true.latencies_s(*(share + hair for share in (0.2, 0.5, 0.9, 0.98))) for hair in (-2e-3, 2e-3)]
        for low_s, value_s, high_s in zip(hairs[0], found.latencies_s(0.2, 0.5, 0.9, 0.98), hairs[1], strict=True):
            if value_s is not None:
                assert low_s is not None
                assert high_s is not None
                assert low_s * (1 - RELATIVE_ERROR) - LEAST <= value_s <= high_s * (1 + RELATIVE_ERROR) + LEAST


def test_nothing_is_settled_in_a_run_of_usual_length() -> None:
    workload = parse_workload("sine:mean=20,amplitude=30,period=90s")
    for usual, whole in zip(kernels(workload, 200_000), kernels(workload, MANY), strict=True):
        found, true = course_of(usual, [(100.0, 3)]), course_of(whole, [(100.0, 3)])
        assert found.results.tolist() == true.results.tolist()
        assert found.latencies_s(0.5, 0.99) == true.latencies_s(0.5, 0.99)


@pytest.mark.parametrize("load", ["sine:mean=20,amplitude=30,period=90s", "periodic:base=0,peak=30,high=20s,low=40s"])
def test_memory_does_not_grow_with_the_length_of_a_run(load: str) -> None:
    for kernel in kernels(parse_workload(load), 100):
        most = []
        for hours in (1.5, 6):
            retained = []
            while kernel.now_s < hours * 3600:
                kernel.advance(kernel.now_s + 300)
                for operator in kernel.topology.operators:
                    kernel.resize(operator, 3 + int(kernel.now_s / 300) % 4)
                retained.append(kernel.retained)
            most.append(max(retained))
        # With every batch and every phase it would be four times as much.
        assert most[1] <= 1.5 * most[0], kernel


def test_what_is_settled_does_not_grow_with_how_often_it_is_added_to() -> None:
    settled = Settled(BOUND_S)
    random = np.random.default_rng(0)
    retained = []
    for number in range(320):
        from_s = 1000.0 * number
        at_s = np.sort(from_s + 1000 * random.random(51))
        durations_s, backlogs = random.lognormal(1.0, 1.0, (2, 51)), random.lognormal(3.0, 1.0, (2, 51))
        waits = np.column_stack([at_s[:-1], at_s[1:], durations_s[:, 1:].T])
        loads = np.column_stack([at_s[:-1], at_s[1:], backlogs[:, 1:].T, random.random(50)])
        results = np.column_stack([random.random(50), durations_s[:, 1:].min(0), durations_s[:, 1:].max(0)])
        settled.add(Course(from_s, from_s + 1000, waits=waits, results=results, loads=lambda made=loads: made))  # type: ignore[misc]
        retained.append(settled.retained)
    assert max(retained[160:]) <= 1.1 * max(retained[:160])


def test_a_backlog_that_never_ends_is_searched_only_now_and_then() -> None:
    kernel = QueueNetwork(parse_workload("periodic:base=20,peak=30,high=20s,low=40s"), 10, most_retained=10)
    kernel.advance(10_000.0)
    whole = QueueNetwork(parse_workload("periodic:base=20,peak=30,high=20s,low=40s"), 10)
    whole.advance(10_000.0)
    assert kernel.samples()["job"].latency_s == whole.samples()["job"].latency_s
    found, true = kernel.course("job").latencies_s(0.5), whole.course("job").latencies_s(0.5)
    assert found[0] == pytest.approx(true[0], rel=RELATIVE_ERROR)


@given(st.lists(st.tuples(st.floats(0.1, 50), st.integers(0, 6)), min_size=1, max_size=60))
def test_settled_sizes_are_paid_for_like_others(changes: list[tuple[float, int]]) -> None:
    fleets = [SimulatedFleet(1, lambda: 3.0, drain_s=2.0, most_changes=most) for most in (3, MANY)]
    until_s = 0.0
    for fleet in fleets:
        now = 0.0
        for after_s, planned in changes:
            until_s = now + after_s
            while fleet.next_ready_s <= until_s:
                now = fleet.next_ready_s
                fleet.join(now)
            now, ready = until_s, fleet.ready
            fleet.bring_to(planned, now)
            fleet.left(now, [now] * max(0, ready - fleet.ready))
    found, true = (Course(0.0, until_s + 10, sizes=fleet.sizes(until_s + 10)) for fleet in fleets)
    assert found.paid_s() == pytest.approx(true.paid_s())
    assert found.mean_ready() == pytest.approx(true.mean_ready())
    assert math.isclose(found.sizes[-1, 1], until_s + 10)
    assert fleets[0].retained <= 40 + 64 * 20

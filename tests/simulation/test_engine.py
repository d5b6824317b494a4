"""The simulated engine: sizes, start-up, faults and virtual time."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.errors import EngineError, InputError
from headgate.core.topology import Topology
from headgate.core.types import Decision, Instances, Outcome, Startup, Verdict
from headgate.simulation.batch_job import MicroBatchJob
from headgate.simulation.engine import SimulatedEngine
from headgate.simulation.micro_batch import MicroBatch
from headgate.simulation.queue import QueueNetwork
from headgate.workloads import parse_workload


def engine(startup_s: float = 0.0, ready: int = 1, topology: Topology | None = None) -> SimulatedEngine:
    kernel = QueueNetwork(parse_workload("constant:10"), 5, topology=topology, ready=ready)
    return SimulatedEngine(kernel, startup_s=startup_s)


def size(at_s: float, **targets: int) -> Decision:
    verdicts = {
        name: Verdict(name, current=1, proposed=target, target=target, code="test", reason="test")
        for name, target in targets.items()
    }
    return Decision(at_s, "test", verdicts)


def backlog(running: SimulatedEngine) -> float | None:
    return running.observe().samples["job"].backlog


def test_instances_are_planned_and_requested_at_once_and_ready_after_their_start_up() -> None:
    running = engine(startup_s=30)
    receipt = running.apply(size(0, job=3))
    assert (receipt.outcome, receipt.requested) == (Outcome.ACCEPTED, {"job": 3})
    sizes = []
    for at_s in (0, 29, 30):
        running.advance(at_s)
        sizes.append(running.observe().instances["job"])
    assert sizes == [Instances(3, 3, 1), Instances(3, 3, 1), Instances(3, 3, 3)]


def test_an_instance_that_becomes_ready_between_two_looks_works_from_that_moment_on() -> None:
    running = engine(startup_s=30)
    running.apply(size(0, job=3))
    running.advance(45)
    # 30 s of 5 records too many, then 15 s of 5 records too few.
    assert backlog(running) == 75


def test_without_a_start_up_time_instances_are_ready_at_once() -> None:
    running = engine()
    running.apply(size(0, job=4))
    assert running.observe().instances["job"] == Instances(4, 4, 4)


def test_instances_leave_at_once_and_those_still_starting_first() -> None:
    running = engine(startup_s=30, ready=2)
    running.apply(size(0, job=5))
    running.advance(10)
    running.apply(size(10, job=3))
    assert running.observe().instances["job"] == Instances(3, 3, 2)
    running.apply(size(10, job=1))
    assert running.observe().instances["job"] == Instances(1, 1, 1)
    running.advance(100)
    assert running.observe().instances["job"] == Instances(1, 1, 1)


def test_applying_a_decision_twice_changes_nothing() -> None:
    running = engine(startup_s=30)
    assert running.apply(size(0, job=3)).outcome is Outcome.ACCEPTED
    assert running.apply(size(0, job=3)).outcome is Outcome.UNCHANGED
    running.advance(60)
    assert running.apply(size(60, job=3)).outcome is Outcome.UNCHANGED
    assert running.observe().instances["job"] == Instances(3, 3, 3)


@pytest.mark.parametrize("targets", [{"jbo": 2}, {"job": -1}])
def test_an_impossible_size_is_refused_and_nothing_changes(targets: dict[str, int]) -> None:
    running = engine()
    receipt = running.apply(size(0, **targets))
    assert receipt.outcome is Outcome.REFUSED
    assert "operators: job" in receipt.detail
    assert running.observe().instances["job"] == Instances(1, 1, 1)


def test_a_lost_instance_is_seen_and_replaced_by_the_next_decision_even_a_hold() -> None:
    running = engine(startup_s=30, ready=3)
    running.lose_instance("job")
    assert running.observe().instances["job"] == Instances(3, 3, 2)
    assert running.apply(size(0, job=3)).outcome is Outcome.ACCEPTED
    running.advance(30)
    assert running.observe().instances["job"] == Instances(3, 3, 3)


def test_metrics_can_stop_while_the_job_goes_on() -> None:
    running = engine()
    running.reporting = False
    running.advance(60)
    observation = running.observe()
    assert observation.samples == {}
    assert observation.instances["job"] == Instances(1, 1, 1)
    running.reporting = True
    assert backlog(running) == 300


def test_each_operator_of_a_chain_has_its_own_size() -> None:
    running = engine(topology=Topology.of(("parse", "enrich")))
    running.apply(size(0, enrich=2))
    observation = running.observe()
    assert (observation.instances["parse"].ready, observation.instances["enrich"].ready) == (1, 2)


def test_waiting_for_a_time_lets_the_job_run_until_then_unless_it_is_stopped() -> None:
    running, stop = engine(), threading.Event()
    running.wait_until(60, stop)
    assert (running.now(), backlog(running)) == (60, 300)
    stop.set()
    running.wait_until(90, stop)
    assert running.now() == 60


def test_time_does_not_go_back() -> None:
    running = engine()
    running.advance(60)
    with pytest.raises(InputError, match=r"time cannot go back from 60 s to 30 s"):
        running.advance(30)


def test_a_closed_engine_answers_no_more_and_can_be_closed_again() -> None:
    running = engine()
    running.close()
    running.close()
    with pytest.raises(EngineError, match="closed"):
        running.observe()
    with pytest.raises(EngineError, match="closed"):
        running.apply(size(0, job=2))


@pytest.mark.parametrize("value", [-1, float("inf"), float("nan")])
@pytest.mark.parametrize("name", ["startup_s", "startup_spread", "drain_s"])
def test_a_time_that_cannot_be_is_refused(name: str, value: float) -> None:
    kernel = QueueNetwork(parse_workload("constant:10"), 5)
    with pytest.raises(InputError, match="must be finite and not negative"):
        SimulatedEngine(kernel, **{name: value})  # type: ignore[arg-type]  # one of three numbers


def test_start_up_times_are_spread_around_their_median_and_repeatable_by_their_seed() -> None:
    def drawn_s(seed: int) -> list[float]:
        kernel = QueueNetwork(parse_workload("constant:10"), 5)
        running = SimulatedEngine(kernel, startup_s=30, startup_spread=0.3, seed=seed)
        running.apply(size(0, job=401))
        running.advance(600)
        return [startup.registered_after_s for startup in running.observe().startups["job"]]

    times_s = sorted(drawn_s(1))
    assert drawn_s(1) == drawn_s(1) != drawn_s(2)
    assert times_s[200] == pytest.approx(30, rel=0.1)
    assert times_s[336] / times_s[200] == pytest.approx(1.35, rel=0.1), "one standard deviation of the logarithm"


def test_start_ups_are_reported_from_the_request_to_the_first_task_and_to_warm() -> None:
    model = MicroBatch(trigger_interval_s=10, overhead_s=1, cold_factor=2, partitions=4)
    running = SimulatedEngine(MicroBatchJob(parse_workload("constant:8"), 10, model), startup_s=12)
    running.advance(3)
    running.apply(size(3, job=2))
    seen = []
    for at_s in range(3, 60):
        running.advance(at_s)
        seen += [(at_s, startup) for startup in running.observe().startups.get("job", ())]
    # Ready at 15 s, within a batch; its first task ends at 17 s, the first batch that is as usual runs from 30 to 35 s.
    assert seen == [(15, Startup("2", 3, 12)), (35, Startup("2", 3, 12, 14, 27))]


def test_an_instance_that_is_scaled_in_finishes_its_task_and_is_paid_for_until_it_has_left() -> None:
    # Four tasks of 5 s on four instances, from 10 s on.
    model = MicroBatch(trigger_interval_s=10, overhead_s=0, partitions=4)
    running = SimulatedEngine(MicroBatchJob(parse_workload("constant:20"), 10, model, ready=4), drain_s=2)
    running.advance(12)
    running.apply(size(12, job=1))
    assert running.observe().instances["job"] == Instances(1, 1, 1)
    running.advance(19)
    (batch,) = [batch for batch in running.observe().samples["job"].batches if batch.records]
    assert batch.ended_s == 15
    assert running.sizes("job").tolist() == [[0, 12, 4, 4], [12, 17, 1, 4], [17, 19, 1, 1]]


def test_an_instance_that_dies_takes_its_task_along() -> None:
    model = MicroBatch(trigger_interval_s=10, overhead_s=0, partitions=4)
    running = SimulatedEngine(MicroBatchJob(parse_workload("constant:20"), 10, model, ready=4))
    running.advance(12)
    running.lose_instance("job")
    running.advance(25)
    (batch,) = [batch for batch in running.observe().samples["job"].batches if batch.records]
    assert batch.ended_s == 20, "the task is done again after the others"


def test_threads_that_resize_and_observe_at_once_leave_a_whole_engine() -> None:
    running = engine(startup_s=1)

    def use(target: int) -> None:
        for _ in range(200):
            running.apply(size(0, job=target))
            running.observe()

    threads = [threading.Thread(target=use, args=(target,)) for target in (1, 3, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    running.apply(size(0, job=4))
    running.advance(1)
    assert running.observe().instances["job"] == Instances(4, 4, 4)


@given(
    st.lists(st.tuples(st.floats(0, 200), st.integers(1, 6)), max_size=5).map(sorted),
    st.lists(st.floats(0, 200), max_size=20),
    st.floats(0, 60),
)
def test_how_time_is_cut_makes_no_difference(
    sizes: list[tuple[float, int]], stops_s: list[float], startup_s: float
) -> None:
    backlogs = []
    for extra_stops_s in ([], stops_s):
        running = engine(startup_s=startup_s)
        events = sorted([*sizes, *((at_s, 0) for at_s in extra_stops_s)])
        for at_s, target in events:
            running.advance(at_s)
            if target:
                running.apply(size(at_s, job=target))
        running.advance(300)
        backlogs.append(backlog(running))
    assert backlogs[0] == pytest.approx(backlogs[1], rel=1e-9, abs=1e-6)

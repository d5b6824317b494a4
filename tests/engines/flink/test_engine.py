"""A Flink job is an engine like any other: it keeps the contract, follows its job and repairs what deviates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from headgate.core.contracts import Engine
from headgate.core.errors import EngineError, EngineGoneError, InputError, UnsupportedEngineError
from headgate.core.types import Decision, Instances, Outcome, Verdict
from headgate.engines.flink import FlinkEngine
from headgate.testing import check_engine
from headgate.testing.clock import FakeClock
from tests.engines.flink.small_job import COUNT, JOB, SLOW, SOURCE, SmallJob, played_by, without_sizes
from tests.engines.flink.stand_in import StandIn, standing_in
from tests.engines.flink.test_fleet import Recording


@pytest.fixture
def stand_in() -> Iterator[StandIn]:
    with standing_in() as stand_in:
        yield stand_in


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(1_000_000.0)


@pytest.fixture
def job(clock: FakeClock) -> SmallJob:
    return SmallJob(clock)


def opened(job: SmallJob, stand_in: StandIn, **more: Any) -> FlinkEngine:
    return FlinkEngine(played_by(job, stand_in), job.clock.now, sleep=lambda seconds: None, **more)


def decide(engine: Engine, **sizes: int) -> Decision:
    planned = {name: instance.planned for name, instance in engine.observe().instances.items()}
    verdicts = {
        name: Verdict(name, planned.get(name, 1), size, size, "test", "a test asks for it")
        for name, size in sizes.items()
    }
    return Decision(engine.observe().at_s, "test", verdicts)


def test_a_flink_job_keeps_the_contract_of_engines(stand_in: StandIn, clock: FakeClock) -> None:
    def make() -> FlinkEngine:
        return opened(SmallJob(clock), stand_in)

    check_engine(make, lambda engine: clock.advance(5.0))


def test_a_vertex_is_an_operator_and_all_are_rescaled_together(stand_in: StandIn, job: SmallJob) -> None:
    topology = opened(job, stand_in, fewest=1, most=8, price_per_slot_hour=0.3).topology()
    assert topology.operators == ("clicks", "slow", "count")
    assert topology.streams == (("clicks", "slow"), ("slow", "count"))
    assert topology.rescaled_with("slow") == topology.operators
    assert topology.sizing_of("slow").allowed is None
    assert topology.sizing_of("count").allowed == (1, 2, 3, 4, 6)
    assert topology.sizing_of("count").max_instances == 8
    assert topology.sizing_of("count").price_per_instance_hour == pytest.approx(0.1)


def test_what_waited_when_a_job_began_to_read_did_not_come_at_once(
    stand_in: StandIn, job: SmallJob, clock: FakeClock
) -> None:
    job.read[SOURCE] = 0.0  # It has not begun to read, and so its source says that nothing waits.
    engine = opened(job, stand_in)
    assert engine.observe().samples == {}
    job.pending = 50_000.0
    clock.advance(2)
    first = engine.observe().samples["clicks"]
    clock.advance(5)
    second = engine.observe().samples["clicks"]
    assert first.arrived is not None
    assert second.arrived is not None
    assert second.arrived - first.arrived == pytest.approx(5 * job.offered_per_s, rel=0.2)


def test_all_vertices_go_into_one_request(stand_in: StandIn, job: SmallJob) -> None:
    engine = opened(job, stand_in)
    receipt = engine.apply(decide(engine, slow=3, clicks=2))
    assert receipt.outcome is Outcome.ACCEPTED
    ((path, body),) = stand_in.changes
    assert path == f"/jobs/{job.job}/resource-requirements"
    assert {vertex: requirement["parallelism"] for vertex, requirement in body.items()} == {
        SOURCE: {"lowerBound": 1, "upperBound": 2},
        SLOW: {"lowerBound": 1, "upperBound": 3},
        COUNT: {"lowerBound": 1, "upperBound": 1},
    }
    assert engine.apply(decide(engine, slow=3, clicks=2)).outcome is Outcome.UNCHANGED
    assert len(stand_in.changes) == 1


def test_sizes_that_somebody_else_changed_are_set_again(stand_in: StandIn, job: SmallJob, clock: FakeClock) -> None:
    engine = opened(job, stand_in)
    engine.apply(decide(engine, slow=3))
    clock.advance(5)
    job.wanted = {**job.wanted, SLOW: 1}
    receipt = engine.apply(decide(engine, slow=3))
    assert receipt.outcome is Outcome.ACCEPTED
    assert "requested again" in receipt.detail
    assert job.wanted[SLOW] == 3


def test_a_rescale_is_timed_and_reported(stand_in: StandIn, job: SmallJob, clock: FakeClock) -> None:
    engine = opened(job, stand_in)
    engine.observe()
    engine.apply(decide(engine, slow=3))
    clock.advance(4)
    startups = engine.observe().startups["slow"]
    assert [startup.instance for startup in startups] == ["slow-1", "slow-2"]
    assert startups[0].registered_after_s == pytest.approx(1.0, abs=0.1)
    (event,) = engine.take_events()
    assert event.kind == "rescaled"
    assert "slow 1 → 3" in event.detail
    assert engine.usual_pause_s == pytest.approx(0.2, abs=0.01)
    clock.advance(5)
    assert engine.observe().samples["slow"].paused_s == pytest.approx(0.2, abs=0.01)
    assert engine.take_events() == []


def test_a_restart_that_nobody_requested_for_is_reported(stand_in: StandIn, job: SmallJob, clock: FakeClock) -> None:
    engine = opened(job, stand_in)
    engine.observe()
    clock.advance(5)
    before = engine.observe().samples["slow"].done
    job.restart()
    clock.advance(5)
    after = engine.observe().samples["slow"]
    assert before is not None
    assert after.done is not None
    assert after.done >= before
    assert after.warming
    assert [event.kind for event in engine.take_events()] == ["job-restarted"]


def test_nothing_is_read_of_a_job_that_is_not_at_work(stand_in: StandIn, job: SmallJob) -> None:
    engine = opened(job, stand_in)
    job.state = "RESTARTING"
    observation = engine.observe()
    assert observation.samples == {}
    assert set(observation.instances) == {"clicks", "slow", "count"}


def test_a_new_number_under_the_same_name_is_followed(stand_in: StandIn, job: SmallJob, clock: FakeClock) -> None:
    engine = opened(job, stand_in)
    engine.apply(decide(engine, slow=3))
    clock.advance(5)
    engine.observe()
    engine.take_events()
    job.job, job.wanted = "f" * 32, dict.fromkeys(job.wanted, 1)
    job.sizes = dict(job.wanted)
    job.restart()
    assert engine.observe().instances["slow"].planned == 3
    assert [event.kind for event in engine.take_events()] == ["job-followed"]
    # What was decided holds for the new one as well.
    assert engine.apply(decide(engine, slow=3)).outcome is Outcome.ACCEPTED
    assert job.wanted[SLOW] == 3


def test_a_job_that_ended_is_waited_for_and_then_gone(stand_in: StandIn, job: SmallJob, clock: FakeClock) -> None:
    engine = opened(job, stand_in, gone_after_s=60)
    job.state = "FINISHED"
    with pytest.raises(EngineError, match=r"job 'clicks' is FINISHED at .* no other of that name runs yet") as reported:
        engine.observe()
    assert not isinstance(reported.value, EngineGoneError)
    clock.advance(61)
    with pytest.raises(EngineGoneError, match="no other of that name came within 61s"):
        engine.observe()
    assert stand_in.changes == []


def test_a_job_with_other_operators_is_another_job(stand_in: StandIn, job: SmallJob) -> None:
    engine = opened(job, stand_in)
    plain = job.answer

    def other(method: str, path: str, body: Any) -> Any:
        reported = plain(method, path, body)
        if path == f"/jobs/{job.job}":
            reported["vertices"][0]["name"] = "sum"
        return reported

    stand_in.answered_by = other
    with pytest.raises(EngineGoneError, match="has other operators now: clicks, slow, sum; it was clicks, slow, count"):
        engine.observe()


def test_more_slots_than_there_are_is_reported(stand_in: StandIn, job: SmallJob, clock: FakeClock) -> None:
    job.slots = 2
    engine = opened(job, stand_in)
    receipt = engine.apply(decide(engine, slow=4))
    assert receipt.detail.endswith(
        "the cluster has 2 slots too few: Flink runs what fits, and uses more when TaskManagers register"
    )
    clock.advance(5)
    assert engine.observe().instances["slow"].pending == 2


def test_slots_of_a_job_that_is_starting_are_its_own(stand_in: StandIn, job: SmallJob) -> None:
    job.slots, job.task_state = 4, "INITIALIZING"
    engine = opened(job, stand_in)
    assert "has 2 slots too few" in engine.apply(decide(engine, slow=6)).detail


def test_an_impossible_size_is_refused_before_anything_is_requested(stand_in: StandIn, job: SmallJob) -> None:
    engine = opened(job, stand_in, most=8)
    for size in (0, 9):
        receipt = engine.apply(decide(engine, slow=size))
        assert receipt.outcome is Outcome.REFUSED
        assert f"{size} instances of 'slow' are not possible; 1 to 8 are." in receipt.detail
    assert stand_in.changes == []


DEFAULT_SCHEDULER = (
    "The DefaultScheduler does not support changing the parallelism without a job restart. This feature is currently "
    "only expected to work with the AdaptiveScheduler"
)


@pytest.mark.parametrize(
    ("release", "message"),
    [
        ("2.2.1", DEFAULT_SCHEDULER),
        ("1.20.5", DEFAULT_SCHEDULER),
        ("1.17.2", f"Unable to load requested file /jobs/{JOB}/resource-requirements"),
    ],
)
def test_a_cluster_that_cannot_rescale_is_reported_with_what_to_change(
    stand_in: StandIn, job: SmallJob, release: str, message: str
) -> None:
    target = played_by(job, stand_in)
    stand_in.answered_by = without_sizes(job, release)
    with pytest.raises(UnsupportedEngineError) as reported:
        FlinkEngine(target, job.clock.now)
    assert str(reported.value) == (
        f"job 'clicks' cannot be rescaled while it runs; Flink answers: {message}; the cluster needs "
        "Flink 1.18 or newer, and 'jobmanager.scheduler: adaptive'."
    )


@pytest.mark.parametrize("release", ["2.2.1", "1.20.5", "1.17.2"])
def test_who_only_looks_needs_no_cluster_that_can_rescale_and_sees_what_others_change(
    stand_in: StandIn, job: SmallJob, clock: FakeClock, release: str
) -> None:
    target = played_by(job, stand_in)
    stand_in.answered_by = without_sizes(job, release)
    engine = FlinkEngine(target, clock.now, acts=False, sleep=lambda seconds: None)
    assert engine.observe().instances["slow"] == Instances(1, 1, 1)
    job.sizes[SLOW] = 3  # Somebody has submitted it anew.
    clock.advance(5)
    assert engine.observe().instances["slow"] == Instances(3, 3, 3)
    with pytest.raises(EngineError, match="opened to observe only"):
        engine.apply(decide(engine, slow=4))
    assert stand_in.changes == []


@pytest.mark.parametrize(("acts", "gone"), [(True, ["tm-2"]), (False, [])])
def test_who_only_looks_stops_no_taskmanager(
    stand_in: StandIn, job: SmallJob, clock: FakeClock, acts: bool, gone: list[str]
) -> None:
    provider = Recording(2)
    engine = opened(job, stand_in, provider=provider, acts=acts)
    usual = stand_in.answered_by
    assert usual is not None
    managers = [{"id": name, "slotsNumber": 2, "freeSlots": free} for name, free in (("tm-1", 0), ("tm-2", 2))]
    stand_in.answered_by = lambda method, path, body: (
        {"taskmanagers": managers} if path == "/taskmanagers" else usual(method, path, body)
    )
    for _ in range(6):
        engine.observe()
        clock.advance(5)
    assert provider.gone == gone


def test_a_job_that_may_grow_as_far_as_it_goes_is_meant_to_have_what_it_has(stand_in: StandIn, job: SmallJob) -> None:
    job.wanted = dict.fromkeys(job.wanted, job.max_parallelism)
    assert opened(job, stand_in).observe().instances["slow"].planned == 1


@pytest.mark.parametrize("target", ["http://127.0.0.1:8081", "#clicks", "http://127.0.0.1:8081#"])
def test_a_target_says_where_and_which(target: str) -> None:
    with pytest.raises(InputError, match="is not usable"):
        FlinkEngine(target)


def test_optional_metrics_are_collected_for_subscribers(stand_in: StandIn, job: SmallJob, clock: FakeClock) -> None:
    engine = opened(job, stand_in)
    assert engine.observe().samples["slow"].metrics == {}
    clock.advance(5)
    assert set(engine.extra_metrics) >= {"watermark_lag_s", "checkpoint_s", "back_pressured_share"}
    engine.subscribe(["watermark_lag_s", "checkpoint_s", "back_pressured_share", "idle_share"])
    found = engine.observe().samples["slow"].metrics
    assert found["watermark_lag_s"] == pytest.approx(3.0)
    assert found["checkpoint_s"] == pytest.approx(0.12)
    assert found["back_pressured_share"] == 0.0
    assert found["idle_share"] == pytest.approx(0.0, abs=0.05)


def test_a_stop_before_a_job_was_first_seen_at_work_is_no_pause(
    stand_in: StandIn, job: SmallJob, clock: FakeClock
) -> None:
    engine = opened(job, stand_in)
    job.state = "RESTARTING"
    engine.observe()
    job.state = "RUNNING"
    clock.advance(50)
    engine.observe()
    engine.apply(decide(engine, slow=3))
    clock.advance(4)
    engine.observe()
    assert engine.usual_pause_s == pytest.approx(0.2, abs=0.01)

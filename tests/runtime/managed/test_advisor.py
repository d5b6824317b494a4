"""When another plan is advised, by what a control loop saw."""

from __future__ import annotations

from headgate.core.objective import parse_objective
from headgate.core.types import Batch, Instances, Observation, Sample
from headgate.engines.spark.query_plan import Plan, StageWork
from headgate.runtime.managed.advisor import CAP_REST_S, PENDING_FOR_S, Advisor, Wishes
from headgate.runtime.managed.batch_cap import BatchCapModel
from headgate.runtime.managed.contracts import Pauses, PlanChange
from headgate.testing.clock import FakeClock

STATEFUL = StageWork(state_tasks=2, state_task_s=9.0, other_tasks=8, other_task_s=1.0)


class Watched:
    """An advisor that is shown batches, one after the other, as a loop would."""

    def __init__(
        self, *, times: BatchCapModel, work: StageWork | None = STATEFUL, caps: bool = True, most: int | None = 16
    ) -> None:
        self.clock = FakeClock(1000.0)
        goal = parse_objective("latency p95 < 10s").within(1, 8)
        wishes = Wishes(goal, caps=caps, most_partitions=most, rest_s=120.0, held_for_s=10.0)
        self.advisor = Advisor(self.clock.now, wishes, Pauses(), lambda _: work)
        self.advisor.started(self.clock.now())
        self.times = times
        self.instances = Instances(4, 4, 4)
        self.plan = Plan(1000, 2)
        self.advised: list[PlanChange] = []

    def run(self, batches: int, records: list[int], *, latency_s: float = 1.0, idle_s: float = 0.0) -> None:
        """Go through batches of these sizes in turn, and take up what is advised after each."""
        for number in range(batches):
            size = records[number % len(records)]
            started_s = self.clock.now()
            self.clock.advance(self.times.seconds(size, self.instances.ready))
            batch = Batch(started_s, self.clock.now(), size, instances=self.instances.ready)
            self.clock.advance(idle_s)
            sample = Sample("job", self.clock.now(), latency_s=latency_s, batches=(batch,), useful_instances=8)
            self.advisor.watch(Observation(self.clock.now(), {"job": sample}, {"job": self.instances}), None)
            if (change := self.advisor.advise(self.plan)) is not None:
                self.advised.append(change)
                self.plan = change.plan


FAST = BatchCapModel(overhead_s=0.2, instance_s_per_record=0.001)


def test_a_limit_is_raised_to_what_a_batch_can_do_and_then_left_alone() -> None:
    watched = Watched(times=FAST, work=None)
    watched.run(200, [500, 1000])
    (change,) = watched.advised
    assert change.plan.max_records_per_batch is not None
    assert 3.5 <= FAST.seconds(change.plan.max_records_per_batch, 4) <= 4.1
    assert "instead of 1000" in change.reason


def test_a_limit_follows_the_instances_there_are() -> None:
    watched = Watched(times=FAST, work=None)
    watched.run(60, [500, 1000])
    four = watched.plan.max_records_per_batch
    watched.instances = Instances(8, 8, 8)
    watched.run(60, [500, 1000])
    eight = watched.plan.max_records_per_batch
    assert four is not None
    assert eight is not None
    assert 1.9 <= eight / four <= 2.1


def test_no_limit_is_advised_where_none_is_wanted() -> None:
    watched = Watched(times=FAST, work=None, caps=False)
    watched.run(100, [500, 1000])
    assert watched.advised == []


def test_the_first_moments_after_a_start_change_nothing() -> None:
    watched = Watched(times=BatchCapModel(0.1, 0.01), work=None)
    watched.run(4, [100, 200])
    assert watched.clock.now() - 1000.0 < CAP_REST_S
    assert watched.advised == []


def test_a_first_batch_that_takes_too_long_is_followed_by_smaller_ones() -> None:
    watched = Watched(times=BatchCapModel(1.0, 0.1), work=None)
    watched.run(1, [1000])
    (change,) = watched.advised
    assert change.plan.max_records_per_batch == 250
    watched.run(1, [250])
    assert len(watched.advised) == 1, "what one batch tells is taken up once"
    watched.run(20, [80, 140])
    assert len(watched.advised) <= 4
    assert watched.plan.max_records_per_batch is not None
    assert watched.times.seconds(watched.plan.max_records_per_batch, 4) <= 10.5


def test_a_first_batch_that_was_fast_changes_nothing_yet() -> None:
    watched = Watched(times=FAST, work=None)
    watched.clock.advance(CAP_REST_S)
    watched.run(1, [1000])
    assert watched.advised == []


def test_where_a_limit_takes_a_restart_it_is_changed_seldom_and_with_its_pause() -> None:
    watched = Watched(times=FAST, work=None)
    watched.advisor.cap_refused()
    watched.run(400, [500, 1000])
    (change,) = watched.advised
    assert change.expected_pause_s > 0
    watched.instances = Instances(6, 6, 6)
    watched.run(400, [500, 1000])
    assert len(watched.advised) == 1, "half as much again is not worth a restart"


SLOW = BatchCapModel(overhead_s=0.1, instance_s_per_record=0.008)


def test_a_query_that_is_held_back_gets_more_state_partitions_after_a_while() -> None:
    watched = Watched(times=SLOW, caps=False)
    watched.run(40, [1000], latency_s=12.0)
    (change,) = watched.advised
    assert change.plan.state_partitions == 8
    assert change.expected_pause_s == 10.0
    assert "8 state partitions instead of 2" in change.reason


def test_it_rests_after_a_change_of_state_partitions() -> None:
    watched = Watched(times=SLOW, caps=False)
    watched.run(20, [1000], latency_s=12.0)
    assert len(watched.advised) == 1
    watched.plan = Plan(1000, 2)
    changed_s = watched.clock.now()
    while len(watched.advised) == 1:
        watched.run(1, [1000], latency_s=12.0)
    assert watched.clock.now() - changed_s >= 100.0


def test_nothing_is_repartitioned_while_instances_come_or_go() -> None:
    watched = Watched(times=SLOW, caps=False)
    for ready in (4, 3, 4, 5):
        watched.instances = Instances(6, 6, ready)
        watched.run(10, [1000], latency_s=12.0)
    assert watched.advised == []


def test_instances_that_never_come_are_not_waited_for() -> None:
    watched = Watched(times=SLOW, caps=False)
    watched.instances = Instances(6, 6, 4)
    began_s = watched.clock.now()
    while not watched.advised:
        watched.run(1, [1000], latency_s=12.0)
    assert PENDING_FOR_S <= watched.clock.now() - began_s < PENDING_FOR_S + 20.0
    assert watched.advised[0].plan.state_partitions == 8


def test_nothing_is_repartitioned_that_keeps_no_state_or_may_not_be() -> None:
    for watched in (
        Watched(times=SLOW, caps=False, work=StageWork(2, 0.0, 8, 9.0)),
        Watched(times=SLOW, caps=False, work=None),
        Watched(times=SLOW, caps=False, most=None),
        Watched(times=SLOW, caps=False, most=2),
    ):
        watched.run(40, [1000], latency_s=12.0)
        assert watched.advised == []


def test_what_was_refused_once_is_not_advised_again() -> None:
    watched = Watched(times=SLOW, caps=False)
    watched.advisor.partitions_refused()
    watched.run(200, [1000], latency_s=12.0)
    assert watched.advised == []


def test_stages_are_read_once_for_each_observation() -> None:
    looks: list[int] = []
    watched = Watched(times=SLOW, caps=False)
    watched.advisor._work = looks.append
    watched.run(10, [1000], latency_s=12.0)
    seen = len(looks)
    for _ in range(20):
        assert watched.advisor.advise(watched.plan) is None
    assert len(looks) == seen > 0


def test_a_query_that_idles_is_left_alone() -> None:
    watched = Watched(times=SLOW, caps=False)
    watched.run(40, [20], latency_s=0.5, idle_s=30.0)
    assert watched.advised == []

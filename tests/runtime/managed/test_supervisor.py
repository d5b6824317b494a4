"""A query is restarted after failures, and its plan changed between two batches: on a stand-in for Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import pytest

from headgate.core.errors import EngineError, EngineGoneError
from headgate.core.types import NO_NUMBERS, Number, Severity
from headgate.engines.spark.query_plan import Plan
from headgate.runtime.managed.contracts import GUESSED_REPARTITION_S, Pauses, PlanChange
from headgate.runtime.managed.failures import Backoff, Restarts
from headgate.runtime.managed.supervisor import QuerySupervisor
from headgate.testing.clock import FakeClock

BROKER_AWAY = "org.apache.kafka.common.errors.TimeoutException: Timed out"
NO_TOPIC = "UnknownTopicOrPartitionException: This server does not host this topic-partition."


@dataclass
class Query:
    """A query as the supervisor sees one; it ends when the test says so."""

    clock: FakeClock
    starts: list[Plan] = field(default_factory=list)
    caps: list[int] = field(default_factory=list)
    is_running: bool = False
    failure: str | None = None
    first_batch_s: float | None = None
    fails_to_start: list[Exception] = field(default_factory=list)
    can_cap: bool = True
    ends_in_time: bool = True
    repartition_s: float = 4.0

    def start(self, plan: Plan) -> None:
        if self.fails_to_start:
            raise self.fails_to_start.pop(0)
        self.starts.append(plan)
        self.is_running, self.failure, self.first_batch_s = True, None, None

    def stop(self, within_s: float) -> bool:
        self.is_running = False
        return self.ends_in_time

    def fail(self, why: str) -> None:
        self.is_running, self.failure = False, why

    def set_cap(self, records: int) -> bool:
        if self.can_cap:
            self.caps.append(records)
        return self.can_cap

    def repartition(self, partitions: int) -> None:
        self.clock.advance(self.repartition_s)


@dataclass
class State:
    """Stands for the checkpoint's state."""

    query: Query
    partitions: int | None = 2
    refuses: bool = False
    left: str = ""

    def change(self, after: int, now: float) -> None:
        assert not self.query.is_running
        if self.refuses:
            raise EngineError("no.")
        self.query.repartition(after)
        self.partitions = after

    def recover(self) -> str:
        left, self.left = self.left, ""
        return left


@dataclass
class Advice:
    change: PlanChange | None = None
    starts: int = 0
    refusals: int = 0
    partition_refusals: int = 0

    def advise(self, plan: Plan) -> PlanChange | None:
        change, self.change = self.change, None
        return change

    def started(self, at_s: float) -> None:
        self.starts += 1

    def cap_refused(self) -> None:
        self.refusals += 1

    def partitions_refused(self) -> None:
        self.partition_refusals += 1


class Bench:
    """A supervisor with everything around it."""

    def __init__(self, *, restarts: Restarts | None = None, acts: bool = True) -> None:
        self.clock = FakeClock(100.0)
        self.query = Query(self.clock)
        self.state = State(self.query)
        self.advice = Advice()
        self.reported: list[tuple[str, str, Mapping[str, Number]]] = []
        self.lacks = ""
        self.is_ending = False
        self.supervisor = QuerySupervisor(
            self.query,
            Plan(1000, 2),
            self.clock,
            backoff=Backoff(restarts or Restarts(first_s=2.0, longest_s=8.0, jitter=0.0)),
            report=self.tell,
            pauses=Pauses(),
            repartitioning=self.state,
            advisor=self.advice,
            acts=acts,
            room=lambda: self.lacks,
            is_ending=lambda: self.is_ending,
        )

    def tell(
        self, kind: str, detail: str, numbers: Mapping[str, Number] = NO_NUMBERS, severity: Severity = Severity.INFO
    ) -> None:
        self.reported.append((kind, detail, numbers))

    @property
    def kinds(self) -> list[str]:
        return [kind for kind, _, _ in self.reported]

    def tend(self, seconds: float = 0.0, step_s: float = 0.5) -> None:
        """Look once, and then every half second for a while."""
        self.supervisor.tend()
        for _ in range(round(seconds / step_s)):
            self.clock.advance(step_s)
            self.supervisor.tend()

    def up(self) -> Bench:
        """With a query that runs, and has ended a batch."""
        self.tend()
        self.query.first_batch_s = 1.0
        return self


def test_it_is_started_once_and_left_alone() -> None:
    bench = Bench()
    bench.tend(60)
    assert bench.query.starts == [Plan(1000, 2)]
    assert bench.kinds == ["query-started"]


def test_a_failure_that_can_heal_is_followed_by_restarts_with_growing_waits() -> None:
    bench = Bench()
    bench.tend()
    started_s = []
    for _ in range(4):
        bench.query.fail(BROKER_AWAY)
        failed_s, before = bench.clock.now(), len(bench.query.starts)
        while len(bench.query.starts) == before:
            bench.tend(0.5)
        started_s.append(bench.clock.now() - failed_s)
    assert started_s == pytest.approx([2.0, 4.0, 8.0, 8.0], abs=0.6)
    assert "the broker does not answer" in bench.reported[1][1]
    assert bench.supervisor.restarts == 4


def test_a_finished_batch_makes_the_next_wait_short_again() -> None:
    bench = Bench()
    bench.tend()
    for _ in range(3):
        bench.query.fail(BROKER_AWAY)
        bench.tend(10)
    bench.query.first_batch_s = 1.0
    bench.tend()
    bench.query.fail(BROKER_AWAY)
    bench.tend()
    assert bench.reported[-1][2]["wait_s"] == 2.0


def test_what_cannot_heal_ends_it_with_one_sentence() -> None:
    bench = Bench().up()
    bench.query.fail(NO_TOPIC)
    bench.tend(100)
    assert bench.supervisor.has_ended
    assert len(bench.query.starts) == 1
    assert str(bench.supervisor.failure).startswith("the query was stopped for good: the topic does not exist")
    assert bench.kinds == ["query-started", "query-given-up"]


def test_it_gives_up_on_what_fails_again_and_again_and_says_how_often() -> None:
    bench = Bench(restarts=Restarts(first_s=1.0, longest_s=1.0, jitter=0.0, most_in_a_row=2))
    bench.query.fails_to_start = [RuntimeError("odd")] * 99
    bench.tend(60)
    assert bench.supervisor.has_ended
    assert "3 times without a batch between" in str(bench.supervisor.failure)
    assert bench.kinds == ["query-failed", "query-failed", "query-given-up"]


def test_a_session_that_is_gone_is_not_waited_for() -> None:
    bench = Bench()
    bench.query.fails_to_start = [EngineGoneError("the Spark session was stopped.")]
    bench.tend(60)
    assert bench.supervisor.has_ended
    assert "session was stopped" in str(bench.supervisor.failure)


FAILURES = {"failed": BROKER_AWAY, "cannot heal": NO_TOPIC}
GONE = EngineGoneError("the Spark driver does not answer any more: [Errno 111] Connection refused.")


@pytest.mark.parametrize("how", ["gone", "failed", "cannot heal", "ended", "gone at a start", "failed at a start"])
def test_a_failure_because_its_end_was_requested_is_not_reported(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    if "start" in how:
        bench.query.fails_to_start = [GONE if how.startswith("gone") else RuntimeError("no driver")]
    else:
        bench.up()
    bench.is_ending = True
    if how == "gone":
        monkeypatch.setattr(Query, "is_running", property(raising(GONE)), raising=False)
    elif how in FAILURES:
        bench.query.fail(FAILURES[how])
    elif how == "ended":
        bench.query.is_running = False
    bench.tend(60)
    assert (bench.supervisor.has_ended, bench.supervisor.failure) == (True, None)
    assert [kind for kind in bench.kinds if kind != "query-started"] == ["query-interrupted"]


def test_a_check_that_fails_while_it_ends_is_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench().up()
    bench.is_ending = True
    monkeypatch.setattr(Query, "is_running", property(raising(RuntimeError("half an answer"))), raising=False)
    bench.tend(5)
    assert bench.kinds == ["query-started"]


def raising(error: Exception) -> Callable[[object], bool]:
    def look(_: object) -> bool:
        raise error

    return look


def test_a_query_that_ends_by_itself_is_not_started_again() -> None:
    bench = Bench().up()
    bench.query.is_running = False
    bench.tend(60)
    assert bench.supervisor.has_ended
    assert bench.supervisor.failure is None
    assert bench.kinds == ["query-started", "query-ended"]


def test_a_full_disk_is_waited_for_and_reported_once() -> None:
    bench = Bench().up()
    bench.query.fail("java.io.IOException: No space left on device")
    bench.lacks = "the disk is full"
    bench.tend(120)
    assert bench.kinds == ["query-started", "query-failed", "no-room"]
    bench.lacks = ""
    bench.tend(20)
    assert bench.kinds[-1] == "query-restarted"


def test_a_full_disk_for_hours_does_not_end_it() -> None:
    bench = Bench(restarts=Restarts(most_in_a_row=3)).up()
    bench.lacks = "the disk is full"
    bench.query.fail("No space left on device")
    bench.tend(3 * 3600, step_s=10.0)
    assert not bench.supervisor.has_ended


def test_more_state_partitions_take_one_pause_that_is_expected_measured_and_reported() -> None:
    bench = Bench().up()
    wanted = Plan(1000, 8)
    bench.supervisor.request(wanted, "held back")
    bench.tend()
    assert bench.query.starts == [Plan(1000, 2), wanted]
    bench.clock.advance(3.0)
    bench.query.first_batch_s = 1.0
    bench.tend()
    assert bench.kinds == ["query-started", "change-begun", "query-restarted", "change-made"]
    assert bench.reported[1][2]["expected_pause_s"] == GUESSED_REPARTITION_S
    # 4 s for the state, and 3 s until the end of the first batch, which took 1 s of them.
    assert bench.reported[-1][2] == {"expected_pause_s": GUESSED_REPARTITION_S, "pause_s": 6.0}
    bench.supervisor.request(Plan(1000, 16), "held back again")
    bench.tend()
    assert bench.reported[-2][2]["expected_pause_s"] == 6.0


def test_a_pause_that_ends_in_a_failure_is_not_learned_from() -> None:
    bench = Bench().up()
    bench.supervisor.request(Plan(1000, 8), "held back")
    bench.tend()
    bench.query.fail(BROKER_AWAY)
    bench.tend(60)
    bench.query.first_batch_s = 1.0
    bench.tend()
    assert "change-made" not in bench.kinds
    assert bench.supervisor.plan == Plan(1000, 8)


def test_a_change_waits_for_the_first_batch_after_a_start() -> None:
    bench = Bench()
    bench.tend()
    bench.supervisor.request(Plan(1000, 8), "early")
    bench.tend(30)
    assert bench.kinds == ["query-started"]
    bench.query.first_batch_s = 1.0
    bench.tend()
    assert bench.supervisor.plan.state_partitions == 8


@pytest.mark.parametrize("obstacle", ["refused", "batch-too-long"])
def test_a_change_that_cannot_be_made_leaves_the_query_running_as_it_was(obstacle: str) -> None:
    bench = Bench().up()
    bench.state.refuses = obstacle == "refused"
    bench.query.ends_in_time = obstacle != "batch-too-long"
    bench.supervisor.request(Plan(1000, 8), "held back")
    bench.tend(5)
    assert bench.query.is_running
    assert bench.query.starts == [Plan(1000, 2)] * 2
    assert bench.supervisor.plan == Plan(1000, 2)
    assert "change-made" not in bench.kinds
    bench.query.first_batch_s = 1.0
    bench.supervisor.request(Plan(1000, 8), "held back")
    bench.tend(5)
    assert bench.advice.partition_refusals == (obstacle == "refused")


def test_a_limit_is_changed_without_a_restart() -> None:
    bench = Bench().up()
    bench.advice.change = PlanChange(Plan(500, 2), "shorter batches")
    bench.tend(5)
    assert bench.query.caps == [500]
    assert len(bench.query.starts) == 1
    assert bench.supervisor.plan.max_records_per_batch == 500


def test_a_limit_that_takes_a_restart_is_left_to_be_advised_again() -> None:
    bench = Bench().up()
    bench.query.can_cap = False
    bench.advice.change = PlanChange(Plan(500, 2), "shorter batches")
    bench.tend(5)
    assert bench.advice.refusals == 1
    assert len(bench.query.starts) == 1
    bench.advice.change = PlanChange(Plan(100, 2), "much shorter batches", expected_pause_s=3.0)
    bench.tend(5)
    assert bench.query.starts[-1] == Plan(100, 2)
    bench.query.first_batch_s = 1.0
    bench.tend()
    assert bench.kinds[-1] == "change-made"


def test_one_who_only_recommends_changes_nothing() -> None:
    bench = Bench(acts=False).up()
    bench.advice.change = PlanChange(Plan(1000, 8), "held back")
    bench.tend(5)
    assert bench.kinds == ["query-started", "change-recommended"]
    assert len(bench.query.starts) == 1


def test_what_was_cut_off_is_ended_before_the_start_and_planned_with() -> None:
    bench = Bench()
    bench.state.left, bench.state.partitions = "a change to 8 state partitions was ended", 8
    bench.tend()
    assert bench.kinds == ["change-recovered", "query-started"]
    assert bench.query.starts == [Plan(1000, 8)]


def test_stopping_lets_the_batch_end_and_tells_if_it_did_not() -> None:
    gentle, rough = Bench().up(), Bench().up()
    rough.query.ends_in_time = False
    for bench in (gentle, rough):
        bench.supervisor.stop(5.0)
        bench.tend(60)
        assert len(bench.query.starts) == 1
    assert gentle.kinds == ["query-started"]
    assert rough.kinds == ["query-started", "query-interrupted"]


def test_a_change_to_what_there_is_does_nothing() -> None:
    bench = Bench().up()
    bench.supervisor.request(replace(bench.supervisor.plan), "again")
    bench.tend(5)
    assert bench.kinds == ["query-started"]

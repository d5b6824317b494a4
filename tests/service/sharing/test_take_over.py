"""Who takes over goes on where the other was; who was deposed changes nothing any more."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from headgate.core.errors import DeposedError
from headgate.core.objective import parse_objective
from headgate.core.types import Decision, Instances, Observation, Sample
from headgate.engines.agents import Report
from headgate.journal.contract import state_key
from headgate.runtime.past import LONGEST_BREAK_S
from headgate.service.config import JobSpec, OperatorSpec, ServiceConfig
from headgate.service.operations import RequestedChange
from headgate.service.service import Service
from headgate.service.store import open_store
from headgate.service.store.changes import ChangeKind
from headgate.service.warm import FOLLOW_EVERY_S
from headgate.testing.clock import FakeClock

INTERVAL_S = 10.0
JOB = JobSpec(
    "clicks", (OperatorSpec("count", 1, 8),), parse_objective("latency p95 < 10s"), policy="hpa", interval_s=INTERVAL_S
)


class Two:
    """Two services on one database, stepped by the test; each leads when the test says so."""

    def __init__(self, stack: ExitStack, url: str) -> None:
        self.clock = FakeClock(1.7e9)
        config = ServiceConfig((JOB,), url)
        stores = [open_store(url, now=self.clock.now) for _ in range(2)]
        self.services = [stack.enter_context(Service(config, store, self.clock, leads=False)) for store in stores]
        # A lease that ends at once, so that any request for it succeeds.
        self._leases = [store.lease(f"service-{number}", "", 0.0) for number, store in enumerate(stores)]
        self.size = 2

    def follow(self, number: int) -> None:
        """Have one stand by until it knows the job."""
        service = self.services[number]
        self.clock.advance(FOLLOW_EVERY_S)
        service.stand_by()
        while not service.is_warm:
            service.stand_by()

    def lead(self, number: int) -> Service:
        term = self._leases[number].acquire()
        assert term is not None
        self.services[number].lead(term.token, lambda: True)
        return self.services[number]

    def pass_time(self, service: Service, utilization: float, steps: int = 1) -> Decision | None:
        """The job's agent reports and obeys, and its loop is stepped."""
        decision = None
        job = service.fleet.job("clicks")
        for _ in range(steps):
            self.clock.advance(INTERVAL_S)
            sample = Sample("job", self.clock.now(), done=100.0, utilization=utilization)
            reply = job.report("count", Report("agent", Instances(self.size, self.size, self.size), sample))
            self.size = self.size if reply.size is None else reply.size
            decision = job.tick()
        return decision


@pytest.fixture
def two(database_url: str) -> Iterator[Two]:
    with ExitStack() as stack:
        yield Two(stack, database_url)


def test_who_takes_over_begins_with_sizes_history_and_what_was_learned(two: Two) -> None:
    first = two.lead(0)
    two.pass_time(first, 0.95, steps=4)
    decided = first.fleet.job("clicks").decision
    assert decided is not None
    assert decided.targets["count"] > 2
    loop = first.fleet.job("clicks").loop
    learned = first.fleet.job("clicks").journal.load_state(state_key("clicks", ("count",), loop.policy))
    assert learned is not None
    assert learned != JOB.make_policy().snapshot(), "something was learned"
    seen = len(first.fleet.job("clicks").loop.history.observations)

    two.clock.advance(INTERVAL_S)
    job = two.lead(1).fleet.job("clicks")
    assert job.engine.observe().instances["count"].planned == decided.targets["count"], "before any agent reports"
    assert len(job.loop.history.observations) == seen
    assert job.loop.policy.snapshot() == learned
    again = job.tick()
    assert again is not None
    assert again.targets == decided.targets, "taking over changes no size"
    assert again.is_hold
    assert "leader-changed" in [event.kind for event in job.journal.events(run=job.journal.run)]


def begun_with(service: Service) -> tuple[object, ...]:
    """All that a loop has of its job's past."""
    job = service.fleet.job("clicks")
    history = job.loop.history
    change = history.last_change("count")
    return (
        list(history.observations),
        list(history.decisions),
        history.saved_budgets(),
        history.startup_times("count").to_json(),
        None if change is None else change.at_s,
        history.settled_since_s("count"),
        history.short_since_s("count"),
        history.streak("count"),
        job.began_with,
        job.loop.policy.snapshot(),
    )


def test_who_has_followed_begins_with_the_same_as_who_reads_the_journal(two: Two) -> None:
    first = two.lead(0)
    two.pass_time(first, 0.95, steps=3)
    two.follow(1)
    two.pass_time(first, 0.95, steps=3)
    two.follow(1)
    two.pass_time(first, 0.4, steps=2)
    two.clock.advance(INTERVAL_S)
    followed = begun_with(two.lead(1))
    assert len(followed[0]) == 8  # type: ignore[arg-type]  # the observations
    two.services[0].step_down()
    assert begun_with(two.lead(0)) == followed, "it reads everything"


def test_what_was_seen_is_there_though_one_in_between_saw_nothing(two: Two) -> None:
    two.pass_time(two.lead(0), 0.95, steps=4)
    two.lead(1)
    two.services[0].step_down()
    job = two.lead(0).fleet.job("clicks")
    assert len(job.loop.history.observations) == 4
    assert job.began_with == {"count": two.size}


def test_after_a_longer_break_what_was_seen_is_of_another_story(two: Two) -> None:
    first = two.lead(0)
    two.follow(1)
    two.pass_time(first, 0.95, steps=4)
    two.follow(1)
    two.clock.advance(LONGEST_BREAK_S + 1)
    first.step_down()
    first = two.lead(0)
    two.pass_time(first, 0.7, steps=2)
    two.follow(1)
    two.clock.advance(INTERVAL_S)
    job = two.lead(1).fleet.job("clicks")
    assert len(job.loop.history.observations) == 2
    assert job.began_with == {"count": two.size}


def test_who_follows_takes_up_what_is_changed_meanwhile(two: Two) -> None:
    first = two.lead(0)
    two.pass_time(first, 0.7, steps=2)
    two.follow(1)
    first.operations.put(
        "somebody", RequestedChange("clicks", ChangeKind.BOUNDS, "count", {"instances": [1, 6]}, "a test")
    )
    two.follow(1)
    two.pass_time(first, 0.7, steps=2)
    two.clock.advance(INTERVAL_S)
    job = two.lead(1).fleet.job("clicks")
    assert len(job.loop.history.observations) == 4
    assert job.spec.operator("count").max_instances == 6


def test_who_was_deposed_can_neither_decide_nor_write(two: Two) -> None:
    first = two.lead(0)
    two.pass_time(first, 0.7)
    second = two.lead(1)
    before = two.size
    two.pass_time(first, 0.99, steps=3)
    assert two.size == before, "what is not on record is not handed out"
    first_run = first.fleet.job("clicks").journal.run
    assert len(second.fleet.job("clicks").journal.decisions(run=first_run)) == 1
    with pytest.raises(DeposedError):
        first.store.audit.add("somebody", "clicks", "pause", "a test", None, None)
    first.step_down()
    assert len(first.fleet) == 0
    with pytest.raises(DeposedError):
        first.store.audit.add("somebody", "clicks", "pause", "a test", None, None)
    two.pass_time(second, 0.99, steps=3)
    assert two.size > before


def test_a_service_that_led_before_may_lead_again(two: Two) -> None:
    two.pass_time(two.lead(0), 0.7)
    two.pass_time(two.lead(1), 0.7)
    two.services[0].step_down()
    first = two.lead(0)
    two.pass_time(first, 0.99, steps=3)
    assert two.size > 2
    assert len(first.fleet.job("clicks").journal.runs()) == 3


def test_replies_carry_the_term(two: Two) -> None:
    report = Report("agent", Instances(2, 2, 2))
    terms = [two.lead(number).fleet.job("clicks").report("count", report).term for number in (0, 1)]
    assert terms == [1, 2]


def test_readings_that_cannot_be_used_keep_nobody_from_taking_over(two: Two) -> None:
    first = two.lead(0)
    two.pass_time(first, 0.5, steps=2)
    write = first.fleet.job("clicks").journal.observed

    def write_bad() -> None:
        two.clock.advance(1.0)
        write(Observation(two.clock.now(), {"count": Sample("count", math.nan, done=math.inf)}, {}))

    write_bad()
    two.follow(1)
    write_bad()
    second = two.lead(1)
    assert two.pass_time(second, 0.5, steps=2) is not None
    assert second.fleet.job("clicks").began_with == {"count": 2}

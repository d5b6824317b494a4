"""Who takes over goes on where the other was; who was deposed changes nothing any more."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from headgate.core.errors import DeposedError
from headgate.core.objective import parse_objective
from headgate.core.types import Decision, Instances, Sample
from headgate.engines.agents import Report
from headgate.runtime.learned import state_key
from headgate.service.config import JobSpec, OperatorSpec, ServiceConfig
from headgate.service.service import Service
from headgate.service.store import open_store
from headgate.testing.clock import FakeClock

INTERVAL_S = 10.0
JOB = JobSpec(
    "clicks", (OperatorSpec("count", 1, 8),), parse_objective("latency p95 < 10s"), policy="hpa", interval_s=INTERVAL_S
)


class Two:
    """Two services on one database, stepped by the test; each leads when it is told to."""

    def __init__(self, stack: ExitStack, url: str) -> None:
        self.clock = FakeClock(1.7e9)
        config = ServiceConfig((JOB,), url)
        stores = [open_store(url, now=self.clock.now) for _ in range(2)]
        self.services = [stack.enter_context(Service(config, store, self.clock, leads=False)) for store in stores]
        # A lease that ends at once: whoever asks gets it.
        self._leases = [store.lease(f"service-{number}", "", 0.0) for number, store in enumerate(stores)]
        self.size = 2

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
    assert job.engine.observe().instances["count"].planned == decided.targets["count"], "before any agent is heard of"
    assert len(job.loop.history.observations) == seen
    assert job.loop.policy.snapshot() == learned
    again = job.tick()
    assert again is not None
    assert again.targets == decided.targets, "taking over changes no size"
    assert again.is_hold
    assert "leader-changed" in [event.kind for event in job.journal.events(run=job.journal.run)]


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

"""A job whose operators are rescaled together joins a service with all of them, and is rescaled once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headgate.agent.agent import SeveralAgents
from headgate.core.topology import Topology
from headgate.core.types import Decision, Outcome, Verdict
from headgate.engines.agents import AgentsEngine
from headgate.engines.flink import FlinkEngine
from headgate.testing.clock import FakeClock
from tests.engines.flink.small_job import SmallJob, played_by
from tests.engines.flink.stand_in import StandIn, standing_in

OPERATORS = ("clicks", "slow", "count")


@pytest.fixture
def stand_in() -> Iterator[StandIn]:
    with standing_in() as cluster:
        yield cluster


@pytest.fixture
def job() -> SmallJob:
    return SmallJob(FakeClock(1_000_000.0))


@pytest.fixture
def mailbox(job: SmallJob) -> AgentsEngine:
    return AgentsEngine(Topology.of(("clicks", "slow"), ("slow", "count")), now=job.clock.now)


@pytest.fixture
def agents(job: SmallJob, stand_in: StandIn, mailbox: AgentsEngine) -> SeveralAgents:
    engine = FlinkEngine(played_by(job, stand_in), job.clock.now, sleep=lambda seconds: None)
    return SeveralAgents(engine, mailbox)


def decided(mailbox: AgentsEngine, **sizes: int) -> None:
    verdicts = {name: Verdict(name, 1, size, size, "test", "a test asks for it") for name, size in sizes.items()}
    mailbox.apply(Decision(mailbox.observe().at_s, "test", verdicts))


def test_every_operator_is_reported_by_its_name(agents: SeveralAgents, mailbox: AgentsEngine) -> None:
    agents.tick()
    seen = mailbox.observe()
    assert mailbox.joined == frozenset(OPERATORS)
    assert set(seen.samples) == set(OPERATORS)
    assert seen.instances["slow"].ready == 1


def test_what_is_wanted_of_several_is_one_change(
    agents: SeveralAgents, mailbox: AgentsEngine, stand_in: StandIn, job: SmallJob
) -> None:
    agents.tick()
    decided(mailbox, clicks=2, slow=3)
    agents.tick()
    assert len(stand_in.changes) == 1
    job.clock.advance(5)
    agents.tick()
    agents.tick()
    assert len(stand_in.changes) == 1
    assert {name: size.ready for name, size in mailbox.observe().instances.items()} == {
        "clicks": 2,
        "slow": 3,
        "count": 1,
    }


def test_events_of_the_job_are_reported(agents: SeveralAgents, mailbox: AgentsEngine, job: SmallJob) -> None:
    agents.tick()
    decided(mailbox, slow=2)
    agents.tick()
    job.clock.advance(5)
    agents.tick()
    agents.tick()
    assert "rescaled" in [event.kind for event in mailbox.take_events()]


def test_a_size_that_is_not_possible_is_reported_and_not_planned(agents: SeveralAgents, mailbox: AgentsEngine) -> None:
    agents.tick()
    decided(mailbox, slow=99)
    for _ in range(3):
        agents.tick()
    verdict = Verdict("slow", 99, 99, 99, "test", "a test asks again")
    receipt = mailbox.apply(Decision(mailbox.observe().at_s, "test", {"slow": verdict}))
    assert receipt.outcome is Outcome.REFUSED
    assert "99 instances of 'slow' are not possible; 1 to 12 are." in receipt.detail


def test_metrics_that_the_service_asks_for_are_collected(
    agents: SeveralAgents, mailbox: AgentsEngine, job: SmallJob
) -> None:
    agents.tick()
    assert "watermark_lag_s" in mailbox.extra_metrics
    mailbox.subscribe(["watermark_lag_s"])
    agents.tick()
    job.clock.advance(5)
    agents.tick()
    assert mailbox.observe().samples["slow"].metrics["watermark_lag_s"] == pytest.approx(3.0)


def test_leaving_is_reported_for_all(agents: SeveralAgents, mailbox: AgentsEngine) -> None:
    agents.tick()
    agents.leave()
    assert mailbox.joined == frozenset()

"""An agent that nobody answers keeps its size, or decides itself if it has a policy; and it tells when it leaves."""

from __future__ import annotations

import pytest

from headgate.agent import Agent
from headgate.agent.fallback import Fallback
from headgate.agent.join import fallback_spec
from headgate.core.errors import InputError
from headgate.core.topology import Topology
from headgate.core.types import Decision, Verdict
from headgate.engines.agents import AgentsEngine, Reply, Report
from headgate.simulation.batch_job import MicroBatchJob
from headgate.simulation.engine import SimulatedEngine
from headgate.testing.clock import FakeClock
from headgate.workloads import parse_workload
from tests.engines.agents.inprocess import Link

AFTER_S = 30.0


class Alone:
    """A job of four instances' load that has one, with an agent that may be cut off."""

    def __init__(self, *, falls_back: bool) -> None:
        self.clock = FakeClock()
        self.mailbox = AgentsEngine(Topology.single("enrich"), now=self.clock.now)
        self.link = Link(self.mailbox, self.clock)
        self.job = SimulatedEngine(MicroBatchJob(parse_workload("constant:18"), 5.0))
        spec = fallback_spec("reactive", "latency p95 < 10s", (1, 8))
        own = Fallback(spec, self.job, after_s=AFTER_S) if falls_back else None
        self.agent = Agent(self.job, "enrich", self.link, own)
        self.sizes: list[tuple[float, int]] = []

    def pass_time(self, seconds: float) -> None:
        until_s = self.clock.now() + seconds
        while self.clock.now() < until_s:
            self.clock.advance(1.0)
            self.job.advance(self.clock.now())
            self.agent.tick()
            self.sizes.append((self.clock.now(), self.size))

    @property
    def size(self) -> int:
        return self.job.observe().instances["job"].planned

    def decide(self, size: int) -> None:
        now = self.clock.now()
        self.mailbox.apply(
            Decision(now, "test", {"enrich": Verdict("enrich", 1, size, size, "test", "the test wants it")})
        )

    def events(self) -> list[str]:
        return [event.kind for event in self.mailbox.take_events()]


def test_an_agent_without_a_fallback_keeps_its_size_for_as_long_as_nobody_answers() -> None:
    alone = Alone(falls_back=False)
    alone.pass_time(5)
    alone.link.is_cut = True
    alone.pass_time(600)
    assert {size for _, size in alone.sizes} == {1}


def test_a_fallback_decides_after_a_while_and_what_it_chose_is_where_the_service_goes_on() -> None:
    alone = Alone(falls_back=True)
    alone.pass_time(5)
    alone.decide(2)
    alone.pass_time(5)
    alone.link.is_cut = True
    alone.pass_time(300)
    early = {size for at_s, size in alone.sizes if 8 < at_s < 10 + AFTER_S}
    assert early == {2}, "a service that is away for a moment costs nothing"
    assert alone.size >= 4
    alone.events()
    alone.link.is_cut = False
    chosen = alone.size
    alone.pass_time(5)
    assert alone.size == chosen, "what was decided before it was cut off is out of date"
    assert alone.mailbox.observe().instances["enrich"].planned == chosen
    assert "agent-decided" in alone.events()
    alone.decide(3)
    alone.pass_time(2)
    assert alone.size == 3, "once it is answered it obeys"
    alone.pass_time(60)
    assert alone.size == 3


def test_a_fallback_by_name_needs_an_objective_to_decide_by() -> None:
    with pytest.raises(InputError, match="'reactive' needs an objective"):
        fallback_spec("reactive", None, (1, 8))


def test_leaving_is_reported_and_the_size_is_stale_at_once() -> None:
    alone = Alone(falls_back=False)
    alone.pass_time(5)
    assert alone.events() == ["agent-joined"]
    alone.agent.leave()
    assert alone.mailbox.observe().instances["enrich"].stale
    alone.clock.advance(100)
    alone.mailbox.observe()
    assert alone.events() == ["agent-left"], "who left is not missed"
    alone.agent.tick()
    assert alone.events() == ["agent-joined"]


class Terms:
    """A controller that answers in the terms it is given, each with its number as size."""

    def __init__(self, *terms: int) -> None:
        self._terms = list(terms)

    def report(self, operator: str, report: Report) -> Reply:
        term = self._terms.pop(0)
        return Reply(term, term=term)


def test_an_answer_of_an_earlier_term_is_not_listened_to() -> None:
    job = SimulatedEngine(MicroBatchJob(parse_workload("constant:1"), 5.0))
    agent = Agent(job, "enrich", Terms(2, 3, 2, 4))
    sizes = []
    for _ in range(4):
        agent.tick()
        sizes.append(job.observe().instances["job"].planned)
    assert sizes == [2, 3, 3, 4]

"""Agents in this process, on a fake clock: simulated jobs whose agents report to a mailbox without a network."""

from __future__ import annotations

from dataclasses import replace

from headgate.agent import Agent
from headgate.core.errors import ControllerAwayError
from headgate.core.topology import Topology
from headgate.core.types import Decision, Instances, Observation, Receipt
from headgate.engines.agents import AgentsEngine, Reply, Report
from headgate.engines.agents.wire import reply_from_text, reply_to_text, report_from_text, report_to_text
from headgate.simulation.batch_job import MicroBatchJob
from headgate.simulation.engine import SimulatedEngine
from headgate.testing.clock import FakeClock
from headgate.workloads import parse_workload

STARTUP_S = 5.0


class Link:
    """Carries messages as text; the agent's clock is another one than the mailbox'. It can be cut either way."""

    def __init__(self, mailbox: AgentsEngine, clock: FakeClock, skew_s: float = 0.0) -> None:
        self.mailbox = mailbox
        self._clock = clock
        self._skew_s = skew_s
        self.is_cut = False
        self.loses_answers = False

    def report(self, operator: str, report: Report) -> Reply:
        if self.is_cut:
            raise ControllerAwayError("the link is cut.")
        now = self._clock.now()
        text = report_to_text(report, now + self._skew_s)
        reply = self.mailbox.report(operator, report_from_text(text, now))
        if self.loses_answers:
            raise ControllerAwayError("the answer was lost.")
        return reply_from_text(reply_to_text(reply))


class SkewedEngine:
    """A simulated job whose clock is ahead of everybody else's."""

    def __init__(self, engine: SimulatedEngine, skew_s: float) -> None:
        self.inner = engine
        self._skew_s = skew_s

    def topology(self) -> Topology:
        return self.inner.topology()

    def observe(self) -> Observation:
        return shifted(self.inner.observe(), self._skew_s)

    def apply(self, decision: Decision) -> Receipt:
        return self.inner.apply(decision)

    def close(self) -> None:
        self.inner.close()


def shifted(seen: Observation, by_s: float) -> Observation:
    """The same on a clock that is ahead by so much."""

    def moved(at_s: float | None) -> float | None:
        return None if at_s is None else at_s + by_s

    samples = {
        name: replace(
            sample,
            at_s=sample.at_s + by_s,
            batch_ended_s=moved(sample.batch_ended_s),
            batches=tuple(
                replace(
                    batch,
                    started_s=batch.started_s + by_s,
                    ended_s=batch.ended_s + by_s,
                    oldest_s=moved(batch.oldest_s),
                )
                for batch in sample.batches
            ),
        )
        for name, sample in seen.samples.items()
    }
    startups = {
        name: tuple(replace(startup, requested_s=startup.requested_s + by_s) for startup in found)
        for name, found in seen.startups.items()
    }
    return Observation(seen.at_s + by_s, samples, seen.instances, startups)


class Cluster:
    """A mailbox with an agent for each operator, each with a simulated job of its own."""

    def __init__(self, topology: Topology, skew_s: float = 0.0, workload: str = "constant:10") -> None:
        self.clock = FakeClock(1000.0)
        self.topology = topology
        self.mailbox = AgentsEngine(topology, now=self.clock.now)
        self.links = {name: Link(self.mailbox, self.clock, skew_s) for name in topology.operators}
        self.jobs: dict[str, SimulatedEngine] = {}
        self.agents: dict[str, Agent] = {}
        self._skew_s = skew_s
        self._workload = workload
        self._began_s = dict.fromkeys(topology.operators, self.clock.now())
        for name in topology.operators:
            self.start(name)
        self.tick()

    def start(self, name: str) -> None:
        """Start a job anew, with a new agent."""
        job = SimulatedEngine(MicroBatchJob(parse_workload(self._workload), 5.0), startup_s=STARTUP_S)
        self.jobs[name], self._began_s[name] = job, self.clock.now()
        # The job's own time began at 0; its agent sees it on a clock of its own.
        engine = SkewedEngine(job, self._began_s[name] + self._skew_s)
        self.agents[name] = Agent(engine, name, self.links[name])

    def tick(self) -> None:
        for name, agent in self.agents.items():
            self.jobs[name].advance(self.clock.now() - self._began_s[name])
            agent.tick()

    def pass_time(self, seconds: float, every_s: float = 1.0) -> None:
        until_s = self.clock.now() + seconds
        while self.clock.now() < until_s:
            self.clock.advance(min(every_s, until_s - self.clock.now()))
            self.tick()

    def sizes(self) -> dict[str, Instances]:
        return dict(self.mailbox.observe().instances)

    def with_new_controller(self) -> Cluster:
        """The same jobs and agents, with a controller that was started again."""
        self.mailbox = AgentsEngine(self.topology, now=self.clock.now)
        for link in self.links.values():
            link.mailbox = self.mailbox
        return self

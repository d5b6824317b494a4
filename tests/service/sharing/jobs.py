"""Simulated jobs with agents of their own, whose clocks are wrong, and what became of each."""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from headgate.agent.agent import Agent, HttpController
from headgate.agent.join import RunningAgent
from headgate.core.topology import Topology
from headgate.core.types import Answer, Decision, Instances, Observation, Outcome, Receipt, Sample
from headgate.engines.agents import Reply, Report
from tests.service.sharing.spawner import MOST, TARGET, job_name

START_SIZE = 2
TOLERANCE = 0.1
"""The policy's own."""


@dataclass
class LoadedJob:
    """A job whose load takes a number of instances, on a clock that is off by some hours; an engine."""

    number: int
    load: float
    """Busy instances."""
    skew_s: float
    size: int = START_SIZE
    changes: list[tuple[float, int, int]] = field(default_factory=list)
    """When, from which size, to which; by the clock that is right."""
    loads: list[tuple[float, float]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._began_s = self._counted_s = time.monotonic()
        self._arrived = self._busy_s = self._available_s = 0.0
        self.loads.append((time.time(), self.load))

    @property
    def name(self) -> str:
        return job_name(self.number)

    def now(self) -> float:
        return time.time() + self.skew_s

    def topology(self) -> Topology:
        return Topology.single()

    def set_load(self, load: float) -> None:
        with self.lock:
            self._count()
            self.load = load
            self.loads.append((time.time(), load))

    def _count(self) -> None:
        now_s = time.monotonic()
        passed_s, self._counted_s = now_s - self._counted_s, now_s
        self._arrived += 100 * self.load * passed_s
        self._busy_s += min(self.load, self.size) * passed_s
        self._available_s += self.size * passed_s

    def observe(self) -> Observation:
        with self.lock:
            self._count()
            at_s, size = self.now(), self.size
            share = min(1.0, self.load / size)
            sample = Sample(
                "job",
                at_s,
                arrived=self._arrived,
                done=self._arrived,
                busy_s=self._busy_s,
                available_s=self._available_s,
                backlog=0.0,
                latency_s=0.1,
                utilization=share,
            )
        return Observation(at_s, {"job": sample}, {"job": Instances(size, size, size)})

    def apply(self, decision: Decision) -> Receipt:
        with self.lock:
            self._count()
            before, self.size = self.size, decision.targets["job"]
            if before != self.size:
                self.changes.append((time.time(), before, self.size))
            outcome = Outcome.UNCHANGED if before == self.size else Outcome.ACCEPTED
        return Receipt(self.now(), {"job": Answer(outcome, self.size)})

    def close(self) -> None:
        return None

    # ------------------------------------------------------------------------------------------------- measurements

    @property
    def is_settled(self) -> bool:
        """Whether the policy has no reason to change it."""
        ratio = min(1.0, self.load / self.size) / TARGET
        return self.size == needed_by(self.load) or abs(ratio - 1) <= TOLERANCE

    def wrong_changes(self, memory_s: float) -> list[tuple[float, int, int]]:
        """Changes away from every size that the load needed within some time before them."""
        return [change for change in self.changes if not self._is_right(*change, memory_s)]

    def _is_right(self, at_s: float, before: int, after: int, memory_s: float) -> bool:
        needed = {needed_by(load) for load in self._loads_between(at_s - memory_s, at_s)}
        return any(abs(after - size) < abs(before - size) for size in needed)

    def _loads_between(self, from_s: float, until_s: float) -> list[float]:
        ends = [at_s for at_s, _ in self.loads[1:]] + [math.inf]
        return [
            load for (at_s, load), end_s in zip(self.loads, ends, strict=True) if at_s <= until_s and end_s >= from_s
        ]


def needed_by(load: float) -> int:
    """The size that the policy goes to."""
    return min(MOST, math.ceil(round(load / TARGET, 9)))


class RecordingController:
    """A controller that records the sizes it receives."""

    def __init__(self, inner: HttpController) -> None:
        self._inner = inner
        self.received: list[tuple[int, int]] = []
        """Terms and sizes, each change once."""
        self.answers = 0
        self.failures = 0

    def report(self, operator: str, report: Report) -> Reply:
        try:
            reply = self._inner.report(operator, report)
        except Exception:
            self.failures += 1
            raise
        self.answers += 1
        if reply.size is not None and (not self.received or self.received[-1] != (reply.term, reply.size)):
            self.received.append((reply.term, reply.size))
        return reply

    def close(self) -> None:
        self._inner.close()


class Jobs:
    """Some jobs, each with an agent on a thread."""

    def __init__(self, count: int, urls: Sequence[str], token: str, seed: int = 1) -> None:
        numbers = random.Random(seed)
        self.all = [
            LoadedJob(number, load=numbers.choice([1.2, 2.0, 2.7, 4.1]), skew_s=numbers.uniform(-7200, 7200))
            for number in range(count)
        ]
        self.controllers = [RecordingController(HttpController(urls, token, job.name, now=job.now)) for job in self.all]
        self._agents = [
            RunningAgent(Agent(job, "work", controller), job)
            for job, controller in zip(self.all, self.controllers, strict=True)
        ]

    def start(self) -> None:
        for agent in self._agents:
            agent.start()

    def stop(self) -> None:
        for agent in self._agents:
            agent.stop()
        for controller in self.controllers:
            controller.close()

    @property
    def settled(self) -> bool:
        return all(job.is_settled for job in self.all)

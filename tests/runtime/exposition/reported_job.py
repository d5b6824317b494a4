"""A simulated job whose loop has something to tell under every name."""

from __future__ import annotations

from pathlib import Path

from headgate.core.objective import parse_objective
from headgate.journal.writer import SqliteJournal
from headgate.policies.frame.base import Context
from headgate.runtime.assembly import wire
from headgate.runtime.exposition.job_figures import JobFigures
from headgate.runtime.model_file import policy_with_files
from headgate.simulation.engine import SimulatedEngine
from headgate.simulation.queue import QueueNetwork
from headgate.workloads import parse_workload

INTERVAL_S = 10.0
OBJECTIVE = parse_objective("latency p95 < 10s per 1h, price 0.5").within(1, 3)


class ReportedJob:
    """Steps a job whose load is more than its bounds allow for, with a journal in ``folder``."""

    def __init__(self, folder: Path, name: str = "clicks") -> None:
        self.engine = SimulatedEngine(QueueNetwork(parse_workload("constant:45"), 10.0, late_after_s=10.0))
        policy = policy_with_files("reactive", Context(OBJECTIVE, self.engine.topology(), 0))
        self.journal = SqliteJournal(folder / f"{name}.db")
        self.loop = wire(self.engine, policy, self.engine, engine_name="simulated", job=name, journal=self.journal)
        self.figures = JobFigures(name, lambda: INTERVAL_S, journal=self.journal.path)
        self.figures.attach(self.loop)
        self._due_s = 0.0

    def step(self, count: int = 1) -> None:
        for _ in range(count):
            self.engine.advance(self._due_s)
            self.loop.tick()
            self.figures.ticked(self._due_s, self._due_s + 0.5, self._due_s + 0.75)
            self._due_s += INTERVAL_S

    def close(self) -> None:
        self.engine.close()
        self.journal.close()

"""The description of a pipeline: jobs, the topics between them, the objective and the load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from headgate.core.objective import LatencySlo, Objective, Slo, divided, equal_shares
from headgate.core.topology import Sizing, Topology
from headgate.policies.frame.base import AnyPolicy, Context, make_policy, policy_class
from headgate.workloads.load import Load

DEFAULT_PARTITIONS = 4
DEFAULT_INTERVAL_S = 5.0
DEFAULT_TRIGGER_S = 2.0


@dataclass(frozen=True)
class Build:
    """A function of the user's own file that builds a job's query."""

    module: str
    function: str
    file: Path | None = None
    """Where the module is; ``None`` where Python finds it by itself."""


@dataclass(frozen=True)
class Job:
    """One Spark application; what it runs is one of the known applications, or a function of the user's own."""

    name: str
    reads: tuple[str, ...]
    writes: str
    app: str | None = None
    build: Build | None = None
    min_executors: int = 1
    max_executors: int = 4
    price: float | None = None
    trigger_s: float = DEFAULT_TRIGGER_S
    max_records_per_batch: int | None = None
    """``None``: as many as it gets done in time."""
    state_partitions: tuple[int, int] | None = None
    """Fewest and most; ``None``: as the session has it."""
    slo: Slo | None = None
    """An objective of its own."""
    spark: Mapping[str, str] = field(default_factory=dict)
    """Settings of its session."""


@dataclass(frozen=True)
class Pipeline:
    """The content of a pipeline file."""

    name: str
    file: Path
    jobs: tuple[Job, ...]
    topics: Mapping[str, int]
    """Partitions of each topic."""
    end_to_end: Objective
    """The objective from the first topics to the last."""
    policy: str
    settings: Mapping[str, object] = field(default_factory=dict)
    interval_s: float = DEFAULT_INTERVAL_S
    load: Load | None = None
    load_to: str | None = None
    seed: int = 0

    @cached_property
    def topology(self) -> Topology:
        """Jobs as operators; a stream leads from a job to those that read what it writes."""
        return Topology(
            tuple(job.name for job in self.jobs),
            tuple((job.name, other.name) for job in self.jobs for other in self.jobs if job.writes in other.reads),
            {job.name: Sizing(job.min_executors, job.max_executors, job.price) for job in self.jobs},
        )

    @cached_property
    def objective(self) -> Objective:
        """The objective with those of single jobs; see ``core/objective.py``."""
        own = {job.name: job.slo for job in self.jobs if job.slo is not None}
        return divided(self.end_to_end, self.topology, own, sees_graph=self.sees_graph)

    def own_bound_s(self, name: str) -> float | None:
        """The latency bound of a job's own objective; ``None`` where only the objective of all applies."""
        slo = self.objective.operators.get(name)
        return slo.bound_s if isinstance(slo, LatencySlo) else None

    def part_of(self, name: str) -> Slo:
        """The part of the objective for one job, if all on the longest path through it have equal parts."""
        slo = self.objective.slo_of(name)
        if name in self.objective.operators or not isinstance(slo, LatencySlo):
            return slo
        return replace(slo, bound_s=slo.bound_s * equal_shares(self.topology)[name])

    @property
    def sees_graph(self) -> bool:
        """Whether the policy looks at the whole graph."""
        return policy_class(self.policy).sees_graph

    @property
    def ends(self) -> tuple[Job, ...]:
        """The jobs that no other job reads from."""
        return tuple(job for job in self.jobs if not self.topology.downstream(job.name))

    @property
    def end_topics(self) -> tuple[str, ...]:
        """Where results come out."""
        return tuple(dict.fromkeys(job.writes for job in self.ends))

    def job(self, name: str) -> Job:
        return next(job for job in self.jobs if job.name == name)

    def with_policy(self, name: str) -> Pipeline:
        """The same with another policy, whose settings are its own."""
        return self if name == self.policy else replace(self, policy=name, settings={})

    def make_policy(self) -> AnyPolicy:
        return make_policy(self.policy, Context(self.objective, self.topology, self.seed), self.settings)

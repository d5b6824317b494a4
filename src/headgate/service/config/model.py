"""The configuration of a service: its store, where it listens, its groups and its jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from headgate.core.arbiter import Pace
from headgate.core.objective import DEFAULT_MAX_INSTANCES, Objective, Slo, divided
from headgate.core.plugins import DEFAULT_POLICY
from headgate.core.quota_ledger import NO_LIMIT, Quota
from headgate.core.quotas import QuotaGroup
from headgate.core.topology import Sizing, Topology
from headgate.local.machine import LOOPBACK
from headgate.policies.frame.base import AnyPolicy, Context, make_policy, policy_class
from headgate.rules.model import Constraint
from headgate.runtime.loop import Mode
from headgate.runtime.model_file import policy_with_files
from headgate.runtime.prometheus import Prometheus

DEFAULT_INTERVAL_S = 10.0
DEFAULT_PORT = 8420
DEFAULT_STORE = "sqlite:///headgate.db"
DEFAULT_REQUESTS_PER_S = 100
SHORTEST_REPORT_S = 1.0


@dataclass(frozen=True)
class OperatorSpec:
    """One operator of a job."""

    name: str
    min_instances: int = 1
    max_instances: int = DEFAULT_MAX_INSTANCES
    price: float | None = None
    cores: float | None = None
    memory_gb: float | None = None
    slo: Slo | None = None
    """An objective for this operator alone."""
    starts: int | None = None

    @property
    def sizing(self) -> Sizing:
        return Sizing(self.min_instances, self.max_instances, self.price)


@dataclass(frozen=True)
class JobSpec:
    """A job: its objective, and how its sizes are decided."""

    name: str
    operators: tuple[OperatorSpec, ...]
    end_to_end: Objective
    """The objective from the first operator to the last."""
    streams: tuple[tuple[str, str], ...] = ()
    policy: str = DEFAULT_POLICY
    settings: Mapping[str, object] = field(default_factory=dict)
    guards: Mapping[str, object] = field(default_factory=dict)
    constraints: tuple[Constraint, ...] = ()
    interval_s: float = DEFAULT_INTERVAL_S
    report_every_s: float | None = None
    group: str | None = None
    priority: int | None = None
    mode: Mode = Mode.ACT
    shadows: tuple[str, ...] = ()
    seed: int = 0
    metrics: Mapping[str, Prometheus] = field(default_factory=dict)
    """Queries of Prometheus by the name of the metric."""
    links: Mapping[str, str] = field(default_factory=dict)
    """Addresses that the dashboard shows, by their names."""

    @cached_property
    def topology(self) -> Topology:
        names = tuple(operator.name for operator in self.operators)
        return Topology(names, self.streams, {operator.name: operator.sizing for operator in self.operators})

    @cached_property
    def objective(self) -> Objective:
        """The objective with those of single operators, divided if the policy needs that."""
        return self.objective_for(self.policy)

    def objective_for(self, policy: str) -> Objective:
        own = {operator.name: operator.slo for operator in self.operators if operator.slo is not None}
        return divided(self.end_to_end, self.topology, own, sees_graph=policy_class(policy).sees_graph)

    @property
    def reported_every_s(self) -> float:
        """Seconds between two reports of an agent."""
        return self.report_every_s or max(SHORTEST_REPORT_S, self.interval_s / 2)

    def operator(self, name: str) -> OperatorSpec:
        return next(operator for operator in self.operators if operator.name == name)

    def make_policy(self) -> AnyPolicy:
        return policy_with_files(self.policy, Context(self.objective, self.topology, self.seed), self.settings)

    def make_shadows(self) -> list[AnyPolicy]:
        return [make_policy(name, Context(self.objective_for(name), self.topology, self.seed)) for name in self.shadows]


@dataclass(frozen=True)
class Tls:
    certificate: Path
    key: Path


@dataclass(frozen=True)
class AccessRules:
    """Whether reading needs a token, and how many requests are answered."""

    open_reading: bool = True
    requests_per_s: int = DEFAULT_REQUESTS_PER_S
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True)
class ServiceConfig:
    """The content of a service's configuration file."""

    jobs: tuple[JobSpec, ...]
    store: str = DEFAULT_STORE
    host: str = LOOPBACK
    port: int = DEFAULT_PORT
    tls: Tls | None = None
    access: AccessRules = AccessRules()
    retention: Mapping[str, object] = field(default_factory=dict)
    groups: tuple[QuotaGroup, ...] = ()
    file: Path | None = None
    included_files: tuple[Path, ...] = ()
    """Files that it names, such as rules and constraints."""
    cluster: Quota = NO_LIMIT
    """The quota of all jobs together."""
    pace: Pace | None = None
    """How many jobs may change their size at once."""

    def job(self, name: str) -> JobSpec:
        return next(job for job in self.jobs if job.name == name)

    @property
    def url(self) -> str:
        """The address of the service; empty if it listens on all addresses, because then it cannot know."""
        if self.host in ("0.0.0.0", "::"):
            return ""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'http' if self.tls is None else 'https'}://{host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """
    >>> [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "example.org")]
    [True, True, True, False, False]
    """
    import ipaddress

    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False

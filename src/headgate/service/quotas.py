"""Share quotas of groups and of the cluster, and the pace of rescales, among the jobs of a service."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import ClassVar

from headgate.core.arbiter import Arbiter, Limits
from headgate.core.quota_ledger import Need
from headgate.core.quotas import Demand, Grant, OperatorKey
from headgate.core.step import EachOperator, guarded
from headgate.core.types import Decision, Instant, Observation, Role, Verdict
from headgate.core.window import Window
from headgate.runtime.arbitration import Arbitrated
from headgate.runtime.loop import ControlLoop
from headgate.service.config.model import JobSpec, ServiceConfig
from headgate.service.jobs import ServedJob

RESOURCES = ("instances", "cores", "memory_gb", "money_per_hour")


def limits_of(config: ServiceConfig) -> Limits:
    """Return the limits in a configuration."""
    return Limits(config.groups, config.cluster, config.pace)


class SharedArbiter:
    """Arbitrates between the jobs of a service; safe to use from any thread."""

    def __init__(self, limits: Limits) -> None:
        self._arbiter = Arbiter(limits.groups, limits.cluster, limits.pace)
        self._lock = threading.Lock()

    def ask(self, now: Instant, demand: Demand) -> Grant:
        with self._lock:
            return self._arbiter.ask(now, demand)

    def expect(self, job: ServedJob) -> None:
        """Count the size of a job before its first request, so that others do not grow into it."""
        sizes = job.began_with
        for operator in job.spec.operators:
            size = sizes.get(operator.name, operator.starts or max(1, operator.min_instances))
            with self._lock:
                self._arbiter.expect(demand_of(job.spec, operator.name, size))

    def forget(self, job: str) -> None:
        with self._lock:
            self._arbiter.forget(job)

    def change(self, limits: Limits) -> None:
        """Apply other limits; if they are the same, operators that wait for their turn continue to wait."""
        with self._lock:
            if limits != self._arbiter.limits:
                self._arbiter.change(limits)

    @property
    def is_limiting(self) -> bool:
        return self._arbiter.limits.is_set

    @property
    def waiting(self) -> int:
        with self._lock:
            return self._arbiter.waiting

    def short(self) -> dict[OperatorKey, Grant]:
        """Return the operators that got less than they want, and why."""
        with self._lock:
            return self._arbiter.short

    def usage(self) -> dict[tuple[str, str], tuple[float, float]]:
        """Return use and limit by group (empty for the cluster) and resource."""
        with self._lock:
            found = self._arbiter.usage()
        return {(group, RESOURCES[index]): counted for (group, index), counted in found.items()}


class JobQuota:
    """The quota guard of one job; its spec is read for each decision, because it may change.

    ``knows_all`` returns whether all jobs are counted; while a new leader takes them on, none may grow.
    """

    def __init__(
        self, arbiter: SharedArbiter, spec: Callable[[], JobSpec], knows_all: Callable[[], bool] = lambda: True
    ) -> None:
        self._arbiter = arbiter
        self._spec = spec
        self._knows_all = knows_all

    def __call__(self, window: Window, decision: Decision) -> Decision:
        if self._arbiter.is_limiting and not self._knows_all():
            return guarded((_ALL_UNKNOWN,), window, decision)
        spec = self._spec()
        arbitrated = Arbitrated(
            self._arbiter, spec.name, spec.objective, spec.group or "", spec.priority, needs_of(spec)
        )
        decided = arbitrated(window, decision)
        # The arbiter is informed in any case, because limits may be added later; without limits there is no note.
        return decided if self._arbiter.is_limiting else decision

    def attach(self, loop: ControlLoop) -> None:
        """Forget the requests of a job while it only recommends, because others scale it then."""
        loop.watchers.append(self._watch)

    def _watch(self, observation: Observation | None, decision: Decision | None) -> None:
        if decision is not None and decision.role is Role.RECOMMENDED:
            self._arbiter.forget(self._spec().name)


class _NoGrowth(EachOperator):
    """Prevents growth while the sizes of the other jobs are not known."""

    name: ClassVar[str] = Arbitrated.name
    lets_holds_pass: ClassVar[bool] = True

    def limit(self, window: Window, now: Instant, verdict: Verdict) -> tuple[int, str]:
        if verdict.change <= 0:
            return verdict.target, ""
        return verdict.current, "not all jobs that share quotas are taken on yet"


_ALL_UNKNOWN = _NoGrowth()


def needs_of(spec: JobSpec) -> Mapping[str, Need]:
    """Return the resources of an instance of each operator, apart from its price."""
    return {operator.name: Need(operator.cores or 0.0, operator.memory_gb or 0.0) for operator in spec.operators}


def demand_of(spec: JobSpec, operator: str, size: int) -> Demand:
    """Return the demand of an operator that keeps its size."""
    need = needs_of(spec)[operator]
    price = spec.objective.prices(spec.topology).get(operator, 0.0)
    return Demand(
        spec.name,
        operator,
        current=size,
        wanted=size,
        minimum=spec.operator(operator).min_instances,
        need=Need(need.cores, need.memory_gb, price),
        group=spec.group or "",
        priority=spec.priority,
    )

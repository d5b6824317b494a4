"""The guard of a job that shares a cluster: limits each decision to what quotas and the pace of changes allow."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from headgate.core.arbiter import Arbitration
from headgate.core.budget import paid_instances
from headgate.core.objective import Objective, Slo
from headgate.core.quota_ledger import ANY_NEED
from headgate.core.quotas import Demand, Need
from headgate.core.topology import Topology
from headgate.core.types import Decision, GuardNote, Instant, Verdict
from headgate.core.window import Window, busy_instances, mean_ready
from headgate.policies.frame.readings import work_pressure

SPAN_S = 30.0
"""Arrivals and work done are counted over this span: a few readings, and shorter than a load takes to change."""
HEADROOM = 0.9
"""The share of the capacity of instances, and of what the objective allows, that may be used."""


def needed_for_load(window: Window, operator: str, slo: Slo) -> int | None:
    """Return the instances that keep up with arrivals within the objective, or ``None`` if that is not known."""
    newest, busy = window.sample(operator), busy_instances(window, operator, SPAN_S)
    if newest is None or busy is None:
        return None
    ready, pressure = mean_ready(window, operator, SPAN_S), work_pressure(slo, newest)
    # A late operator has to catch up, which `is_behind` reports; how late it is does not show what keeps up.
    strained = ready * pressure if pressure is not None and pressure <= 1 else 0.0
    return math.ceil(round(max(busy, min(strained, HEADROOM * ready)) / HEADROOM, 9))


@dataclass(frozen=True)
class Arbitrated:
    """Requests each operator's size from an arbiter; comes after all other guards."""

    name = "quota"
    arbiter: Arbitration
    job: str
    objective: Objective
    group: str = ""
    priority: int | None = None
    """Of the job itself, instead of its group's."""
    needs: Mapping[str, Need] = field(default_factory=dict)
    """What an instance of each operator takes, apart from its price, which the objective or the topology has."""

    def __call__(self, window: Window, decision: Decision) -> Decision:
        verdicts = {
            name: self._arbitrated(window, decision.at_s, verdict) for name, verdict in decision.verdicts.items()
        }
        return replace(decision, verdicts=verdicts)

    def _arbitrated(self, window: Window, now: Instant, verdict: Verdict) -> Verdict:
        name, topology = verdict.operator, window.topology
        instances, budget, sample = window.instances(name), window.budget(name), window.sample(name)
        slo, most = self.objective.slo_of(name), self._most(window, name)
        current = min(verdict.current, most)
        demand = Demand(
            self.job,
            name,
            current=current,
            wanted=verdict.target,
            minimum=self.objective.bounds_of(name, topology)[0],
            held=None if instances is None else max(current, min(most, paid_instances(instances))),
            need=self._need(name, topology),
            needed=needed_for_load(window, name, slo),
            is_behind=sample is not None and slo.violated_by(sample) is True,
            budget_left=None if budget is None else 1.0 - budget.spent,
            group=self.group,
            priority=self.priority,
            allowed=topology.sizing_of(name).allowed,
        )
        grant = self.arbiter.ask(now, demand)
        note = GuardNote(self.name, verdict.target, grant.instances, grant.why)
        return replace(verdict, target=grant.instances, notes=(*verdict.notes, note))

    def _most(self, window: Window, operator: str) -> int:
        """Return the most instances that count: a job cannot take more than it may have, or was once to have.

        What it reports does not show that: reports may be wrong.
        """
        decided = (seen.verdicts[operator].target for seen in window.decisions if operator in seen.verdicts)
        return max(self.objective.bounds_of(operator, window.topology)[1], *decided, 0)

    def _need(self, operator: str, topology: Topology) -> Need:
        price = self.objective.prices(topology).get(operator, 0.0)
        return replace(self.needs.get(operator, ANY_NEED), money_per_hour=price)

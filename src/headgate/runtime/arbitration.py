"""The guard by which a job of many asks for its size: what quotas and the pace leave of a decision, and for whom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from headgate.core.arbiter import Arbitration
from headgate.core.objective import Objective
from headgate.core.quota_ledger import ANY_NEED
from headgate.core.quotas import Demand, Need
from headgate.core.spending import paid_instances
from headgate.core.topology import Topology
from headgate.core.types import Decision, GuardNote, Instant, Verdict
from headgate.core.window import Window
from headgate.runtime.load_need import needed_for_load


@dataclass(frozen=True)
class Arbitrated:
    """Asks an arbiter for each operator of one job; comes after all other guards."""

    name = "quota"
    arbiter: Arbitration
    job: str
    objective: Objective
    group: str = ""
    priority: int | None = None
    """Its own, in place of that of its group."""
    needs: Mapping[str, Need] = field(default_factory=dict)
    """What an instance of each operator takes beside its price, which the objective or the topology has."""

    def __call__(self, window: Window, decision: Decision) -> Decision:
        verdicts = {name: self._asked(window, decision.at_s, one) for name, one in decision.verdicts.items()}
        return replace(decision, verdicts=verdicts)

    def _asked(self, window: Window, now: Instant, verdict: Verdict) -> Verdict:
        name, topology = verdict.operator, window.topology
        instances, budget, sample = window.instances(name), window.budget(name), window.sample(name)
        slo = self.objective.slo_of(name)
        demand = Demand(
            self.job,
            name,
            current=verdict.current,
            wanted=verdict.target,
            minimum=self.objective.bounds_of(name, topology)[0],
            held=None if instances is None else max(verdict.current, paid_instances(instances)),
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

    def _need(self, operator: str, topology: Topology) -> Need:
        price = self.objective.prices(topology).get(operator, 0.0)
        return replace(self.needs.get(operator, ANY_NEED), money_per_hour=price)

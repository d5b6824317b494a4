"""rl-centralized: one plan for the whole application, learned while it runs (russo §3, Alg. 1)."""

from __future__ import annotations

from typing import Literal

from headgate.policies.frame.base import Context, register
from headgate.policies.planning.central import CentralPlanner, require_few_configurations
from headgate.policies.planning.model import ApplicationModel, Planner, RateGrid
from headgate.policies.planning.slotted import LearningRate, SlottedPolicy, SlottedSettings, Sweeps


class RlCentralizedSettings(SlottedSettings):
    response_time: Literal["known", "learned"] = "known"
    """Whether violations are computed from the operators' speed, or learned from those that happen."""
    learning_rate: LearningRate = 0.1
    """How fast the learned cost of violations follows what happens (α)."""
    sweeps_per_slot: Sweeps = 1
    """Iterations of value iteration after each slot."""


@register
class RlCentralized(SlottedPolicy[RlCentralizedSettings]):
    """Counts how rates follow each other and improves its plan by one sweep of value iteration per slot.

    With a known response time it only has to learn the rates. Otherwise it also averages the penalty that followed each
    choice at each rate (eq. 6); the choice counts by the sizes it led to, for the penalty depends on nothing else. It
    is greedy: values start at 0, which is less than anything costs, so what was never tried looks good until it was.

    >>> from headgate.core.objective import parse_objective
    >>> from headgate.policies import Sample
    >>> from headgate.testing import last_target
    >>> within = parse_objective("latency < 1s").within(1, 5)
    >>> readings = [Sample("job", 60 * slot, input_rate_per_s=30) for slot in range(1, 5)]
    >>> target = last_target("rl-centralized", within, 3, *readings, service_rate_per_s=10, trusted_visits=3)
    >>> target.instances, target.code
    (4, 'plan-out')
    """

    name = "rl-centralized"
    summary = "Learns online how to plan all operators together."
    Settings = RlCentralizedSettings

    def __init__(self, settings: RlCentralizedSettings, context: Context) -> None:
        super().__init__(settings, context)
        bounds = context.objective
        require_few_configurations(len(context.topology.operators), bounds.min_instances, bounds.max_instances)

    def _make_planner(self, application: ApplicationModel, grids: tuple[RateGrid, ...]) -> Planner:
        (grid,) = grids
        return CentralPlanner(
            application,
            grid,
            known=self.settings.response_time == "known",
            discount=self.settings.discount,
            learning_rate=self.settings.learning_rate,
            sweeps=self.settings.sweeps_per_slot,
        )

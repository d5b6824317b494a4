"""mdp: the exact plan for the whole application, for rates that are known to follow each other (russo §2, eq. 4)."""

from __future__ import annotations

from headgate.policies.frame.base import Context, register
from headgate.policies.frame.settings import Seconds
from headgate.policies.planning.central import ExactPlanner, require_few_configurations
from headgate.policies.planning.model import ApplicationModel, Planner, RateGrid
from headgate.policies.planning.slotted import SlottedPolicy, SlottedSettings


class MdpSettings(SlottedSettings):
    rate_history_per_s: tuple[float, ...] = ()
    """Rates of the application in past slots, oldest first, from which the plan is made before the first decision."""
    replan_every_s: Seconds = 3600.0
    """How often the plan is made anew with the rates seen since; 0 keeps the first one."""


@register
class Mdp(SlottedPolicy[MdpSettings]):
    """Plans the sizes of all operators together by value iteration, from how rates followed each other.

    The response time is that of M/D/1 queues along the longest way through the graph; the penalty of a slot is taken at
    the rate that arrives in it, which is known only in probability. Without a history it counts as it goes, makes its
    first plan when ``replan_every_s`` has passed, and a threshold policy acts until a load has been seen often enough.

    >>> from headgate.core.objective import parse_objective
    >>> from headgate.policies import Sample
    >>> from headgate.testing import last_target
    >>> within = parse_objective("latency < 1s").within(1, 5)
    >>> history = [5, 30] * 20
    >>> target = last_target(
    ...     "mdp", within, 3, Sample("job", 60, input_rate_per_s=5), service_rate_per_s=10, rate_history_per_s=history
    ... )
    >>> target.instances, target.reason
    (4, 'at 5 records/s the cheapest plan is to add one')
    """

    name = "mdp"
    summary = "Plans all operators together by value iteration over known rate transitions."
    Settings = MdpSettings

    def __init__(self, settings: MdpSettings, context: Context) -> None:
        super().__init__(settings, context)
        bounds = context.objective
        require_few_configurations(len(context.topology.operators), bounds.min_instances, bounds.max_instances)

    def _make_planner(self, application: ApplicationModel, grids: tuple[RateGrid, ...]) -> Planner:
        (grid,) = grids
        return ExactPlanner(
            application,
            grid,
            replan_every=round(self.settings.replan_every_s / self.settings.slot_s),
            discount=self.settings.discount,
        )

    def _prepare(self, planner: Planner, grids: tuple[RateGrid, ...], *, is_first: bool) -> None:
        if not isinstance(planner, ExactPlanner):
            return
        if not is_first:
            # Otherwise the new speeds are taken in at the next plan.
            if not self.settings.replan_every_s:
                planner.solve()
        elif self.settings.rate_history_per_s:
            planner.study([grids[0].level_of(rate) for rate in self.settings.rate_history_per_s])

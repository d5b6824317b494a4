"""mdp-path: a plan along one chain of nested configurations, for graphs too large for an exact one."""

from __future__ import annotations

from typing import Literal

from headgate.policies.frame.base import register
from headgate.policies.planning.model import ApplicationModel, Planner, RateGrid
from headgate.policies.planning.path import PathPlanner
from headgate.policies.planning.slotted import LearningRate, SlottedPolicy, SlottedSettings, Sweeps


class MdpPathSettings(SlottedSettings):
    response_time: Literal["known", "learned"] = "known"
    """Whether violations are computed from the operators' speed, or learned from those that happen."""
    rate_history_per_s: tuple[float, ...] = ()
    """Rates of the application in past slots, oldest first, from which a plan is made before the first decision."""
    learning_rate: LearningRate = 0.1
    """How fast what is learned of violations follows what happens (α)."""
    sweeps_per_slot: Sweeps = 20
    """Iterations of value iteration after each slot."""


@register
class MdpPath(SlottedPolicy[MdpPathSettings]):
    """Plans over (rate, place on a chain) instead of over the sizes of all operators.

    The chain leads from the smallest to the largest configuration; each step adds the instance that lets the most load
    be carried within the bound. With a history, neighbouring steps are swapped while that makes the plan cheaper. The
    chain has N(K−1)+1 places where there are K^N configurations, so it plans for dozens of operators, and in every case
    that could be compared its plan cost the same as the exact one.

    >>> from headgate.core.objective import parse_objective
    >>> from headgate.core.topology import Topology
    >>> from headgate.core.types import Instances, Observation, Sample
    >>> from headgate.core.window import History
    >>> from headgate.policies import Context, make_policy
    >>> graph = Topology.of(("parse", "join"))
    >>> settings = {"service_rate_per_s": {"parse": 10, "join": 5}, "rate_history_per_s": [12] * 30}
    >>> policy = make_policy("mdp-path", Context(parse_objective("latency < 1s").within(1, 5), graph), settings)
    >>> history = History(graph)
    >>> samples = {name: Sample(name, 60, input_rate_per_s=12) for name in graph.operators}
    >>> history.observe(Observation(60, samples, {name: Instances(2, 2, 2) for name in graph.operators}))
    >>> {name: target.instances for name, target in policy.decide(60, history).targets.items()}
    {'parse': 2, 'join': 3}
    """

    name = "mdp-path"
    summary = (
        "Plans many operators together along one chain of configurations; near the exact plan at a fraction of it."
    )
    Settings = MdpPathSettings

    def _make_planner(self, application: ApplicationModel, grids: tuple[RateGrid, ...]) -> Planner:
        (grid,) = grids
        settings = self.settings
        return PathPlanner(
            application,
            grid,
            known=settings.response_time == "known",
            discount=settings.discount,
            learning_rate=settings.learning_rate,
            sweeps=settings.sweeps_per_slot,
        )

    def _prepare(self, planner: Planner, grids: tuple[RateGrid, ...], *, is_first: bool) -> None:
        if is_first and self.settings.rate_history_per_s and isinstance(planner, PathPlanner):
            planner.study([grids[0].level_of(rate) for rate in self.settings.rate_history_per_s])

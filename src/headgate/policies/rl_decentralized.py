"""rl-decentralized: one agent per operator, each with a plan of its own (russo §2 and 3, eq. 2), and beyond."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from headgate.core.types import Number
from headgate.policies.frame.base import register
from headgate.policies.frame.settings import Seconds
from headgate.policies.planning.agents import CANDIDATES, AgentsPlanner
from headgate.policies.planning.model import ApplicationModel, Planner, RateGrid
from headgate.policies.planning.slotted import (
    LearningRate,
    SlotReading,
    SlottedPolicy,
    SlottedSettings,
    Sweeps,
    quantum_of,
)

_DEFAULT_TARGET = 0.7
"""The best of the document's three."""


class Coordination(StrEnum):
    """What the agents of an application share."""

    NONE = "none"
    TOGETHER = "together"


class RlDecentralizedSettings(SlottedSettings):
    coordination: Coordination = Coordination.NONE
    """``none``: each agent decides alone by its local cost, as in the document; ``together``: all agents that want to
    change do so at once or none does, and their target is the one with the lowest cost of the whole application."""
    target_utilization: Annotated[float, Field(gt=0, le=1)] | None = None
    """How busy an operator may be before its agent counts a penalty; without it 0.7, or with ``coordination=together``
    the best of nine."""
    utilization: Literal["known", "learned"] = "known"
    """Whether the penalty is computed from the operator's speed, or learned from readings of how busy it was."""
    learning_rate: LearningRate = 0.1
    """How fast a learned penalty follows what happens (α)."""
    sweeps_per_slot: Sweeps = 1
    """Iterations of value iteration after each slot."""
    compare_over_s: Annotated[Seconds, Field(gt=0)] = 604_800.0
    """Over how long the candidates for the target are compared, with ``coordination=together``."""


@register
class RlDecentralized(SlottedPolicy[RlDecentralizedSettings]):
    """Lets an agent per operator plan over its own rate and its own size, with a penalty above a target utilisation.

    By default agents know nothing of each other and each decides by its local cost (eq. 2), as in the document.
    ``coordination=together`` is not decentralised any more: for each of nine targets shadow agents follow the same
    load, and the target whose agents would have cost the application least is in force; each agent reports what its
    best move would save, and all move if the savings exceed the cost of one reconfiguration of the application.

    >>> from headgate.core.objective import parse_objective
    >>> from headgate.policies import Sample
    >>> from headgate.testing import last_target
    >>> within = parse_objective("latency < 1s").within(1, 5)
    >>> readings = [Sample("job", 60 * slot, input_rate_per_s=24) for slot in range(1, 5)]
    >>> settings = {"service_rate_per_s": 10, "trusted_visits": 3}
    >>> target = last_target("rl-decentralized", within, 3, *readings, **settings)
    >>> target.instances, target.numbers["target_utilization"]
    (4, 0.7)
    """

    name = "rl-decentralized"
    summary = "Lets one learning agent per operator plan its size by its local cost; they can act together."
    Settings = RlDecentralizedSettings

    def _make_planner(self, application: ApplicationModel, grids: tuple[RateGrid, ...]) -> Planner:
        settings = self.settings
        return AgentsPlanner(
            application,
            grids,
            targets=self._targets(),
            together=settings.coordination is Coordination.TOGETHER,
            known=settings.utilization == "known",
            discount=settings.discount,
            learning_rate=settings.learning_rate,
            sweeps=settings.sweeps_per_slot,
            memory_slots=max(1.0, settings.compare_over_s / settings.slot_s),
        )

    def _targets(self) -> tuple[float, ...]:
        if self.settings.target_utilization is not None:
            return (self.settings.target_utilization,)
        return CANDIDATES if self.settings.coordination is Coordination.TOGETHER else (_DEFAULT_TARGET,)

    def _make_grids(self, application: ApplicationModel) -> tuple[RateGrid, ...]:
        return tuple(
            RateGrid.up_to(application.max_instances * speed, quantum_of(self.settings, speed))
            for speed in application.service_rates_per_s
        )

    def _rates_planned_on(self, slot: SlotReading) -> tuple[float, ...]:
        return tuple(slot.rates_per_s[name] for name in self.topology.operators)

    def _draining_per_s(self, slot: SlotReading) -> tuple[float, ...]:
        if not self.settings.drain_within_s:
            return (0.0,) * len(self.topology.operators)
        return tuple(slot.waiting.get(name, 0.0) / self.settings.drain_within_s for name in self.topology.operators)

    def _largest_loads_per_s(self) -> tuple[float, ...]:
        application, planner = self._application, self._planner
        if application is None or not isinstance(planner, AgentsPlanner):
            return (0.0,) * len(self.topology.operators)
        # Above its target an agent sees no difference between sizes.
        return tuple(planner.target * application.max_instances * speed for speed in application.service_rates_per_s)

    def _needed(self) -> tuple[str, ...]:
        return self.topology.operators

    def _reason(self, operator: str) -> Mapping[str, Number]:
        planner = self._planner
        target = planner.target if isinstance(planner, AgentsPlanner) else None
        return {**super()._reason(operator), "target_utilization": target}

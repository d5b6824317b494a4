"""The settings of the guards, and the guards made from them in their fixed order (see ``core/guards.py``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from headgate.core.affordable import Affordable
from headgate.core.contracts import Guard
from headgate.core.guards import (
    AllowedSizes,
    Attainable,
    Bounds,
    GuardTimes,
    HoldWhilePending,
    HoldWhileRecovering,
    Hysteresis,
    Monotonicity,
    NeverInBlind,
    StepLimit,
    Strategy,
    StrategyKind,
    Together,
    Useful,
)
from headgate.core.objective import Objective
from headgate.core.topology import Topology
from headgate.policies.frame.settings import Seconds, Settings

Gain = Annotated[float, Field(gt=0, le=1)]
Count = Annotated[int, Field(ge=1)]
RETRY_FACTOR = 5
"""A cluster that gave less than it was asked for is asked again after so many time-outs."""


class GuardSettings(Settings):
    """What stabilises a policy. Bounds come from the objective."""

    strategy: StrategyKind = StrategyKind.AS_PROPOSED
    """How many instances a change is made of: as the policy proposed, or a strategy that takes only its direction."""
    granularity: Count = 1
    """Instances per step of a strategy."""
    max_out: Count | None = None
    """Largest number of instances added by one decision."""
    max_in: Count | None = None
    """Largest number of instances removed by one decision."""
    gain_out: Gain = 1.0
    """Share of the way to go at once when growing."""
    gain_in: Gain = 1.0
    """Share of the way to go at once when shrinking."""
    out_after_out_s: Seconds = 0.0
    """Least time between a scale-out and the next scale-out."""
    out_after_in_s: Seconds = 0.0
    """Least time between a scale-in and a scale-out."""
    in_after_out_s: Seconds = 0.0
    """Least time between a scale-out and a scale-in."""
    in_after_in_s: Seconds = 0.0
    """Least time between a scale-in and the next scale-in."""
    monotonicity: bool = False
    """Forbid a scale-in when latency rose after a scale-out, and a scale-out when it fell after a scale-in."""
    pending_timeout_s: Seconds = 120.0
    """Longest hold for instances that were asked for and have not come, or have not gone; then the plan comes back to
    what the cluster gives."""
    recovery_timeout_s: Seconds = 60.0
    """Longest hold for a job that has not settled after a change of size."""
    growth_waits: bool = False
    """Whether growing waits for both of these, too, as shrinking does."""
    stale_after_s: Seconds = 60.0
    """A newest reading older than this forbids scaling in."""

    def build(self, objective: Objective, topology: Topology | None = None) -> tuple[Guard, ...]:
        """The guards that are in use, in their order; one that is switched off is left out."""
        topology = topology or Topology.single()
        lowest, highest = objective.min_instances, objective.max_instances
        own = {name: objective.bounds_of(name, topology) for name in topology.sizing}
        allowed = {name: sizing.allowed for name, sizing in topology.sizing.items() if sizing.allowed is not None}
        grouped = any(sizing.group is not None for sizing in topology.sizing.values())
        guards: tuple[Guard | None, ...] = (
            Bounds(lowest, highest, own),
            Useful(),
            None
            if self.strategy is StrategyKind.AS_PROPOSED
            else Strategy(self.strategy, self.granularity, lowest, highest, own),
            StepLimit(self.max_out, self.max_in) if self.max_out or self.max_in else None,
            Hysteresis(self.gain_out, self.gain_in) if min(self.gain_out, self.gain_in) < 1 else None,
            AllowedSizes(allowed) if allowed else None,
            _affordable(objective, topology, allowed),
            GuardTimes(self.out_after_out_s, self.out_after_in_s, self.in_after_out_s, self.in_after_in_s)
            if any((self.out_after_out_s, self.out_after_in_s, self.in_after_out_s, self.in_after_in_s))
            else None,
            Monotonicity() if self.monotonicity else None,
            HoldWhilePending(self.pending_timeout_s, self.growth_waits) if self.pending_timeout_s else None,
            HoldWhileRecovering(self.recovery_timeout_s, self.growth_waits) if self.recovery_timeout_s else None,
            NeverInBlind(self.stale_after_s),
            Together() if grouped else None,
            Attainable(self.pending_timeout_s, RETRY_FACTOR * self.pending_timeout_s, lowest, own)
            if self.pending_timeout_s
            else None,
        )
        return tuple(guard for guard in guards if guard is not None)


def _affordable(objective: Objective, topology: Topology, allowed: Mapping[str, tuple[int, ...]]) -> Guard | None:
    if objective.cost is None:
        return None
    smallest = {name: objective.bounds_of(name, topology)[0] for name in topology.operators}
    return Affordable(objective.cost, objective.prices(topology), smallest, allowed)

"""The default behaviour of autoscaling/v2: growth is limited per period, shrinking waits for a window.

Source: the Kubernetes documentation and ``pkg/controller/podautoscaler`` (stabilisation, rates).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import takewhile
from typing import Annotated

from pydantic import Field

from headgate.core.types import JSON, Instances, Instant, Number, Target
from headgate.core.units import format_duration
from headgate.core.window import Window
from headgate.policies.frame.base import hold
from headgate.policies.frame.recommendations import Recommendations
from headgate.policies.frame.settings import Seconds, Settings, Share


class BehaviourSettings(Settings):
    tolerance: Share = 0.1
    """No change while metric / target is within this of 1."""
    scale_in_window_s: Seconds = 300.0
    """Scale in to no less than the largest recommendation of this long (``stabilizationWindowSeconds``)."""
    out_instances: Annotated[int, Field(ge=0)] = 4
    """Instances that may be added per period; the larger of this and ``out_share`` counts."""
    out_share: Annotated[float, Field(ge=0)] = 1.0
    """Share of the size that may be added per period; 1 doubles it."""
    out_period_s: Seconds = 15.0
    """The period of the two limits above."""


class Behaviour:
    """Makes the size that is wanted from the one that is recommended, and remembers what was recommended lately."""

    def __init__(self, settings: BehaviourSettings) -> None:
        self._settings = settings
        self._lately: dict[str, Recommendations] = {}

    def tolerates(self, ratio: float) -> bool:
        """Whether a metric of so much of its target is no reason to change anything."""
        # Ratios such as 0.98 / 0.7 are not exact in binary.
        return round(abs(1 - ratio), 9) <= self._settings.tolerance

    def apply(self, now: Instant, window: Window, operator: str, instances: Instances, recommended: Target) -> Target:
        """What is left of a recommendation, whose reason says where it comes from."""
        wanted, planned = recommended.instances, instances.planned
        lately = self._lately.setdefault(operator, Recommendations())
        largest = lately.largest(now, self._settings.scale_in_window_s, wanted, planned)
        if wanted > planned:
            return self._grown(now, window, operator, instances, recommended)
        if wanted == planned:
            return hold(instances, "steady", f"{recommended.reason}: keeping {planned} instances", recommended.numbers)
        stabilised = min(planned, largest)
        numbers: dict[str, Number] = {**recommended.numbers, "stabilised": stabilised}
        told = f"{recommended.reason}: {wanted} instances would do"
        needed = f"{stabilised} were needed within the last {format_duration(self._settings.scale_in_window_s)}"
        if stabilised == planned:
            return hold(instances, "stabilising", f"{told}, but {needed}", numbers)
        return Target(stabilised, "below-target", told if stabilised == wanted else f"{told}, {needed}", numbers)

    def _grown(self, now: Instant, window: Window, operator: str, instances: Instances, wanted: Target) -> Target:
        settings = self._settings
        period = takewhile(lambda decision: decision.at_s > now - settings.out_period_s, reversed(window.decisions))
        before = instances.planned - sum(d.verdicts[operator].change for d in period if operator in d.verdicts)
        limit = max(before + settings.out_instances, math.ceil(round(before * (1 + settings.out_share), 9)))
        told = f"{wanted.reason}: {instances.ready} ready instances make it {wanted.instances}"
        if wanted.instances <= limit:
            return Target(wanted.instances, "above-target", told, wanted.numbers)
        limit = max(limit, instances.planned)
        told = f"{told}, limited to {limit} within {format_duration(settings.out_period_s)}"
        return Target(limit, "rate-limited", told, {**wanted.numbers, "limit": limit})

    def to_json(self) -> dict[str, JSON]:
        return {name: lately.to_json() for name, lately in self._lately.items()}

    def restore(self, saved: Mapping[str, JSON]) -> None:
        self._lately = {str(name): Recommendations.from_json(kept) for name, kept in saved.items()}

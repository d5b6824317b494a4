"""threshold: act when a metric stays beyond a bound for a while (azimi Alg. 2, and the four bounds of §6.1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Annotated, Self

from pydantic import Field, model_validator

from headgate.core.metrics import BASIC_METRICS
from headgate.core.types import Instances, Instant, Number, Sample, Target
from headgate.core.units import format_duration, plain
from headgate.core.window import DEFAULT_RETENTION_S, Window
from headgate.policies.frame.base import Context, OperatorPolicy, hold, register
from headgate.policies.frame.readings import BUSY_SHARE, reading_of, readings_over
from headgate.policies.frame.settings import Seconds, Settings

Count = Annotated[int, Field(ge=1)]


class ThresholdSettings(Settings):
    metric: str = BUSY_SHARE
    """What is compared: ``busy_share`` (processing time over trigger interval, else utilization), another metric of a
    sample such as ``latency_s`` or ``backlog``, or one of your own."""
    upper: float = 0.8
    """Scale out when the metric stays above this."""
    lower: float = 0.3
    """Scale in when the metric stays below this."""
    below_upper: float | None = None
    """Slightly below the upper bound: with it, staying above this is as good a reason to scale out (ThrBelowUpper)."""
    above_lower: float | None = None
    """Slightly above the lower bound: with it, staying below this is as good a reason to scale in (ThrAboveLower)."""
    upper_for_s: Seconds = 30.0
    """How long the metric must have been above the upper bound, or the one below it."""
    lower_for_s: Seconds = 120.0
    """How long the metric must have been below the lower bound, or the one above it."""
    add: Count = 1
    """Instances to add at a time."""
    remove: Count = 1
    """Instances to remove at a time."""
    grace_period_s: Seconds = 60.0
    """How long to do nothing after a change of size."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        bounds = {"lower": self.lower, "above_lower": self.above_lower}
        bounds |= {"below_upper": self.below_upper, "upper": self.upper}
        known = [(name, value) for name, value in bounds.items() if value is not None]
        for (name, value), (next_name, next_value) in pairwise(known):
            if not value < next_value:
                raise ValueError(f"{name} {value:g} must be below {next_name} {next_value:g}")
        return self

    @property
    def out_above(self) -> float:
        """Staying above this is a reason to scale out."""
        return self.upper if self.below_upper is None else self.below_upper

    @property
    def in_below(self) -> float:
        """Staying below this is a reason to scale in."""
        return self.lower if self.above_lower is None else self.above_lower


@register
class Threshold(OperatorPolicy[ThresholdSettings]):
    """Adds instances when a metric stays above a bound for a time, and removes some when it stays below another.

    A bound counts as held when every reading of the period is beyond it, the readings span the period, and all were
    taken at the present size. A reading without the metric is skipped when growing; it breaks a period of shrinking.
    Readings that were made while instances warmed up count for growing only.

    With four bounds, a metric that stays between ``below_upper`` and ``upper`` for its time is a reason to scale out,
    and one between ``lower`` and ``above_lower`` to scale in: load that lasts is acted on before it is extreme, and a
    dip back over the outer bound does not start its time anew. The document has the metric between the two bounds; one
    that lies beyond both is a better reason still, so it counts as well.

    >>> from headgate.policies import Sample
    >>> from headgate.testing import last_target
    >>> readings = [Sample("job", at_s, utilization=0.95) for at_s in (0, 10, 20)]
    >>> target = last_target("threshold", "latency < 10s", 2, *readings, upper_for_s="20s")
    >>> target.instances, target.reason
    (3, 'busy_share 0.95 has been above 0.8 for 20s')
    """

    name = "threshold"
    summary = "Adds or removes instances when a metric stays beyond a bound for a time."
    Settings = ThresholdSettings

    def __init__(self, settings: ThresholdSettings, context: Context) -> None:
        super().__init__(settings, context)
        self.subscriptions = frozenset({settings.metric}) - BASIC_METRICS
        self.lookback_s = max(DEFAULT_RETENTION_S, 2 * settings.upper_for_s, 2 * settings.lower_for_s)

    def size(self, now: Instant, window: Window, operator: str, instances: Instances, sample: Sample) -> Target:
        bounds = self.settings
        value = reading_of(sample, bounds.metric)
        numbers: dict[str, Number] = {bounds.metric: value, "upper": bounds.out_above, "lower": bounds.in_below}
        if value is None:
            return hold(instances, "no-data", f"the newest reading has no {bounds.metric}: holding", numbers)
        change = window.last_change(operator)
        if change is not None and now - change.at_s < bounds.grace_period_s:
            reason = f"the size changed {format_duration(now - change.at_s)} ago"
            reason = f"{reason}: doing nothing for a grace period of {format_duration(bounds.grace_period_s)}"
            return hold(instances, "grace-period", reason, numbers)
        reason = f"{bounds.metric} {plain(value)}"
        above, below = bounds.out_above, bounds.in_below
        if value > above:
            long = format_duration(bounds.upper_for_s)
            readings = readings_over(window, operator, bounds.upper_for_s, settled=False)
            if self._all(readings, lambda v: v is None or v > above):
                reason = f"{reason} has been above {plain(above)} for {long}"
                code = "above-upper" if value > bounds.upper else "near-upper"
                return Target(instances.planned + bounds.add, code, reason, numbers)
            return hold(instances, "waiting", f"{reason} is above {plain(above)}, not yet for {long}", numbers)
        if value < below:
            long = format_duration(bounds.lower_for_s)
            readings = readings_over(window, operator, bounds.lower_for_s)
            if self._all(readings, lambda v: v is not None and v < below):
                reason = f"{reason} has been below {plain(below)} for {long}"
                code = "below-lower" if value < bounds.lower else "near-lower"
                return Target(instances.planned - bounds.remove, code, reason, numbers)
            return hold(instances, "waiting", f"{reason} is below {plain(below)}, not yet for {long}", numbers)
        return hold(instances, "steady", f"{reason} lies between {plain(below)} and {plain(above)}", numbers)

    def _all(self, readings: Sequence[Sample], beyond: Callable[[float | None], bool]) -> bool:
        return bool(readings) and all(beyond(reading_of(reading, self.settings.metric)) for reading in readings)

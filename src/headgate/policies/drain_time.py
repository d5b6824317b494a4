"""drain-time: grow when what waits takes too long to work off, shrink when instances are idle, as Beam on Flink does.

Source: "Behind the Scenes: Crafting an Autoscaler for Apache Beam in a High-Volume Streaming Environment" (Apache Beam
blog, 2024), whose thresholds these are, after "Streaming auto-scaling in Google Cloud Dataflow" (QCon London 2016).
"""

from __future__ import annotations

import math
from typing import Annotated, Self

from pydantic import Field, model_validator

from headgate.core.types import Instances, Instant, Number, Sample, Target
from headgate.core.units import format_duration, plain
from headgate.core.window import Window
from headgate.policies.frame.base import OperatorPolicy, hold, register
from headgate.policies.frame.readings import flow_over
from headgate.policies.frame.settings import PositiveSeconds, Seconds, Settings, Share

Busy = Annotated[float, Field(gt=0, le=1)]


class DrainTimeSettings(Settings):
    out_above_drain_s: Seconds = 120.0
    """Grow when what waits would take longer than this to work off."""
    out_above_busy: Busy = 0.9
    """Grow, too, when instances are busy for more than this share of the time."""
    in_below_drain_s: Seconds = 10.0
    """Shrink only when what waits would be worked off sooner than this."""
    in_below_busy: Busy = 0.7
    """Shrink only when instances are busy for less than this share, and to where they would be busy for this share."""
    catch_up_s: PositiveSeconds = 60.0
    """Within this time what waits is to be worked off after growing."""
    signal_window_s: PositiveSeconds = 60.0
    """The time that throughput, growth and busy share are means of; the source does not say."""
    growth_tolerance: Share = 0.05
    """A backlog that grows by less than this share of the throughput counts as steady: it swings with every batch."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if not self.in_below_busy < self.out_above_busy:
            raise ValueError(
                f"in_below_busy {self.in_below_busy:g} must be below out_above_busy {self.out_above_busy:g}"
            )
        if not self.in_below_drain_s <= self.out_above_drain_s:
            raise ValueError(
                f"in_below_drain_s {self.in_below_drain_s:g} must not be above out_above_drain_s "
                f"{self.out_above_drain_s:g}"
            )
        return self


@register
class DrainTime(OperatorPolicy[DrainTimeSettings]):
    """Sizes by throughput, growth of the backlog, the time to drain it, and how busy instances are.

    - Growing: ``ready · (throughput + growth) / throughput`` to keep up, and ``ready · drain time / catch_up_s`` on top
      to catch up.
    - Shrinking: by how busy instances are and nothing else, when nothing waits that matters.

    >>> from headgate.policies import Sample
    >>> from headgate.testing import last_target
    >>> readings = [
    ...     Sample("job", at_s, input_rate_per_s=150, backlog=50 * at_s, utilization=1.0) for at_s in (0, 30, 60)
    ... ]
    >>> target = last_target("drain-time", "latency < 10s", 4, *readings)
    >>> target.instances, target.reason.split("; ")[1]
    (8, 'to keep up with 50/s more and to work off 30s of backlog within 60s takes 8')
    """

    name = "drain-time"
    summary = "Grows by the time that it takes to work off the backlog, shrinks by idle time."
    Settings = DrainTimeSettings

    def size(self, now: Instant, window: Window, operator: str, instances: Instances, sample: Sample) -> Target:
        settings = self.settings
        settled_s = window.settled_since_s(operator)
        from_s = max(now - settings.signal_window_s, -math.inf if settled_s is None else settled_s)
        busy = _mean([reading.utilization for reading in window.samples(operator, from_s) if reading.at_s > from_s])
        flow = flow_over(window, operator, instances, from_s)
        throughput, growth, backlog = flow.done_per_s, flow.growth_per_s, flow.backlog
        numbers: dict[str, Number] = {"throughput_per_s": throughput, "growth_per_s": growth, "backlog": backlog}
        numbers["busy_share"] = busy
        if throughput is None or growth is None or backlog is None:
            reason = "what gets done, or what waits, is not known at this size yet: holding"
            return hold(instances, "no-data", reason, numbers)
        if throughput <= 0 < backlog:
            return hold(instances, "stalled", f"{plain(backlog)} records wait and none gets done: holding", numbers)
        drain_s = backlog / throughput if backlog else 0.0
        grows = growth > settings.growth_tolerance * throughput
        numbers |= {"drain_s": drain_s}
        if drain_s > settings.out_above_drain_s or (busy is not None and busy > settings.out_above_busy):
            more_per_s = growth if grows else 0.0
            return self._grow(instances, busy, throughput, more_per_s, drain_s, numbers)
        waits = f"{format_duration(round(drain_s, 1))} of backlog"
        if busy is None or sample.utilization is None:
            return hold(instances, "steady", f"{waits}; how busy instances are is not known", numbers)
        reason = f"{_share(busy)} busy, with {waits}"
        if busy >= settings.in_below_busy or grows or drain_s >= settings.in_below_drain_s:
            return hold(instances, "steady", reason, numbers)
        wanted = max(1, math.ceil(round(instances.ready * busy / settings.in_below_busy, 9)))
        numbers |= {"needed": wanted}
        reason = f"{reason}; {wanted} would be no more than {_share(settings.in_below_busy)} busy"
        if wanted >= instances.planned:
            return hold(instances, "steady", reason, numbers)
        return Target(wanted, "idle", reason, numbers)

    def _grow(
        self,
        instances: Instances,
        busy: float | None,
        throughput_per_s: float,
        more_per_s: float,
        drain_s: float,
        numbers: dict[str, Number],
    ) -> Target:
        keeps_up = 1 + more_per_s / throughput_per_s if more_per_s else 1.0
        wanted = math.ceil(round(instances.ready * (keeps_up + drain_s / self.settings.catch_up_s), 9))
        numbers |= {"needed": wanted}
        reason = f"{plain(throughput_per_s)} records/s get done"
        reason = reason if busy is None else f"{_share(busy)} busy while {reason}"
        more = f"to keep up with {plain(more_per_s)}/s more and " if more_per_s else ""
        waits, within = format_duration(round(drain_s, 1)), format_duration(self.settings.catch_up_s)
        reason = f"{reason}; {more}to work off {waits} of backlog within {within} takes {wanted}"
        if wanted > instances.planned:
            return Target(wanted, "drains-too-slowly", reason, numbers)
        return hold(instances, "growing", f"{reason}, and {instances.planned} are planned", numbers)


def _share(share: float) -> str:
    return f"{plain(100 * share)}%"


def _mean(values: list[float | None]) -> float | None:
    known = [float(value) for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None

"""spark-streaming-dra: what Spark's own dynamic allocation does for DStreams, as a baseline.

Source: ``org.apache.spark.streaming.scheduler.ExecutorAllocationManager`` of Apache Spark.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import Field, model_validator

from headgate.core.types import JSON, Instances, Instant, Number, Sample, Target
from headgate.core.units import format_duration, plain
from headgate.core.window import DEFAULT_RETENTION_S, Window
from headgate.policies.frame.base import Context, GuardSettings, OperatorPolicy, hold, register
from headgate.policies.frame.readings import busy_share
from headgate.policies.frame.settings import Seconds, Settings

Ratio = Annotated[float, Field(gt=0)]


class SparkStreamingDraSettings(Settings):
    interval_s: Seconds = 60.0
    """Time between two looks at the ratio (``spark.streaming.dynamicAllocation.scalingInterval``)."""
    up_ratio: Ratio = 0.9
    """Scale out from this ratio upwards (``….scalingUpRatio``)."""
    down_ratio: Ratio = 0.3
    """Scale in from this ratio downwards (``….scalingDownRatio``)."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if not self.down_ratio < self.up_ratio:
            raise ValueError(f"down_ratio {self.down_ratio:g} must be below up_ratio {self.up_ratio:g}")
        return self


@register
class SparkStreamingDra(OperatorPolicy[SparkStreamingDraSettings]):
    """Once per interval, compares the mean processing time of the batches since the last look to the batch interval.

    A ratio of ``up_ratio`` or more adds as many instances as the rounded ratio says, at least one; ``down_ratio`` or
    less removes one. Only batches that ended count, each as much as another; without any, nothing is done. Of an
    engine that does not report batches the mean of the readings is the ratio: readings that do not tell it are left out
    and forbid a scale-in. Spark adds to the executors that live, here it is to those planned:
    otherwise a slow start of executors would turn a scale-out into a smaller target.

    >>> from headgate.policies import Sample
    >>> from headgate.testing import last_target
    >>> readings = [Sample("job", at_s, processing_time_s=16, trigger_interval_s=10) for at_s in (0, 30, 60)]
    >>> target = last_target("spark-streaming-dra", "latency < 10s", 2, *readings)
    >>> target.instances, target.reason
    (4, 'batches took 1.6 of their interval, from 0.9 on it grows by 2')
    """

    name = "spark-streaming-dra"
    summary = "Spark's dynamic allocation for DStreams: batch processing time over batch interval."
    Settings = SparkStreamingDraSettings
    # Spark's own waits for nothing but its interval.
    guards = GuardSettings(pending_timeout_s=0, recovery_timeout_s=0)

    def __init__(self, settings: SparkStreamingDraSettings, context: Context) -> None:
        super().__init__(settings, context)
        self.lookback_s = max(DEFAULT_RETENTION_S, 2 * settings.interval_s)
        self._checked_s: dict[str, Instant] = {}

    def size(self, now: Instant, window: Window, operator: str, instances: Instances, sample: Sample) -> Target:
        # State that was saved on another clock may lie ahead of this one.
        checked_s = min(self._checked_s.setdefault(operator, now), now)
        self._checked_s[operator] = checked_s
        interval_s = self.settings.interval_s
        if now - checked_s < interval_s:
            next_in = format_duration(checked_s + interval_s - now)
            return hold(instances, "between-looks", f"looks every {format_duration(interval_s)}, next in {next_in}")
        self._checked_s[operator] = now
        readings = [reading for reading in window.samples(operator, checked_s) if reading.at_s > checked_s]
        if any(reading.batch_ended_s is not None or reading.batches for reading in readings):
            return self._by_batches(instances, window, operator, checked_s)
        shares = [busy_share(reading) for reading in readings]
        known = [share for share in shares if share is not None]
        if not known:
            return hold(instances, "no-data", "neither processing time nor utilization is known: holding")
        return self._by_ratio(instances, sum(known) / len(known), partial=len(known) < len(shares))

    def _by_batches(self, instances: Instances, window: Window, operator: str, since_s: Instant) -> Target:
        """Decide by the batches that ended since the last look, as Spark does."""
        ended = [batch for batch in window.batches(operator, since_s) if batch.trigger_interval_s > 0]
        if not ended:
            return hold(instances, "no-batch", "no batch has ended since the last look: holding")
        shares = [batch.processing_time_s / batch.trigger_interval_s for batch in ended]
        return self._by_ratio(instances, sum(shares) / len(shares), partial=False)

    def _by_ratio(self, instances: Instances, ratio: float, *, partial: bool) -> Target:
        up, down = self.settings.up_ratio, self.settings.down_ratio
        numbers: dict[str, Number] = {"ratio": ratio, "up_ratio": up, "down_ratio": down}
        reason = f"batches took {plain(ratio)} of their interval"
        if ratio >= up:
            # Halves go up, as in Java; Python's round would go to the even one.
            more = max(math.floor(ratio + 0.5), 1)
            reason = f"{reason}, from {plain(up)} on it grows by {more}"
            return Target(instances.planned + more, "ratio-high", reason, {**numbers, "add": more})
        if ratio <= down:
            if partial:
                reason = f"{reason}, but some readings are missing: no scale-in"
                return hold(instances, "partial-data", reason, numbers)
            return Target(instances.planned - 1, "ratio-low", f"{reason}, up to {plain(down)} one is removed", numbers)
        return hold(instances, "steady", f"{reason}, between {plain(down)} and {plain(up)}", numbers)

    def _state(self) -> dict[str, JSON]:
        return {"looked_s": dict(self._checked_s)}

    def _restore_state(self, state: Mapping[str, JSON]) -> None:
        self._checked_s = {str(operator): float(at_s) for operator, at_s in state["looked_s"].items()}

"""trigger-ratio: keep a batch as long as its trigger interval, as a library for Structured Streaming does.

Source: Elastic Scaling for Spark (AmadeusITGroup/Elastic-Scaling), after "Auto Scaling Systems With Elastic Spark
Streaming" (Spark Summit 2016); its defaults are those below.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Self

from pydantic import Field, model_validator

from headgate.core.types import JSON, Instances, Instant, Number, Sample, Target
from headgate.core.units import plain
from headgate.core.window import Window
from headgate.policies.frame.base import Context, OperatorPolicy, hold, register
from headgate.policies.frame.settings import PositiveSeconds, Settings


class TriggerRatioSettings(Settings):
    threshold_high: Annotated[float, Field(gt=0)] = 1.0
    """Grow when the mean ratio is above this (``threshold.high``)."""
    threshold_low: Annotated[float, Field(ge=0)] = 0.75
    """Shrink when the mean ratio is below this (``threshold.low``)."""
    smoothing_factor: Annotated[float, Field(ge=0, lt=1)] = 0.6
    """What the batches before count against the newest one, each by this less than the one after it
    (``smoothing_factor``)."""
    batch_duration_s: PositiveSeconds | None = None
    """What a batch may take; without it, its trigger interval."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if not self.threshold_low < self.threshold_high:
            raise ValueError(
                f"threshold_low {self.threshold_low:g} must be below threshold_high {self.threshold_high:g}"
            )
        return self


@dataclass(slots=True)
class _Occupation:
    """The mean ratio of one operator: it begins with one batch that was exactly as long as it may be."""

    total: float = 1.0
    weight: float = 1.0
    seen_s: Instant = -math.inf

    def add(self, ratio: float, smoothing_factor: float) -> None:
        self.total = self.total * smoothing_factor + ratio
        self.weight = self.weight * smoothing_factor + 1

    @property
    def mean(self) -> float:
        return self.total / self.weight


@register
class TriggerRatio(OperatorPolicy[TriggerRatioSettings]):
    """Smooths what batches took over what they may take, and goes to ``ceil(ready · ratio)`` outside of a band.

    One change at a time: nothing is requested while instances come or go. Batches without records are ignored, so a job
    without arrivals keeps its size.

    >>> from headgate.policies import Sample
    >>> from headgate.testing import last_target
    >>> readings = [Sample("job", at_s, processing_time_s=15, trigger_interval_s=10) for at_s in (0, 10, 20)]
    >>> target = last_target("trigger-ratio", "latency < 10s", 4, *readings)
    >>> target.instances, target.reason
    (6, 'batches take 1.45 of the time they may take, which lies outside 0.75 to 1')
    """

    name = "trigger-ratio"
    summary = "Keeps batches just shorter than their trigger interval."
    Settings = TriggerRatioSettings

    def __init__(self, settings: TriggerRatioSettings, context: Context) -> None:
        super().__init__(settings, context)
        self._occupations: dict[str, _Occupation] = {}

    def size(self, now: Instant, window: Window, operator: str, instances: Instances, sample: Sample) -> Target:
        occupation = self._occupations.setdefault(operator, _Occupation())
        # State that was saved on another clock may lie ahead of this one.
        occupation.seen_s = min(occupation.seen_s, now)
        for at_s, ratio in self._ratios(window, operator, sample, occupation.seen_s):
            occupation.add(ratio, self.settings.smoothing_factor)
            occupation.seen_s = at_s
        mean, low, high = occupation.mean, self.settings.threshold_low, self.settings.threshold_high
        numbers: dict[str, Number] = {"ratio": mean, "threshold_low": low, "threshold_high": high}
        if occupation.seen_s == -math.inf or self._allowed_s(sample.trigger_interval_s) is None:
            reason = "the job tells of no batch with a trigger interval; batch_duration_s may say what it would be"
            return hold(instances, "no-data", f"{reason}: holding", numbers)
        reason = f"batches take {plain(mean)} of the time they may take"
        if low <= mean <= high:
            return hold(instances, "steady", f"{reason}, which lies within {plain(low)} to {plain(high)}", numbers)
        reason = f"{reason}, which lies outside {plain(low)} to {plain(high)}"
        if instances.pending:
            come = f"{instances.ready} of {instances.planned} planned instances are ready"
            return hold(instances, "rescaling", f"{reason}, but {come}", numbers)
        # Products such as 0.7 · 10 are not exact in binary.
        wanted = max(1, math.ceil(round(instances.ready * mean, 9)))
        numbers |= {"needed": wanted}
        if wanted == instances.planned:
            return hold(instances, "steady", f"{reason}; still {wanted} are needed", numbers)
        if wanted < instances.planned and sample.processing_time_s is None:
            return hold(
                instances, "partial-data", f"{reason}, but the newest reading lacks a time: no scale-in", numbers
            )
        return Target(wanted, "ratio-high" if mean > high else "ratio-low", reason, numbers)

    def _allowed_s(self, trigger_interval_s: float | None) -> float | None:
        return self.settings.batch_duration_s or trigger_interval_s or None

    def _ratios(self, window: Window, operator: str, newest: Sample, seen_s: Instant) -> list[tuple[Instant, float]]:
        """Return end and ratio of each batch with records that ended since; of the newest reading if there is none."""
        batches = [batch for batch in window.batches(operator, seen_s) if batch.records]
        if batches or newest.batch_ended_s is not None:
            return [
                (batch.ended_s, batch.processing_time_s / allowed_s)
                for batch in batches
                if (allowed_s := self._allowed_s(batch.trigger_interval_s)) is not None
            ]
        time_s, allowed_s = newest.processing_time_s, self._allowed_s(newest.trigger_interval_s)
        if time_s is None or allowed_s is None or newest.measured_s <= seen_s:
            return []
        return [(newest.measured_s, float(time_s / allowed_s))]

    def _state(self) -> dict[str, JSON]:
        return {
            "occupations": {
                name: [
                    occupation.total,
                    occupation.weight,
                    None if occupation.seen_s == -math.inf else occupation.seen_s,
                ]
                for name, occupation in self._occupations.items()
            }
        }

    def _restore_state(self, state: Mapping[str, JSON]) -> None:
        self._occupations = {
            str(name): _Occupation(float(total), float(weight), -math.inf if seen_s is None else float(seen_s))
            for name, (total, weight, seen_s) in state["occupations"].items()
        }

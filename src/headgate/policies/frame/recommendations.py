"""Delays scale-in by recent recommendations, as Kubernetes and Flink do.

``Recommendations`` returns the largest size recommended within a window. ``Behaviour`` is the default behaviour of
Kubernetes' ``autoscaling/v2``: growth is limited per period, shrinking waits for a window (source: its documentation
and ``pkg/controller/podautoscaler``). ``ScaleInDelay`` waits, like Flink's autoscaler, until fewer instances have been
enough.

>>> lately = Recommendations()
>>> [lately.largest(at_s, 300, newest, found=4) for at_s, newest in ((0, 2), (60, 5), (200, 3), (400, 2))]
[4, 5, 5, 3]
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import takewhile
from typing import Annotated

from pydantic import Field

from headgate.core.types import JSON, Instances, Instant, Number, Target
from headgate.core.units import format_duration
from headgate.core.window import Window
from headgate.policies.frame.base import hold
from headgate.policies.frame.settings import Seconds, Settings, Share


class Recommendations:
    """Recommended sizes by time; only those that may still become the largest are stored."""

    def __init__(self, recent: Iterable[tuple[Instant, int]] = ()) -> None:
        self._recent = list(recent)

    def __len__(self) -> int:
        return len(self._recent)

    def largest(self, now: Instant, within_s: float, newest: int, found: int) -> int:
        """Add the newest size and return the largest of the last ``within_s``; with 0 seconds, that is the newest.

        ``found`` is the present size. It counts as recommended if nothing earlier is known: otherwise the first quiet
        reading would undo it.
        """
        # State saved on another clock may lie in the future.
        recent = [(at_s, count) for at_s, count in self._recent if now - within_s < at_s <= now]
        if not recent and within_s:
            recent = [(now, found)]
        # A size that is not larger than the newest leaves the window before it.
        self._recent = [(at_s, count) for at_s, count in recent if count > newest] + [(now, newest)]
        return self._recent[0][1]

    def to_json(self) -> JSON:
        return [[at_s, count] for at_s, count in self._recent]

    @classmethod
    def from_json(cls, saved: JSON) -> Recommendations:
        return cls((float(at_s), int(count)) for at_s, count in saved)


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
    """Turns recommended sizes into targets by the recommendations of a window."""

    def __init__(self, settings: BehaviourSettings) -> None:
        self._settings = settings
        self._lately: dict[str, Recommendations] = {}

    def tolerates(self, ratio: float) -> bool:
        """Whether a metric at this ratio to its target is within the tolerance."""
        # Ratios such as 0.98 / 0.7 are not exact in binary.
        return round(abs(1 - ratio), 9) <= self._settings.tolerance

    def apply(self, now: Instant, window: Window, operator: str, instances: Instances, recommended: Target) -> Target:
        """Return the target for a recommendation, whose reason says where it comes from."""
        wanted, planned = recommended.instances, instances.planned
        lately = self._lately.setdefault(operator, Recommendations())
        largest = lately.largest(now, self._settings.scale_in_window_s, wanted, planned)
        if wanted > planned:
            return self._grown(now, window, operator, instances, recommended)
        if wanted == planned:
            return hold(instances, "steady", f"{recommended.reason}: keeping {planned} instances", recommended.numbers)
        stabilised = min(planned, largest)
        numbers: dict[str, Number] = {**recommended.numbers, "stabilised": stabilised}
        reason = f"{recommended.reason}: {wanted} instances would do"
        needed = f"{stabilised} were needed within the last {format_duration(self._settings.scale_in_window_s)}"
        if stabilised == planned:
            return hold(instances, "stabilising", f"{reason}, but {needed}", numbers)
        return Target(stabilised, "below-target", reason if stabilised == wanted else f"{reason}, {needed}", numbers)

    def _grown(self, now: Instant, window: Window, operator: str, instances: Instances, wanted: Target) -> Target:
        settings = self._settings
        period = takewhile(lambda decision: decision.at_s > now - settings.out_period_s, reversed(window.decisions))
        before = instances.planned - sum(d.verdicts[operator].change for d in period if operator in d.verdicts)
        limit = max(before + settings.out_instances, math.ceil(round(before * (1 + settings.out_share), 9)))
        reason = f"{wanted.reason}: {instances.ready} ready instances make it {wanted.instances}"
        if wanted.instances <= limit:
            return Target(wanted.instances, "above-target", reason, wanted.numbers)
        limit = max(limit, instances.planned)
        reason = f"{reason}, limited to {limit} within {format_duration(settings.out_period_s)}"
        return Target(limit, "rate-limited", reason, {**wanted.numbers, "limit": limit})

    def to_json(self) -> dict[str, JSON]:
        return {name: lately.to_json() for name, lately in self._lately.items()}

    def restore(self, saved: Mapping[str, JSON]) -> None:
        self._lately = {str(name): Recommendations.from_json(recent) for name, recent in saved.items()}


class ScaleInDelay:
    """Records since when fewer instances have been enough, how many, and whether that was out of bounds then.

    >>> delay = ScaleInDelay()
    >>> fewer = ((0, 2, False), (50, 4, True), (90, 3, False), (100, 2, False))
    >>> [delay.allowed(at_s, 100, count, is_outside) for at_s, count, is_outside in fewer]
    [None, None, None, (4, True)]
    """

    def __init__(self) -> None:
        self._since_s: Instant | None = None
        self._fewer: list[tuple[Instant, int, bool]] = []
        """Only those that may still become the largest, the largest first."""

    def clear(self) -> None:
        """Start over: fewer are no longer enough, or the size has changed."""
        self._since_s, self._fewer = None, []

    def allowed(self, now: Instant, interval_s: float, fewer: int, is_outside: bool) -> tuple[int, bool] | None:
        """Return the largest size of the interval, and whether the job was out of bounds then.

        ``None`` until the interval is over. ``is_outside`` says whether the job is out of bounds now.
        """
        # State saved on another clock may lie in the future.
        if self._since_s is None or self._since_s > now:
            self.clear()
            self._since_s = now
        recent = [entry for entry in self._fewer if now - interval_s <= entry[0] <= now and entry[1] > fewer]
        self._fewer = [*recent, (now, fewer, is_outside)]
        _, largest, was_outside = self._fewer[0]
        return (largest, was_outside) if now - self._since_s >= interval_s else None

    def waited_s(self, now: Instant) -> float:
        """Return for how long fewer have been enough."""
        return 0.0 if self._since_s is None else now - self._since_s

    def to_json(self) -> JSON:
        return [self._since_s, [list(entry) for entry in self._fewer]]

    @classmethod
    def from_json(cls, saved: JSON) -> ScaleInDelay:
        made = cls()
        since_s, fewer = saved
        made._since_s = None if since_s is None else float(since_s)
        # Before the bounds were recorded, the newest decided; what was saved then counts as out of them.
        made._fewer = [(float(at_s), int(count), bool(rest[0]) if rest else True) for at_s, count, *rest in fewer]
        return made

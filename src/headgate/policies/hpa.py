"""hpa: what the HorizontalPodAutoscaler of Kubernetes does (autoscaling/v2 with its default behaviour), as a baseline.

Source: the Kubernetes documentation and ``pkg/controller/podautoscaler`` (replica calculator, stabilisation, rates).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import takewhile
from typing import Annotated

from pydantic import Field

from headgate.core.metrics import BASIC_METRICS
from headgate.core.types import JSON, Instances, Instant, Number, Sample, Target
from headgate.core.units import format_duration
from headgate.core.window import Window
from headgate.policies.frame.base import Context, OperatorPolicy, hold, register
from headgate.policies.frame.readings import plain, reading_of
from headgate.policies.frame.settings import Seconds, Settings, Share
from headgate.policies.frame.stabilisers import GuardSettings


class HpaSettings(Settings):
    metric: str = "utilization"
    """What is kept near the target: a metric of a sample, ``busy_share``, or one of your own."""
    target: Annotated[float, Field(gt=0)] = 0.7
    """The value of the metric to aim for."""
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


@register
class Hpa(OperatorPolicy[HpaSettings]):
    """Goes to ``ceil(ready · metric / target)``, at once when growing and to the largest of a window when shrinking.

    As in Kubernetes, instances that are planned and not ready count as idle when it grows, and nothing is done if that
    brings the ratio back within the tolerance or would turn the direction around.

    >>> from headgate.core.objective import parse_objective
    >>> from headgate.core.topology import Topology
    >>> from headgate.core.types import Instances, Observation, Sample
    >>> from headgate.core.window import History
    >>> from headgate.policies.frame.base import Context, make_policy
    >>> job = Topology.single()
    >>> policy = make_policy("hpa", Context(parse_objective("latency < 10s"), job))
    >>> history = History(job)
    >>> sample = Sample("job", 0, utilization=0.98)
    >>> history.observe(Observation(0, {"job": sample}, {"job": Instances(5, 5, 5)}))
    >>> target = policy.decide(0, history).targets["job"]
    >>> target.instances, target.reason
    (7, 'utilization 0.98 is 1.4 of the target 0.7: 5 ready instances make it 7')
    """

    name = "hpa"
    summary = "Kubernetes' HorizontalPodAutoscaler: size in proportion to metric / target."
    Settings = HpaSettings
    # Kubernetes deals with instances that are not ready by itself, and does not wait for them.
    guards = GuardSettings(pending_timeout_s=0, recovery_timeout_s=0)

    def __init__(self, settings: HpaSettings, context: Context) -> None:
        super().__init__(settings, context)
        self.subscriptions = frozenset({settings.metric}) - BASIC_METRICS
        self._recommended: dict[str, list[tuple[Instant, int]]] = {}

    def size(self, now: Instant, window: Window, operator: str, instances: Instances, sample: Sample) -> Target:
        metric, target = self.settings.metric, self.settings.target
        value = reading_of(sample, metric)
        numbers: dict[str, Number] = {metric: value, "target": target, "ready": instances.ready}
        if value is None:
            return hold(instances, "no-data", f"the newest reading has no {metric}: holding", numbers)
        if instances.ready < 1:
            return hold(instances, "no-data", "no instance is ready, so nothing was measured: holding", numbers)
        ratio = value / target
        recommended = self._recommendation(instances, ratio)
        numbers |= {"ratio": ratio, "recommended": recommended}
        told = f"{metric} {plain(value)} is {plain(ratio)} of the target {plain(target)}"
        highest = self._highest_recommendation(now, operator, instances, recommended)
        if recommended > instances.planned:
            return self._grow(now, window, operator, instances, Target(recommended, "above-target", told, numbers))
        if recommended == instances.planned:
            return hold(instances, "steady", f"{told}: keeping {instances.planned} instances", numbers)
        stabilised = min(instances.planned, highest)
        numbers |= {"stabilised": stabilised}
        told = f"{told}: {recommended} instances would do"
        lately = f"{stabilised} were needed within the last {format_duration(self.settings.scale_in_window_s)}"
        if stabilised == instances.planned:
            return hold(instances, "stabilising", f"{told}, but {lately}", numbers)
        return Target(stabilised, "below-target", told if stabilised == recommended else f"{told}, {lately}", numbers)

    def _recommendation(self, instances: Instances, ratio: float) -> int:
        """The replica calculator: what the ratio asks for, or the planned size when it is no reason to change."""
        unready = max(0, instances.pending)
        usage = ratio * instances.ready
        if ratio > 1 and unready:
            ratio = usage / (instances.ready + unready)
            if ratio < 1:
                return instances.planned
        # Ratios such as 0.98 / 0.7 are not exact in binary: without the rounding 1.4 · 5 might ask for 8.
        if round(abs(1 - ratio), 9) <= self.settings.tolerance:
            return instances.planned
        wanted = math.ceil(round(usage, 9))
        turned = wanted < instances.planned if ratio > 1 else wanted > instances.planned
        return instances.planned if turned else wanted

    def _highest_recommendation(self, now: Instant, operator: str, instances: Instances, newest: int) -> int:
        oldest_s = now - self.settings.scale_in_window_s
        # State that was saved on another clock may lie ahead of this one.
        kept = [(at_s, count) for at_s, count in self._recommended.get(operator, ()) if oldest_s < at_s <= now]
        # The size found at the start counts as recommended, or the first quiet reading would undo it.
        self._recommended[operator] = [*(kept or [(now, instances.planned)]), (now, newest)]
        return max(count for _, count in self._recommended[operator])

    def _grow(self, now: Instant, window: Window, operator: str, instances: Instances, wanted: Target) -> Target:
        settings = self.settings
        period = takewhile(lambda decision: decision.at_s > now - settings.out_period_s, reversed(window.decisions))
        before = instances.planned - sum(d.verdicts[operator].change for d in period if operator in d.verdicts)
        limit = max(before + settings.out_instances, math.ceil(round(before * (1 + settings.out_share), 9)))
        told = f"{wanted.reason}: {instances.ready} ready instances make it {wanted.instances}"
        if wanted.instances <= limit:
            return Target(wanted.instances, wanted.code, told, wanted.numbers)
        limit = max(limit, instances.planned)
        told = f"{told}, limited to {limit} within {format_duration(settings.out_period_s)}"
        return Target(limit, "rate-limited", told, {**wanted.numbers, "limit": limit})

    def _state(self) -> dict[str, JSON]:
        return {"recommended": {name: [list(entry) for entry in past] for name, past in self._recommended.items()}}

    def _restore_state(self, state: Mapping[str, JSON]) -> None:
        self._recommended = {
            str(operator): [(float(at_s), int(count)) for at_s, count in past]
            for operator, past in state["recommended"].items()
        }

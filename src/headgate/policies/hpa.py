"""hpa: what the HorizontalPodAutoscaler of Kubernetes does (autoscaling/v2 with its default behaviour), as a baseline.

Source: the Kubernetes documentation and ``pkg/controller/podautoscaler`` (replica calculator, stabilisation, rates).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from headgate.core.metrics import BASIC_METRICS
from headgate.core.types import JSON, Instances, Instant, Number, Sample, Target
from headgate.core.units import plain
from headgate.core.window import Window
from headgate.policies.frame.base import Context, GuardSettings, OperatorPolicy, hold, register
from headgate.policies.frame.readings import reading_of
from headgate.policies.frame.recommendations import Behaviour, BehaviourSettings


class HpaSettings(BehaviourSettings):
    metric: str = "utilization"
    """The metric held near the target: one of a sample, ``busy_share``, or one of your own."""
    target: Annotated[float, Field(gt=0)] = 0.7
    """The value of the metric to aim for."""


@register
class Hpa(OperatorPolicy[HpaSettings]):
    """Goes to ``ceil(ready · metric / target)``, at once when growing and to the largest of a window when shrinking.

    As in Kubernetes, instances that are planned and not ready count as idle when it grows, and nothing is done if that
    brings the ratio back within the tolerance or would turn the direction around.

    >>> from headgate.policies import Sample
    >>> from headgate.testing import last_target
    >>> target = last_target("hpa", "latency < 10s", 5, Sample("job", 0, utilization=0.98))
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
        self._behaviour = Behaviour(settings)

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
        reason = f"{metric} {plain(value)} is {plain(ratio)} of the target {plain(target)}"
        return self._behaviour.apply(
            now, window, operator, instances, Target(recommended, "recommended", reason, numbers)
        )

    def _recommendation(self, instances: Instances, ratio: float) -> int:
        """The replica calculator: what the ratio asks for, or the planned size when it is no reason to change."""
        unready = max(0, instances.pending)
        usage = ratio * instances.ready
        if ratio > 1 and unready:
            ratio = usage / (instances.ready + unready)
            if ratio < 1:
                return instances.planned
        if self._behaviour.tolerates(ratio):
            return instances.planned
        # Without the rounding 1.4 · 5 might ask for 8.
        wanted = math.ceil(round(usage, 9))
        turned = wanted < instances.planned if ratio > 1 else wanted > instances.planned
        return instances.planned if turned else wanted

    def _state(self) -> dict[str, JSON]:
        return {"recommended": self._behaviour.to_json()}

    def _restore_state(self, state: Mapping[str, JSON]) -> None:
        self._behaviour.restore(state["recommended"])

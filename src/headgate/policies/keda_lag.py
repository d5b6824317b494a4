"""keda-lag: what KEDA's Kafka scaler does, as a baseline: one instance per so many waiting records.

Source: the documentation of KEDA's Apache Kafka scaler and of ``ScaledObject``, and ``pkg/scalers/kafka_scaler.go``.
KEDA gives the lag to a HorizontalPodAutoscaler as an external metric with an average value, and scales to zero and
back itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from headgate.core.types import JSON, Instances, Instant, Number, Sample, Target
from headgate.core.units import format_duration, plain
from headgate.core.window import Window
from headgate.policies.frame.base import Context, GuardSettings, OperatorPolicy, hold, register
from headgate.policies.frame.recommendations import Behaviour, BehaviourSettings
from headgate.policies.frame.settings import Seconds


class KedaLagSettings(BehaviourSettings):
    lag_threshold: Annotated[float, Field(gt=0)] = 10.0
    """Records that may wait per instance (``lagThreshold``)."""
    activation_lag_threshold: Annotated[float, Field(ge=0)] = 0.0
    """More records than this must wait before a job that has no instance gets one (``activationLagThreshold``)."""
    cooldown_period_s: Seconds = 300.0
    """How long no more than that must have waited before the last instance is removed, where the bounds allow none at
    all (``cooldownPeriod``)."""


@register
class KedaLag(OperatorPolicy[KedaLagSettings]):
    """Goes to ``ceil(backlog / lag_threshold)`` with the behaviour of a HorizontalPodAutoscaler.

    KEDA asks for no more consumers than there are partitions; here the guard ``useful`` sees to that.

    >>> from headgate.policies import Sample
    >>> from headgate.testing import last_target
    >>> target = last_target("keda-lag", "latency < 10s", 3, Sample("job", 0, backlog=4300), lag_threshold=1000)
    >>> target.instances, target.reason
    (5, '4300 records wait, 1433 per instance, where 1000 may: 3 ready instances make it 5')
    """

    name = "keda-lag"
    summary = "KEDA's Kafka scaler: one instance per so many waiting records."
    Settings = KedaLagSettings
    wakes = True
    # Kubernetes deals with instances that are not ready by itself, and does not wait for them.
    guards = GuardSettings(pending_timeout_s=0, recovery_timeout_s=0)

    def __init__(self, settings: KedaLagSettings, context: Context) -> None:
        super().__init__(settings, context)
        self._behaviour = Behaviour(settings)
        self._active_s: dict[str, Instant] = {}
        """When more than the activation threshold was last seen waiting."""

    def size(self, now: Instant, window: Window, operator: str, instances: Instances, sample: Sample) -> Target:
        backlog, threshold = sample.backlog, self.settings.lag_threshold
        numbers: dict[str, Number] = {"backlog": backlog, "lag_threshold": threshold}
        if backlog is None:
            return hold(instances, "no-data", "how many records wait is not known: holding", numbers)
        is_active = bool(backlog > self.settings.activation_lag_threshold)
        if is_active or self._active_s.setdefault(operator, now) > now:
            self._active_s[operator] = now
        if instances.planned < 1:
            return self._wake(instances, backlog, numbers, is_active=is_active)
        lowest, _ = self.objective.bounds_of(operator, self.topology)
        idle_s, cooldown_s = now - self._active_s[operator], self.settings.cooldown_period_s
        if lowest < 1 and not is_active and idle_s >= cooldown_s:
            reason = f"no more than {plain(self.settings.activation_lag_threshold)} records have waited for"
            return Target(0, "idle", f"{reason} {format_duration(idle_s)}: no instance is needed", numbers)
        ratio = backlog / (threshold * instances.planned)
        # Without the rounding a backlog of exactly three lots might ask for four.
        wanted = max(1, math.ceil(round(backlog / threshold, 9)))
        recommended = instances.planned if self._behaviour.tolerates(ratio) else wanted
        numbers |= {"ratio": ratio, "recommended": recommended}
        each = plain(backlog / instances.planned)
        reason = f"{plain(backlog)} records wait, {each} per instance, where {plain(threshold)} may"
        return self._behaviour.apply(
            now, window, operator, instances, Target(recommended, "recommended", reason, numbers)
        )

    def _wake(self, instances: Instances, backlog: float, numbers: dict[str, Number], *, is_active: bool) -> Target:
        reason = f"{plain(backlog)} records wait"
        if is_active:
            return Target(1, "activated", f"{reason} and there is no instance: one to begin with", numbers)
        least = plain(self.settings.activation_lag_threshold)
        return hold(instances, "idle", f"{reason}, and a job without instances gets one from {least} on", numbers)

    def _state(self) -> dict[str, JSON]:
        return {"recommended": self._behaviour.to_json(), "active_s": dict(self._active_s)}

    def _restore_state(self, state: Mapping[str, JSON]) -> None:
        active_s = {str(name): float(at_s) for name, at_s in state["active_s"].items()}
        self._behaviour.restore(state["recommended"])
        self._active_s = active_s

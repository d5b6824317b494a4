"""half-full: keeps instances half busy."""

import math
from typing import Annotated

from pydantic import Field

from headgate.policies import Instances, Instant, OperatorPolicy, Sample, Settings, Target, Window, hold


class HalfFullSettings(Settings):
    target: Annotated[float, Field(gt=0, le=1)] = 0.5
    """The busy share to aim for."""


class HalfFull(OperatorPolicy[HalfFullSettings]):
    """Goes to the size at which instances would be as busy as the target says."""

    name = "half-full"
    summary = "Keeps instances half busy."
    Settings = HalfFullSettings

    def size(self, now: Instant, window: Window, operator: str, instances: Instances, sample: Sample) -> Target:
        if sample.utilization is None:
            return hold(instances, "no-data", "the utilization is not known: holding")
        wanted = max(1, math.ceil(instances.ready * sample.utilization / self.settings.target))
        numbers = {"utilization": sample.utilization, "target": self.settings.target}
        return Target(wanted, "utilization", f"{sample.utilization:.0%} busy: {wanted} instances", numbers)

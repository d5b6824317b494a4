"""What the user asks for: a service-level objective, bounds on the size, and what an instance costs.

Readings may be numbers of numpy; what is said of them is a plain ``bool`` or ``float``, as ``is`` and JSON need.

>>> parse_objective("latency p95 < 10s").slo
LatencySlo(bound_s=10.0, percentile=95.0)
>>> str(parse_objective("slow records < 5%"))
'slow records < 5%'
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeAlias

from headgate.core.errors import InputError
from headgate.core.topology import Topology
from headgate.core.types import Sample
from headgate.core.units import format_duration, parse_duration_s, parse_share


@dataclass(frozen=True, slots=True)
class LatencySlo:
    """At least ``percentile`` percent of the records have their result within the bound.

    A reading violates it when any record has waited longer: there it can still be helped.
    """

    bound_s: float
    percentile: float = 95.0

    def __post_init__(self) -> None:
        if not self.bound_s > 0:
            raise InputError(f"latency bound {self.bound_s} s is not allowed; it must be above 0.")
        if not 0 < self.percentile <= 100:
            raise InputError(f"percentile {self.percentile} is not allowed; it must be above 0 and at most 100.")

    def violated_by(self, sample: Sample) -> bool | None:
        latency_s = sample.worst_latency_s
        return None if latency_s is None else bool(latency_s >= self.bound_s)

    def pressure(self, sample: Sample) -> float | None:
        """How much of the objective is used up: 1 is the bound."""
        latency_s = sample.worst_latency_s
        return None if latency_s is None else float(latency_s / self.bound_s)

    def __str__(self) -> str:
        return f"latency p{self.percentile:g} < {format_duration(self.bound_s)}"


@dataclass(frozen=True, slots=True)
class SlowShareSlo:
    """Of one second's records, at most this share is still waiting (backlog / input rate)."""

    share: float

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise InputError(f"share of slow records {self.share} is not allowed; it must be above 0 and at most 1.")

    def violated_by(self, sample: Sample) -> bool | None:
        pressure = self.pressure(sample)
        return None if pressure is None else bool(pressure >= 1)

    def pressure(self, sample: Sample) -> float | None:
        if sample.backlog is None or sample.input_rate_per_s is None:
            return None
        if sample.backlog <= 0:
            return 0.0
        # Records wait although none arrive: all of them are slow.
        slow_share = sample.backlog / sample.input_rate_per_s if sample.input_rate_per_s > 0 else float("inf")
        return float(slow_share / self.share)

    def __str__(self) -> str:
        return f"slow records < {100 * self.share:g}%"


@dataclass(frozen=True, slots=True)
class ThroughputSlo:
    """With at least this probability, the job gets through what arrives."""

    probability: float = 0.95

    def __post_init__(self) -> None:
        if not 0 < self.probability < 1:
            raise InputError(f"throughput target {self.probability} is not allowed; it must lie between 0 and 1.")

    def violated_by(self, sample: Sample) -> bool | None:
        if sample.backlog is not None and sample.backlog <= 0:
            return False
        if sample.processed_rate_per_s is None or sample.input_rate_per_s is None:
            return None
        return bool(sample.processed_rate_per_s < sample.input_rate_per_s)

    def pressure(self, sample: Sample) -> float | None:
        if sample.processed_rate_per_s is None or sample.input_rate_per_s is None:
            return None
        if sample.processed_rate_per_s <= 0:
            return float("inf") if sample.input_rate_per_s > 0 else 0.0
        return float(sample.input_rate_per_s / sample.processed_rate_per_s)

    def __str__(self) -> str:
        return f"throughput >= {100 * self.probability:g}%"


LONG_TRIGGER_S = 60.0
"""Without a bound on latency, a trigger interval from this on is one that nobody waits for."""


def excused_wait_s(trigger_interval_s: float, bound_s: float | None) -> float:
    """How much of what records wait for their trigger does not count as latency.

    A trigger interval that is at least as long as the bound (a query that runs once an hour) makes records wait
    whatever the size; for such a query only what exceeds the interval counts.

    >>> excused_wait_s(5.0, 10.0), excused_wait_s(3600.0, 10.0), excused_wait_s(5.0, None)
    (0.0, 3600.0, 0.0)
    """
    longest_s = LONG_TRIGGER_S if bound_s is None else bound_s
    return trigger_interval_s if trigger_interval_s >= longest_s else 0.0


Slo: TypeAlias = LatencySlo | SlowShareSlo | ThroughputSlo
_NO_SLOS: Mapping[str, Slo] = MappingProxyType({})
DEFAULT_MAX_INSTANCES = 10


@dataclass(frozen=True, slots=True)
class Objective:
    """The whole of what the user asks for.

    Bounds and price hold for every operator whose topology says nothing else.
    """

    slo: Slo
    """From end to end; for one operator, where it has no objective of its own."""
    min_instances: int = 1
    max_instances: int = DEFAULT_MAX_INSTANCES
    price_per_instance_hour: float = 1.0
    operators: Mapping[str, Slo] = field(default_factory=lambda: _NO_SLOS)
    """Objectives of single operators."""
    bounded: bool = True
    """Whether somebody asked for these bounds. Those that were only assumed must not shrink a job that runs."""

    def __post_init__(self) -> None:
        if self.min_instances < 1:
            raise InputError(f"min_instances {self.min_instances} is not allowed; it must be at least 1.")
        if self.max_instances < self.min_instances:
            raise InputError(
                f"max_instances {self.max_instances} is below min_instances {self.min_instances}; "
                "it must be at least as large."
            )
        if not self.price_per_instance_hour >= 0:
            raise InputError(f"price {self.price_per_instance_hour} is not allowed; it must not be negative.")

    def within(self, min_instances: int, max_instances: int) -> Objective:
        return replace(self, min_instances=min_instances, max_instances=max_instances, bounded=True)

    def fitting(self, instances: int) -> Objective:
        """The same, with assumed bounds widened to a size that a job has already; bounds asked for stay as they are."""
        if self.bounded or self.min_instances <= instances <= self.max_instances:
            return self
        lowest, highest = min(self.min_instances, max(1, instances)), max(self.max_instances, instances)
        return replace(self, min_instances=lowest, max_instances=highest)

    def clamp(self, instances: int) -> int:
        return max(self.min_instances, min(self.max_instances, instances))

    def slo_of(self, operator: str) -> Slo:
        """What is asked of one operator."""
        return self.operators.get(operator, self.slo)

    def bounds_of(self, operator: str, topology: Topology) -> tuple[int, int]:
        """Fewest and most instances of one operator."""
        sizing = topology.sizing_of(operator)
        lowest = self.min_instances if sizing.min_instances is None else sizing.min_instances
        highest = self.max_instances if sizing.max_instances is None else sizing.max_instances
        return lowest, max(lowest, highest)

    def price_of(self, operator: str, topology: Topology) -> float:
        """What an instance of one operator costs per hour."""
        price = topology.sizing_of(operator).price_per_instance_hour
        return self.price_per_instance_hour if price is None else price

    def __str__(self) -> str:
        return str(self.slo)


_FORMS = "'latency p95 < 10s', 'slow records < 5%' or 'throughput >= 95%'"
_LATENCY = re.compile(
    r"(?:(?P<before>p\d+(?:\.\d+)?)\s+)?latency(?:\s+(?P<after>p\d+(?:\.\d+)?))?\s*<=?\s*(?P<bound>.+)"
)
_SLOW = re.compile(r"slow(?:\s+records)?\s*<=?\s*(?P<share>.+)")
_THROUGHPUT = re.compile(r"throughput\s*>=?\s*(?P<probability>.+)")


def parse_objective(text: str) -> Objective:
    """An objective from its friendly form."""
    wanted = " ".join(text.lower().split())
    try:
        if match := _LATENCY.fullmatch(wanted):
            percentile = match["before"] or match["after"] or "p95"
            return Objective(LatencySlo(parse_duration_s(match["bound"]), float(percentile[1:])), bounded=False)
        if match := _SLOW.fullmatch(wanted):
            return Objective(SlowShareSlo(parse_share(match["share"])), bounded=False)
        if match := _THROUGHPUT.fullmatch(wanted):
            return Objective(ThroughputSlo(parse_share(match["probability"])), bounded=False)
    except InputError as error:
        raise InputError(f"objective {text!r} is not usable: {error}") from error
    raise InputError(f"objective {text!r} is not understood; write for example {_FORMS}.")

"""What an application costs and how long a record takes through it (russo §2: eqs. 1 and 2, M/D/1, longest path)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from headgate.core.errors import InputError
from headgate.core.topology import Topology

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Weights:
    """How much each part of the cost counts; together they are 1."""

    resources: float = 0.2
    reconfiguration: float = 0.4
    violation: float = 0.4

    def __post_init__(self) -> None:
        parts = (self.resources, self.reconfiguration, self.violation)
        if min(parts) < 0 or not math.isclose(sum(parts), 1.0, abs_tol=1e-9):
            told = ", ".join(f"{part:g}" for part in parts)
            raise InputError(f"weights {told} are not allowed; none may be negative and together they must be 1.")


def application_cost(
    weights: Weights, sizes: Sequence[int], max_instances: int, *, reconfigured: bool, violated: bool
) -> float:
    """The cost of one slot of the whole application (eq. 1); ``sizes`` are those after the action.

    >>> round(application_cost(Weights(), (2, 3, 2), 5, reconfigured=True, violated=False), 4)
    0.4933
    """
    resources = sum(sizes) / (len(sizes) * max_instances)
    return weights.resources * resources + weights.reconfiguration * reconfigured + weights.violation * violated


def operator_cost(weights: Weights, size: int, max_instances: int, *, reconfigured: bool, over_target: bool) -> float:
    """The cost of one slot as an operator's own agent sees it (eq. 2); ``size`` is the one after the action.

    >>> round(operator_cost(Weights(), 2, 5, reconfigured=False, over_target=True), 4)
    0.48
    """
    used = weights.resources * size / max_instances
    return used + weights.reconfiguration * reconfigured + weights.violation * over_target


def utilization(rate_per_s: Floats | float, service_rate_per_s: float, instances: Floats | float) -> Floats:
    """ρ = λ / (k μ): above 1 the instances fall behind."""
    return np.asarray(rate_per_s / (instances * service_rate_per_s), dtype=np.float64)


def md1_response_time_s(rate_per_s: Floats | float, service_rate_per_s: float, instances: Floats | float) -> Floats:
    """Mean time in the system when the rate is spread evenly over ``instances`` M/D/1 queues; infinite from ρ = 1 on.

    >>> float(md1_response_time_s(1.0, 2.0, 1)), float(md1_response_time_s(2.0, 2.0, 1))
    (0.75, inf)
    """
    rho = utilization(rate_per_s, service_rate_per_s, instances)
    free = np.where(rho < 1, 1 - rho, 1.0)
    waiting_s = rho / (2 * service_rate_per_s * free)
    return np.where(rho < 1, 1 / service_rate_per_s + waiting_s, np.inf)


def longest_path_s(topology: Topology, times_s: Mapping[str, Floats | float]) -> Floats:
    """The largest sum of times along any way from a source to a sink; arrays are taken element by element.

    >>> diamond = Topology.of(("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"))
    >>> float(longest_path_s(diamond, {"a": 1.0, "b": 5.0, "c": 2.0, "d": 1.0}))
    7.0
    """
    until_s: dict[str, Floats] = {}
    for name in topology.order:
        before_s: Floats | float = 0.0
        for source in topology.upstream(name):
            before_s = np.maximum(before_s, until_s[source])
        until_s[name] = np.asarray(before_s + times_s[name], dtype=np.float64)
    longest = until_s[topology.order[0]]
    for name in topology.order[1:]:
        longest = np.maximum(longest, until_s[name])
    return longest


@dataclass(frozen=True)
class Application:
    """Operators with their speed, the share of the application's rate that each sees, and what is asked of them.

    ``service_rates_per_s`` is what one instance of each operator serves; ``shares`` is an operator's input rate over
    the application's. ``bound_s`` may be infinite: then only an operator that falls behind is a violation.
    """

    topology: Topology
    service_rates_per_s: tuple[float, ...]
    bound_s: float
    max_instances: int
    min_instances: int = 1
    shares: tuple[float, ...] = ()
    weights: Weights = Weights()

    def __post_init__(self) -> None:
        count = len(self.topology.operators)
        if not self.shares:
            object.__setattr__(self, "shares", (1.0,) * count)
        if len(self.service_rates_per_s) != count or len(self.shares) != count:
            raise InputError(
                f"{len(self.service_rates_per_s)} service rates and {len(self.shares)} shares are given for "
                f"{count} operators; one of each is needed for every operator."
            )
        if min(*self.service_rates_per_s, *self.shares) <= 0:
            raise InputError(
                f"service rates {self.service_rates_per_s} and shares {self.shares} are not allowed; "
                "all must be above 0."
            )

    @property
    def operators(self) -> tuple[str, ...]:
        return self.topology.operators

    @property
    def sizes(self) -> Floats:
        """The sizes that an operator may have."""
        return np.arange(self.min_instances, self.max_instances + 1, dtype=np.float64)

    @property
    def largest_rate_per_s(self) -> float:
        """What the slowest operator serves at its largest size: any higher rate is a violation in every size."""
        rates = zip(self.service_rates_per_s, self.shares, strict=True)
        return min(self.max_instances * service / share for service, share in rates)

    def response_times_s(self, rates_per_s: Floats) -> Floats:
        """Mean time in each operator: ``[operator, size, rate]``."""
        return np.stack(
            [
                md1_response_time_s(share * rates_per_s[None, :], service, self.sizes[:, None])
                for service, share in zip(self.service_rates_per_s, self.shares, strict=True)
            ]
        )

    def utilizations(self, rates_per_s: Floats) -> Floats:
        """How busy each operator is: ``[operator, size, rate]``."""
        return np.stack(
            [
                utilization(share * rates_per_s[None, :], service, self.sizes[:, None])
                for service, share in zip(self.service_rates_per_s, self.shares, strict=True)
            ]
        )

    def is_over(self, response_time_s: Floats) -> Bools:
        """Whether a response time violates the bound; an infinite one always does."""
        return np.asarray((response_time_s > self.bound_s) | np.isinf(response_time_s))

    def violations(self, rates_per_s: Floats) -> Bools:
        """Whether each configuration violates the objective at each rate: ``[size of each operator…, rate]``."""
        count = len(self.operators)
        times_s = self.response_times_s(rates_per_s)
        spread = {}
        for index, name in enumerate(self.operators):
            shape = [1] * count + [len(rates_per_s)]
            shape[index] = len(self.sizes)
            spread[name] = times_s[index].reshape(shape)
        return self.is_over(longest_path_s(self.topology, spread))

    def violations_of(self, configurations: NDArray[np.int64], rates_per_s: Floats) -> Bools:
        """The same for a list of configurations ``[configuration, operator]`` only: ``[configuration, rate]``."""
        return self.violations_by(self.response_times_s(rates_per_s), configurations)

    def violations_by(self, times_s: Floats, configurations: NDArray[np.int64]) -> Bools:
        """The same from :meth:`response_times_s`, for those who ask often."""
        positions = configurations - self.min_instances
        along = {name: times_s[index, positions[:, index]] for index, name in enumerate(self.operators)}
        return self.is_over(longest_path_s(self.topology, along))

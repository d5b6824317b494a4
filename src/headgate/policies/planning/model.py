"""The model that planners share: cost, response time, levels of rates and their transitions, and the planner contract.

Source: russo §2 (eqs. 1, 2 and 5; M/D/1 queues; the longest path through the graph).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headgate.core.errors import InputError
from headgate.core.topology import Topology
from headgate.core.types import JSON

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
            reason = ", ".join(f"{part:g}" for part in parts)
            raise InputError(f"weights {reason} are not allowed; none may be negative and together they must be 1.")


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
class ApplicationModel:
    """Operators with their speed, the share of the application's rate that each sees, and the objective.

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


MOST_LEVELS = 1002
"""A plan counts how often each level followed each other one: their squares must fit into memory."""


@dataclass(frozen=True, slots=True)
class RateGrid:
    """The levels 0, q, 2q … of a rate; a rate belongs to the nearest one, and whatever is higher to the last.

    >>> grid = RateGrid(20.0, 4)
    >>> grid.level_of(29.0), grid.level_of(31.0), grid.level_of(500.0)
    (1, 2, 3)
    """

    quantum_per_s: float
    levels: int

    def __post_init__(self) -> None:
        if not (math.isfinite(self.quantum_per_s) and self.quantum_per_s > 0 and self.levels >= 1):
            raise InputError(
                f"a quantum of {self.quantum_per_s}/s with {self.levels} levels is not allowed; both must be above 0."
            )

    @classmethod
    def up_to(cls, rate_per_s: float, quantum_per_s: float) -> RateGrid:
        """Levels that reach a rate; all higher ones are alike. A quantum that needs too many levels is widened.

        >>> RateGrid.up_to(200.0, 20.0).levels, RateGrid.up_to(200.0, 1e-9).levels
        (12, 1002)
        """
        wide_per_s = max(quantum_per_s, rate_per_s / (MOST_LEVELS - 2))
        return cls(wide_per_s, 2 + math.ceil(round(rate_per_s / wide_per_s, 9)))

    @property
    def rates_per_s(self) -> Floats:
        return self.quantum_per_s * np.arange(self.levels, dtype=np.float64)

    def level_of(self, rate_per_s: float) -> int:
        return min(round(rate_per_s / self.quantum_per_s), self.levels - 1)


class Transitions:
    """How often each level was followed by each other, and the probabilities estimated from it (eq. 5).

    A level that was never left is taken to stay: the estimate as printed is 0/0 there.

    >>> seen = Transitions(3, [0, 1, 1, 1])
    >>> [[round(float(p), 2) for p in row] for row in seen.matrix]
    [[0.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """

    def __init__(self, levels: int, history: Iterable[int] = ()) -> None:
        self.counts: NDArray[np.int64] = np.zeros((levels, levels), dtype=np.int64)
        for before, after in pairwise(history):
            self.counts[before, after] += 1
        self._refresh()

    def _refresh(self) -> None:
        self.visits: list[int] = [int(count) for count in self.counts.sum(axis=1)]
        # Stored as [next level, level]: an array [configuration, next level] times this one is the expectation.
        self.by_next: Floats = np.eye(len(self.visits))
        for level, visits in enumerate(self.visits):
            if visits:
                self.by_next[:, level] = self.counts[level] / visits

    @property
    def matrix(self) -> Floats:
        """P[level, next level]."""
        return self.by_next.T

    def add(self, level: int, next_level: int) -> None:
        """One more slot of this level was followed by one of that."""
        self.counts[level, next_level] += 1
        self.visits[level] += 1
        np.divide(self.counts[level], self.visits[level], out=self.by_next[:, level])

    def shares(self) -> Floats:
        """How much of the time each level was seen; evenly spread while nothing was."""
        seen = np.asarray(self.visits, dtype=np.float64)
        return seen / seen.sum() if seen.any() else np.full(len(seen), 1 / len(seen))

    def to_json(self) -> list[list[int]]:
        """The counts that are not 0, each with its two levels."""
        return [[int(row), int(column), int(self.counts[row, column])] for row, column in np.argwhere(self.counts)]

    def load(self, entries: Sequence[Sequence[int]]) -> None:
        """Take back what :meth:`to_json` gave."""
        counts = np.zeros_like(self.counts)
        for row, column, count in entries:
            if not (0 <= row < len(counts) and 0 <= column < len(counts) and count > 0):
                raise ValueError(f"transition {row} -> {column} counted {count} times does not fit")
            counts[row, column] = count
        self.counts = counts
        self._refresh()


Levels = tuple[int, ...]
"""The level of each rate that a planner looks at: the application's alone, or one per operator."""
Sizes = tuple[int, ...]
"""Instances of each operator, in the order of the topology."""


@dataclass(frozen=True, slots=True)
class SlotOutcome:
    """How a slot went; what was not measured is ``None``."""

    violated: bool | None = None
    """Whether the response time violated the objective."""
    utilizations: tuple[float | None, ...] | None = None
    """How busy each operator was."""


class Planner(Protocol):
    """Plans on levels and sizes only, so that it runs the same in a policy and in a year-long evaluation."""

    @property
    def inputs(self) -> int:
        """How many rates it looks at: 1 for the application's, otherwise one per operator."""
        ...

    def choose(self, levels: Levels, sizes: Sizes) -> Sizes:
        """The sizes for the slot that begins, after a slot with these levels; at most one step per operator."""
        ...

    def learn(self, levels: Levels, sizes: Sizes, next_levels: Levels, outcome: SlotOutcome) -> None:
        """A slot that began after these levels ran at these sizes, and these levels arrived in it."""
        ...

    def visits(self, levels: Levels) -> int:
        """How often slots with these levels have been followed by another: what the estimates there rest on."""
        ...

    def to_json(self) -> dict[str, JSON]:
        """All that was learned."""
        ...

    def load(self, state: Mapping[str, JSON]) -> None:
        """Take back what :meth:`to_json` gave; raises ``ValueError`` where it does not fit."""
        ...


def position_of(sizes: Sizes, lowest: int, highest: int) -> tuple[int, ...]:
    """Sizes as indices into an array; a size outside the bounds counts as the nearest bound."""
    return tuple(min(max(size, lowest), highest) - lowest for size in sizes)


def floats_from(state: JSON, shape: tuple[int, ...]) -> Floats:
    """An array of a known shape from lists."""
    values = np.asarray(state, dtype=np.float64)
    if values.shape != shape or not np.isfinite(values).all():
        raise ValueError(f"an array of shape {values.shape} does not fit; {shape} of finite numbers is needed")
    return values

"""Planning along one chain of configurations instead of over all of them: linear in the number of operators.

Of all K^N configurations an optimal plan uses few: for every load the cheapest that carries it. Order them so that each
has one instance more than the one before, from the smallest to the largest: N(K−1)+1 configurations, nested. A plan
over (rate, place on the chain) has the same form as the exact one. From a place, one action reaches every place whose
configuration differs by at most one instance per operator, which is an interval of the chain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from headgate.core.types import JSON
from headgate.policies.planning.model import (
    ApplicationModel,
    Bools,
    Floats,
    Levels,
    RateGrid,
    Sizes,
    SlotOutcome,
    Transitions,
    floats_from,
)
from headgate.policies.planning.solver import TIE, expected, interval_minimum, solve, spans_of, value_of

_RATES = 100
"""Rates between 0 and the largest that can be carried, at which configurations are compared."""
_GAIN = 1e-6
"""A swap must save more than this per slot."""


def nested_chain(application: ApplicationModel) -> NDArray[np.int64]:
    """Configurations from the smallest to the largest, each with one instance more: ``[place, operator]``.

    The instance goes where it lets the highest rate be carried within the bound; if several do, or none does alone, to
    the one of them that would saturate first.
    """
    count = len(application.operators)
    services, shares = np.asarray(application.service_rates_per_s), np.asarray(application.shares)
    times_s = application.response_times_s(np.linspace(0, application.largest_rate_per_s, _RATES + 1)[1:])
    sizes = np.full(count, application.min_instances, dtype=np.int64)
    chain = [sizes]
    while (growing := np.flatnonzero(sizes < application.max_instances)).size:
        options = sizes + np.eye(count, dtype=np.int64)[growing]
        uncarried = application.violations_by(times_s, options).sum(axis=1)
        saturated_per_s = (sizes * services / shares)[growing]
        best = np.lexsort((saturated_per_s, uncarried))[0]
        sizes = options[best]
        chain.append(sizes)
        # What this configuration carries the next ones do too; one rate stays, for ties are compared on it.
        times_s = times_s[:, :, -max(1, int(uncarried[best])) :]
    return np.stack(chain)


class PathPlanner:
    """Plans over (rate, place on a nested chain).

    With ``known`` response time, penalties are computed. Without, whether a place violates the objective at the rate
    that *arrives* is learned from what happened: a mean per cell that fades with ``learning_rate``, and for cells never
    seen the least that is certain: it fails if an operator is saturated, or if more instances failed at a lower rate.
    """

    inputs = 1

    def __init__(
        self,
        application: ApplicationModel,
        grid: RateGrid,
        *,
        known: bool = True,
        discount: float = 0.99,
        learning_rate: float = 0.1,
        sweeps: int = 1,
    ) -> None:
        self._application = application
        self._grid = grid
        self._known = known
        self._sweeps = sweeps
        self._discount = discount
        self._learning_rate = learning_rate
        self._weights = application.weights
        self.transitions = Transitions(grid.levels)
        # Without the response time, only what saturates which operator is known.
        self._lay(nested_chain(application if known else replace(application, bound_s=np.inf)))
        self.after: Floats = np.zeros((len(self.chain), grid.levels))
        self._seen = np.zeros(self.after.shape, dtype=np.int64)
        self._learned = np.zeros(self.after.shape)

    def _lay(self, chain: NDArray[np.int64]) -> None:
        """Take a chain and what follows from it."""
        self.chain = chain
        self._places = {tuple(int(size) for size in sizes): place for place, sizes in enumerate(chain)}
        first, last = _reach(chain)
        self._first, self._last = first.tolist(), last.tolist()
        self._spans = spans_of(first, last)
        count = len(self._application.operators)
        used = chain.sum(axis=1) / (count * self._application.max_instances)
        self._resources: Floats = self._weights.resources * used[:, None]
        # What saturates an operator violates any objective; that much is known without a response time.
        application = self._application if self._known else replace(self._application, bound_s=np.inf)
        violated: Bools = application.violations_of(chain, self._grid.rates_per_s)
        self._certain: Floats = violated.astype(np.float64)
        self._penalty: Floats = self._weights.violation * self._certain

    def choose(self, levels: Levels, sizes: Sizes) -> Sizes:
        place = self._places.get(sizes)
        if place is None:
            return self._towards(levels[0], sizes)
        values = self.after[:, levels[0]]
        first = self._first[place]
        near = values[first : self._last[place] + 1]
        least = int(near.argmin())
        if near[least] + self._weights.reconfiguration >= values[place] - TIE:
            return sizes
        return tuple(int(size) for size in self.chain[first + least])

    def _towards(self, level: int, sizes: Sizes) -> Sizes:
        """Return one step from a configuration off the chain towards the best place on it."""
        goal = self.chain[int(self.after[:, level].argmin())]
        steps = np.clip(goal - np.asarray(sizes), -1, 1)
        return tuple(int(size) + int(change) for size, change in zip(sizes, steps, strict=True))

    def learn(self, levels: Levels, sizes: Sizes, next_levels: Levels, outcome: SlotOutcome) -> None:
        self.transitions.add(levels[0], next_levels[0])
        place = self._places.get(sizes)
        if not self._known and outcome.violated is not None and place is not None:
            self._count(place, next_levels[0], violated=outcome.violated)
        for _ in range(self._sweeps):
            self.after = self.sweep(self.after)

    def _count(self, place: int, level: int, *, violated: bool) -> None:
        """Take in whether a place violated the objective at the level that arrived."""
        seen = int(self._seen[place, level])
        self._seen[place, level] = seen + 1
        before = float(self._learned[place, level])
        step = max(self._learning_rate, 1 / (seen + 1))
        self._learned[place, level] = before + step * (violated - before)
        if seen == 0 or violated != (before == 1.0):
            self._spread()

    def _spread(self) -> None:
        known = np.where(self._seen > 0, self._learned, 0.0)
        least = np.maximum.accumulate(known, axis=1)
        least = np.maximum(np.maximum.accumulate(least[::-1], axis=0)[::-1], self._certain)
        self._penalty = self._weights.violation * np.where(self._seen > 0, self._learned, least)

    def sweep(self, after: Floats) -> Floats:
        """One iteration of eq. 4 along the chain."""
        value = value_of(after, self._weights.reconfiguration, self._minimum)
        value *= self._discount
        value += self._penalty
        result = expected(value, self.transitions.by_next)
        result += self._resources
        return result

    def _minimum(self, values: Floats) -> Floats:
        return interval_minimum(values, self._spans)

    def study(self, history: Sequence[int]) -> None:
        """Plan for levels that are known to have followed each other."""
        self.transitions = Transitions(self._grid.levels, history)
        self.plan()

    def plan(self) -> int:
        """Plan exactly for what is known now, and look for a better chain; gives the number of swaps that were tried.

        Two neighbouring steps of the chain are swapped, which changes the one configuration between them, and the
        swap stays if the plan along the new chain is cheaper at the rates seen.
        """
        self._solve()
        tried, improved = 0, self._known
        while improved:
            improved = False
            for place in range(1, len(self.chain) - 1):
                other = self.chain[place - 1] + self.chain[place + 1] - self.chain[place]
                if not (other == self.chain[place]).all():
                    tried += 1
                    improved |= self._swap(place, other)
        return tried

    def _swap(self, place: int, configuration: NDArray[np.int64]) -> bool:
        """Put another configuration in a place if that is cheaper; return whether it was."""
        chain, after, cost = self.chain, self.after, self._planned_cost()
        changed = chain.copy()
        changed[place] = configuration
        self._lay(changed)
        self._solve()
        if self._planned_cost() < cost - _GAIN:
            return True
        self._lay(chain)
        self.after = after
        return False

    def _solve(self) -> None:
        self.after, _ = solve(self.sweep, self.after, self._discount, tolerance=1e-6)

    def _planned_cost(self) -> float:
        """Per slot, from the best place at each rate, at the rates as often as they were seen."""
        return float(self.transitions.shares() @ self.after.min(axis=0)) * (1 - self._discount)

    def visits(self, levels: Levels) -> int:
        return self.transitions.visits[levels[0]]

    def to_json(self) -> dict[str, JSON]:
        return {
            "transitions": self.transitions.to_json(),
            "chain": self.chain.tolist(),
            "after": self.after.tolist(),
            "seen": self._seen.tolist(),
            "learned": self._learned.tolist(),
        }

    def load(self, state: Mapping[str, JSON]) -> None:
        shape = self.after.shape
        after, learned = floats_from(state["after"], shape), floats_from(state["learned"], shape)
        seen = np.asarray(state["seen"], dtype=np.int64)
        chain = np.asarray(state["chain"], dtype=np.int64)
        if seen.shape != shape or chain.shape != self.chain.shape or any(_is_no_step(*two) for two in pairwise(chain)):
            raise ValueError("the saved chain does not fit")
        self.transitions.load(state["transitions"])
        self._lay(chain)
        self.after, self._learned, self._seen = after, learned, seen
        if not self._known:
            self._spread()


def _is_no_step(before: NDArray[np.int64], after: NDArray[np.int64]) -> bool:
    change = after - before
    return bool(change.min() < 0 or change.sum() != 1)


def _reach(chain: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first and the last place that one action reaches from each place."""
    apart = np.abs(chain[:, None, :] - chain[None, :, :]).max(axis=2) <= 1
    return apart.argmax(axis=1), len(chain) - 1 - apart[:, ::-1].argmax(axis=1)

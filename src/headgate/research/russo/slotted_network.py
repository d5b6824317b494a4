"""Operators as M/D/1 queues in slots of time: what the planning policies of russo are evaluated on.

In each slot a rate arrives, is spread evenly over the instances of every operator, and each instance is an M/D/1 queue
in steady state; nothing is carried over to the next slot. A slot costs its instances, a reconfiguration if any operator
changed, and a penalty if the response time, along the longest way through the graph, exceeds the bound (eq. 1).

The rate that counts is the one that arrives *in* the slot, which was not known when its sizes were chosen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise

import numpy as np

from headgate.policies.planning.model import (
    ApplicationModel,
    Floats,
    Planner,
    RateGrid,
    Sizes,
    SlotOutcome,
    longest_path_s,
)

_CURVE_POINTS = 100


@dataclass(frozen=True, slots=True)
class SlotTally:
    """The totals of a run of slots."""

    slots: int
    cost: float
    violations: int
    reconfigurations: int
    instances: int
    curve: tuple[float, ...] = ()
    """The average cost up to each hundredth of the run."""

    @property
    def average_cost(self) -> float:
        return self.cost / self.slots

    @property
    def average_instances(self) -> float:
        return self.instances / self.slots


class SlottedNetwork:
    """An application whose load is a sequence of levels."""

    def __init__(self, application: ApplicationModel, grid: RateGrid) -> None:
        self.application = application
        self.grid = grid
        rates_per_s = grid.rates_per_s
        self._times_s: Floats = application.response_times_s(rates_per_s)
        self._utilizations: Floats = application.utilizations(rates_per_s)
        self._outcomes: dict[tuple[Sizes, int], SlotOutcome] = {}

    def outcome(self, sizes: Sizes, level: int) -> SlotOutcome:
        """Return the outcome of a slot with this level at these sizes."""
        key = (sizes, level)
        found = self._outcomes.get(key)
        if found is None:
            found = self._outcomes[key] = self._outcome(sizes, level)
        return found

    def _outcome(self, sizes: Sizes, level: int) -> SlotOutcome:
        application = self.application
        positions = [size - application.min_instances for size in sizes]
        times_s = {
            name: float(self._times_s[index, positions[index], level])
            for index, name in enumerate(application.operators)
        }
        busy = tuple(float(self._utilizations[index, place, level]) for index, place in enumerate(positions))
        return SlotOutcome(bool(application.is_over(longest_path_s(application.topology, times_s))), busy)

    def run(self, planner: Planner, levels: Sequence[int], start: Sizes) -> SlotTally:
        """Run a planner, which decides each slot from the level of the slot before it."""
        weights = self.application.weights
        slots = len(levels) - 1
        every = max(1, slots // _CURVE_POINTS)
        per_instance = weights.resources / (len(start) * self.application.max_instances)
        sizes, violations, reconfigurations, instances = start, 0, 0, 0
        curve = []
        inputs = planner.inputs

        def cost() -> float:
            changes = weights.reconfiguration * reconfigurations + weights.violation * violations
            return changes + per_instance * instances

        for slot, (level, next_level) in enumerate(pairwise(levels), start=1):
            before, after = (level,) * inputs, (next_level,) * inputs
            chosen = planner.choose(before, sizes)
            outcome = self.outcome(chosen, next_level)
            reconfigurations += chosen != sizes
            violations += bool(outcome.violated)
            sizes = chosen
            instances += sum(sizes)
            planner.learn(before, sizes, after, outcome)
            if slot % every == 0:
                curve.append(cost() / slot)
        return SlotTally(slots, cost(), violations, reconfigurations, instances, tuple(curve))


def chain_levels(matrix: Floats, start: int, seed: int) -> Iterable[int]:
    """Yield an endless Markov chain of levels with the transition probabilities ``[level, next level]``."""
    random = np.random.default_rng(seed)
    bounds = np.cumsum(matrix, axis=1)
    # Rounding must not leave a gap at the end, through which a draw could fall.
    bounds[:, -1] = 1.0
    rows = [row.searchsorted for row in bounds]
    level = start
    while True:
        for draw in random.random(65_536).tolist():
            yield level
            level = int(rows[level](draw, side="right"))


def levels_like(matrix: Floats, start: int, slots: int, seed: int) -> list[int]:
    """Return the levels of this many slots, and of the slot before them."""
    return list(islice(chain_levels(matrix, start, seed), slots + 1))

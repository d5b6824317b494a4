"""Operators as M/D/1 queues in slots of time: what the planning policies of russo are evaluated on.

In each slot a rate arrives, is spread evenly over the instances of every operator, and each instance is an M/D/1 queue
in steady state; nothing is carried over to the next slot. A slot costs its instances, a reconfiguration if any operator
changed, and a penalty if the response time, along the longest way through the graph, exceeds the bound (eq. 1).

The rate that counts is the one that arrives *in* the slot, which was not known when its sizes were chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise

import numpy as np

from headgate.core.topology import Topology
from headgate.core.types import Instant, Sample
from headgate.policies.planning.model import (
    ApplicationModel,
    Floats,
    Planner,
    RateGrid,
    Sizes,
    SlotOutcome,
    longest_path_s,
)
from headgate.simulation.contract import Warmed

Progress = Callable[[float], None]
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

    def run(self, planner: Planner, levels: Sequence[int], start: Sizes, progress: Progress | None = None) -> SlotTally:
        """Run a planner, which decides each slot from the level of the slot before it."""
        weights = self.application.weights
        slots = len(levels) - 1
        every = max(1, slots // _CURVE_POINTS)
        per_instance = weights.resources / (len(start) * self.application.max_instances)
        sizes, violations, reconfigurations, instances = start, 0, 0, 0
        curve = []
        inputs = planner.inputs
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
                spent = weights.reconfiguration * reconfigurations + weights.violation * violations
                curve.append((spent + per_instance * instances) / slot)
                if progress is not None:
                    progress(slot / slots)
        spent = weights.reconfiguration * reconfigurations + weights.violation * violations
        return SlotTally(slots, spent + per_instance * instances, violations, reconfigurations, instances, tuple(curve))


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


class SlottedKernel:
    """The same network as a kernel for the simulated engine, so that whole policies run on it.

    Sizes count for a slot as they are when it ends. There is no reading of a backlog, for nothing is carried over. A
    record at a saturated operator counts as taking its service time and the whole slot.
    """

    def __init__(
        self, application: ApplicationModel, rates_per_s: Sequence[float], *, slot_s: float = 60.0, ready: int = 1
    ) -> None:
        self._application = application
        self._rates_per_s = rates_per_s
        self._slot_s = slot_s
        self._ready = dict.fromkeys(application.operators, ready)
        self._now_s = 0.0
        self._slots = 0
        self._samples: dict[str, Sample] = {}

    @property
    def now_s(self) -> Instant:
        return self._now_s

    @property
    def topology(self) -> Topology:
        return self._application.topology

    def ready(self, operator: str) -> int:
        return self._ready[operator]

    def advance(self, to_s: Instant) -> None:
        while (end_s := (self._slots + 1) * self._slot_s) <= to_s:
            if self._slots < len(self._rates_per_s):
                rate = self._rates_per_s[self._slots]
                self._samples = {name: self._sample(name, end_s, rate) for name in self._application.operators}
            self._slots += 1
        self._now_s = to_s

    def resize(self, operator: str, ready: int, *, lost: bool = False) -> Sequence[Instant]:
        leaving, self._ready[operator] = self._ready[operator] - ready, ready
        return [self._now_s] * leaving

    def warmed(self, operator: str) -> Sequence[Warmed]:
        return ()

    def samples(self) -> Mapping[str, Sample]:
        return self._samples

    def _sample(self, name: str, at_s: Instant, rate_per_s: float) -> Sample:
        index = self._application.operators.index(name)
        service = self._application.service_rates_per_s[index]
        rate, ready = self._application.shares[index] * rate_per_s, self._ready[name]
        rho = rate / (ready * service)
        waiting_s = rho / (2 * service * (1 - rho)) if rho < 1 else self._slot_s
        return Sample(
            name,
            at_s,
            input_rate_per_s=rate,
            processed_rate_per_s=ready * service,
            latency_s=1 / service + waiting_s,
            processing_time_s=1 / service,
            scheduling_delay_s=waiting_s,
            utilization=min(1.0, rho),
        )

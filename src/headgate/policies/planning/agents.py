"""One agent per operator, each with its own small plan: russo's decentralised problem, and two steps beyond it.

Every agent plans over (its own rate, its own size) with eq. 2. Beyond the document:

- **Acting together.** The application pauses once, however many operators change. So each agent says what its best move
  would save it, and they all move or none does: when the savings together exceed the one reconfiguration. An agent then
  counts its share of the instances (eq. 1 divides by N) and of the reconfiguration.
- **A target that is found.** For each candidate target a set of shadow agents plans on the same rates, which no
  decision changes. What each set would have cost the application (eq. 1) is a decaying mean, and the agents in charge
  are those of the cheapest candidate.

Agents may also live apart, each with a planner of its own operator (``agents`` says how many there are): then each is
given what the moves of the others would save, and they act together by that number alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
    longest_path_s,
    position_of,
)
from headgate.policies.planning.solver import TIE

CANDIDATES = (0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9)
"""The targets that are tried side by side when none is set."""


class AgentsPlanner:
    """Agents for each operator and each candidate target; arrays are ``[candidate, operator, size, level]``."""

    def __init__(  # noqa: PLR0913 - one keyword per thing that distinguishes the document's agents from ours
        self,
        application: ApplicationModel,
        grids: Sequence[RateGrid],
        *,
        targets: Sequence[float] = CANDIDATES,
        together: bool = False,
        agents: int | None = None,
        known: bool = True,
        discount: float = 0.99,
        learning_rate: float = 0.1,
        sweeps: int = 1,
        memory_slots: float = 10_080.0,
    ) -> None:
        count, weights = len(application.operators), application.weights
        self.inputs = count
        self.targets = tuple(targets)
        self._application = application
        self._together = together
        self._discount = discount
        self._learning_rate = learning_rate
        self._sweeps = sweeps
        self._memory_slots = memory_slots
        share = (agents or count) if together else 1
        self._reconfiguration = weights.reconfiguration / share
        self._resources = weights.resources * application.sizes[:, None] / (application.max_instances * share)
        levels = max(grid.levels for grid in grids)
        self.transitions = [Transitions(levels) for _ in range(count)]
        self._by_next = np.stack([seen.by_next for seen in self.transitions])
        self._share_rows()
        rates_per_s = [RateGrid(grid.quantum_per_s, levels).rates_per_s for grid in grids]
        self._times_s, busy = _tables(application, rates_per_s)
        over: Bools = busy[None] > np.asarray(self.targets)[:, None, None, None]
        self.after: Floats = np.zeros(over.shape)
        self._penalty = weights.violation * over if known else None
        self._learned = None if known else np.zeros(over.shape)
        self.shadows: NDArray[np.int64] | None = None
        """Where each candidate's agents would be: ``[candidate, operator]``, as indices of sizes."""
        self._costs = np.zeros(len(self.targets))
        self._slots = 0

    @property
    def target(self) -> float:
        """The utilisation that the agents in charge keep below."""
        return self.targets[self._in_charge()]

    def choose(self, levels: Levels, sizes: Sizes, saved_elsewhere: float = 0.0) -> Sizes:
        """Return the next sizes; ``saved_elsewhere`` is what the moves of agents that live apart would save."""
        lowest = self._application.min_instances
        after = self.after[self._in_charge()][None]
        chosen = self._moves(after, levels, self._position(sizes), saved_elsewhere)[0]
        return tuple(int(index) + lowest for index in chosen)

    def saving(self, levels: Levels, sizes: Sizes) -> float:
        """Return what the best moves would save: the one number that other agents need."""
        stay, near = self._near(self.after[self._in_charge()][None], levels, self._position(sizes))
        return float((stay - near.min(axis=2)).sum())

    def _position(self, sizes: Sizes) -> NDArray[np.int64]:
        return np.array([position_of(sizes, self._application.min_instances, self._application.max_instances)])

    def learn(self, levels: Levels, sizes: Sizes, next_levels: Levels, outcome: SlotOutcome) -> None:
        for index, seen in enumerate(self.transitions):
            seen.add(levels[index], next_levels[index])
        if len(self.targets) > 1:
            self._shadow(levels, sizes, next_levels)
        if self._learned is not None and outcome.utilizations is not None:
            self._count(levels, sizes, outcome.utilizations)
        for _ in range(self._sweeps):
            self._sweep()

    @staticmethod
    def _near(after: Floats, levels: Levels, positions: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """Return the values of the present size, and of one fewer, the same and one more."""
        # [candidate, operator, size] at the present levels, with walls around the smallest and the largest size.
        values = np.full((*after.shape[:2], after.shape[2] + 2), np.inf)
        values[:, :, 1:-1] = after[:, np.arange(after.shape[1]), :, levels].transpose(1, 0, 2)
        near = np.take_along_axis(values, positions[:, :, None] + np.arange(3), axis=2)
        return near[:, :, 1], near

    def _moves(
        self, after: Floats, levels: Levels, positions: NDArray[np.int64], saved_elsewhere: float = 0.0
    ) -> NDArray[np.int64]:
        """Return the next sizes of the agents of each candidate."""
        stay, near = self._near(after, levels, positions)
        best = near.argmin(axis=2)
        saved = stay - near.min(axis=2)
        if not self._together:
            acts = saved > self._reconfiguration + TIE
        else:
            whole = self._application.weights.reconfiguration
            acts = (saved > TIE) & (saved.sum(axis=1) + saved_elsewhere > whole + TIE)[:, None]
        return np.where(acts, positions + best - 1, positions)

    def _sweep(self) -> None:
        after = self.after
        value = after.copy()
        np.minimum(value[:, :, 1:], after[:, :, :-1], out=value[:, :, 1:])
        np.minimum(value[:, :, :-1], after[:, :, 1:], out=value[:, :, :-1])
        value += self._reconfiguration
        np.minimum(value, after, out=value)
        value *= self._discount
        if self._penalty is not None:
            value += self._penalty
        result = np.matmul(value, self._by_next)
        result += self._resources
        if self._learned is not None:
            result += self._learned
        self.after = result

    def _count(self, levels: Levels, sizes: Sizes, utilizations: Sequence[float | None]) -> None:
        """Eq. 6 for each agent: the penalty of the size it had after the level it saw."""
        assert self._learned is not None
        weight, rate = self._application.weights.violation, self._learning_rate
        position = position_of(sizes, self._application.min_instances, self._application.max_instances)
        for index, busy in enumerate(utilizations):
            if busy is not None:
                incurred = weight * (busy > np.asarray(self.targets))
                cell = self._learned[:, index, position[index], levels[index]]
                cell += rate * (incurred - cell)

    def _shadow(self, levels: Levels, sizes: Sizes, next_levels: Levels) -> None:
        """Let every candidate's agents go on from where they would be, and count what that would have cost."""
        if self.shadows is None:
            start = position_of(sizes, self._application.min_instances, self._application.max_instances)
            self.shadows = np.tile(np.array(start), (len(self.targets), 1))
        chosen = self._moves(self.after, levels, self.shadows)
        reconfigured = (chosen != self.shadows).any(axis=1)
        self.shadows = chosen
        operators = self._application.operators
        times_s = {
            name: self._times_s[index, chosen[:, index], next_levels[index]] for index, name in enumerate(operators)
        }
        violated = self._application.is_over(longest_path_s(self._application.topology, times_s))
        weights = self._application.weights
        instances = (chosen + self._application.min_instances).sum(axis=1)
        used = instances / (len(operators) * self._application.max_instances)
        cost = weights.resources * used + weights.reconfiguration * reconfigured + weights.violation * violated
        self._slots += 1
        self._costs += (cost - self._costs) / min(self._slots, self._memory_slots)

    def _in_charge(self) -> int:
        if not self._slots:
            # Nothing was compared yet: the middle candidate.
            return len(self.targets) // 2
        return int(self._costs.argmin())

    def visits(self, levels: Levels) -> int:
        return min(seen.visits[level] for seen, level in zip(self.transitions, levels, strict=True))

    def _share_rows(self) -> None:
        """Let all counts write into one stacked array."""
        for index, seen in enumerate(self.transitions):
            self._by_next[index] = seen.by_next
            seen.by_next = self._by_next[index]

    def to_json(self) -> dict[str, JSON]:
        return {
            "transitions": [seen.to_json() for seen in self.transitions],
            "after": self.after.tolist(),
            "learned": None if self._learned is None else self._learned.tolist(),
            "shadows": None if self.shadows is None else self.shadows.tolist(),
            "costs": self._costs.tolist(),
            "slots": self._slots,
        }

    def load(self, state: Mapping[str, JSON]) -> None:
        after = floats_from(state["after"], self.after.shape)
        learned = None if self._learned is None else floats_from(state["learned"], self._learned.shape)
        costs = floats_from(state["costs"], self._costs.shape)
        shadows = None if state["shadows"] is None else np.asarray(state["shadows"], dtype=np.int64)
        if shadows is not None and (
            shadows.shape != after.shape[:2] or shadows.min() < 0 or shadows.max() >= after.shape[2]
        ):
            raise ValueError(f"shadow positions {shadows.tolist()} do not fit")
        slots = int(state["slots"])
        for seen, entries in zip(self.transitions, state["transitions"], strict=True):
            seen.load(entries)
        self._share_rows()
        self.after, self._learned, self._costs = after, learned, costs
        self.shadows, self._slots = shadows, slots


def _tables(application: ApplicationModel, rates_per_s: Sequence[Floats]) -> tuple[Floats, Floats]:
    """Response time and utilisation of each operator at its own rates: ``[operator, size, level]``."""
    times_s, busy = [], []
    for index, rates in enumerate(rates_per_s):
        # The rates of an agent are its operator's own, and an application's tables take those of the application.
        whole = rates / application.shares[index]
        times_s.append(application.response_times_s(whole)[index])
        busy.append(application.utilizations(whole)[index])
    return np.stack(times_s), np.stack(busy)

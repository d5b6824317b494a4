"""One planner for the whole application: state (rate, size of every operator), russo's centralised problem."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from headgate.core.errors import InputError
from headgate.core.types import JSON
from headgate.policies.planning.model import (
    ApplicationModel,
    Floats,
    Levels,
    RateGrid,
    Sizes,
    SlotOutcome,
    Transitions,
    floats_from,
    position_of,
)
from headgate.policies.planning.solver import best_move, expected, solve, value_of

MOST_CONFIGURATIONS = 20_000


def require_few_configurations(operators: int, min_instances: int, max_instances: int) -> None:
    """Refuse what cannot be enumerated."""
    count = (max_instances - min_instances + 1) ** operators
    if count > MOST_CONFIGURATIONS:
        raise InputError(
            f"{operators} operators of {min_instances} to {max_instances} instances have {count} configurations; at "
            f"most {MOST_CONFIGURATIONS} can be planned exactly. mdp-path plans for more."
        )


class CentralPlanner:
    """Learns how rates follow each other, and makes a sweep of value iteration per slot (russo Alg. 1).

    With ``known`` response time the penalty of every configuration at every *arriving* rate is computed (RL⁺). Without
    it, the penalty of having chosen a configuration at a rate is averaged from what happened (RL, eq. 6); it depends on
    state and action only through the configuration they lead to, so it is stored per configuration.
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
        count = len(application.operators)
        require_few_configurations(count, application.min_instances, application.max_instances)
        self._application = application
        self._weights = application.weights
        self._discount = discount
        self._learning_rate = learning_rate
        self._sweeps = sweeps
        self.transitions = Transitions(grid.levels)
        shape = (len(application.sizes),) * count + (grid.levels,)
        self.after: Floats = np.zeros(shape)
        self._resources = _resources(application)
        self._penalty: Floats | None = None
        self._learned: Floats | None = None
        if known:
            self._penalty = self._weights.violation * application.violations(grid.rates_per_s).astype(np.float64)
        else:
            self._learned = np.zeros(shape)

    def choose(self, levels: Levels, sizes: Sizes) -> Sizes:
        lowest = self._application.min_instances
        position = position_of(sizes, lowest, self._application.max_instances)
        chosen = best_move(self.after[..., levels[0]], position, self._weights.reconfiguration)
        return tuple(index + lowest for index in chosen)

    def learn(self, levels: Levels, sizes: Sizes, next_levels: Levels, outcome: SlotOutcome) -> None:
        self._count(levels, sizes, next_levels, outcome)
        for _ in range(self._sweeps):
            self.after = self.sweep(self.after)

    def _count(self, levels: Levels, sizes: Sizes, next_levels: Levels, outcome: SlotOutcome) -> None:
        self.transitions.add(levels[0], next_levels[0])
        if self._learned is not None and outcome.violated is not None:
            position = position_of(sizes, self._application.min_instances, self._application.max_instances)
            cell = (*position, levels[0])
            incurred = self._weights.violation if outcome.violated else 0.0
            self._learned[cell] += self._learning_rate * (incurred - self._learned[cell])

    def sweep(self, after: Floats) -> Floats:
        """One iteration of eq. 4 on the values of configurations."""
        value = value_of(after, self._weights.reconfiguration)
        value *= self._discount
        if self._penalty is not None:
            value += self._penalty
        result = expected(value, self.transitions.by_next)
        result += self._resources
        if self._learned is not None:
            result += self._learned
        return result

    def solve(self) -> int:
        """Plan exactly for what is known now; gives the number of sweeps."""
        self.after, sweeps = solve(self.sweep, self.after, self._discount)
        return sweeps

    def visits(self, levels: Levels) -> int:
        return self.transitions.visits[levels[0]]

    def to_json(self) -> dict[str, JSON]:
        return {
            "transitions": self.transitions.to_json(),
            "after": self.after.tolist(),
            "learned": None if self._learned is None else self._learned.tolist(),
        }

    def load(self, state: Mapping[str, JSON]) -> None:
        after = floats_from(state["after"], self.after.shape)
        learned = None if self._learned is None else floats_from(state["learned"], self._learned.shape)
        self.transitions.load(state["transitions"])
        self.after, self._learned = after, learned


class ExactPlanner(CentralPlanner):
    """Plans by full value iteration: for a known history of levels, and again every so many slots."""

    def __init__(
        self, application: ApplicationModel, grid: RateGrid, *, replan_every: int = 0, discount: float = 0.99
    ) -> None:
        super().__init__(application, grid, discount=discount)
        self._replan_every = replan_every
        self._slots = 0
        self._planned_visits = list(self.transitions.visits)

    def study(self, history: Sequence[int]) -> None:
        """Plan for levels that are known to have followed each other."""
        self.transitions = Transitions(len(self.transitions.visits), history)
        self.solve()

    def solve(self) -> int:
        self._planned_visits = list(self.transitions.visits)
        return super().solve()

    def learn(self, levels: Levels, sizes: Sizes, next_levels: Levels, outcome: SlotOutcome) -> None:
        if not self._replan_every:
            return
        self._count(levels, sizes, next_levels, outcome)
        self._slots += 1
        if self._slots % self._replan_every == 0:
            self.solve()

    def visits(self, levels: Levels) -> int:
        """What counts is what the plan was made with."""
        return self._planned_visits[levels[0]]

    def to_json(self) -> dict[str, JSON]:
        return {**super().to_json(), "slots": self._slots, "planned_visits": list(self._planned_visits)}

    def load(self, state: Mapping[str, JSON]) -> None:
        slots, visits = int(state["slots"]), [int(count) for count in state["planned_visits"]]
        if len(visits) != len(self._planned_visits):
            raise ValueError(f"visits of {len(visits)} levels do not fit {len(self._planned_visits)}")
        super().load(state)
        self._slots, self._planned_visits = slots, visits


def _resources(application: ApplicationModel) -> Floats:
    """The cost of the instances of every configuration, with an axis of one for the rate."""
    count = len(application.operators)
    used: Floats = np.zeros((1,) * (count + 1))
    for index in range(count):
        shape = [1] * (count + 1)
        shape[index] = len(application.sizes)
        used = used + application.sizes.reshape(shape)
    return application.weights.resources * used / (count * application.max_instances)

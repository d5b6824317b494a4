"""value-iteration: watch for a while, solve what was seen, go on learning from there (azimi §4.1.2, Alg. 4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

from headgate.core.types import JSON, Instances, Instant, Sample, Target
from headgate.core.units import format_duration
from headgate.core.window import Window
from headgate.policies.frame.base import Context, register
from headgate.policies.frame.settings import NameOf, PositiveSeconds
from headgate.policies.q_learning import ObservedState, QLearning, QLearningSettings
from headgate.policies.q_values.agent import Experience, Exploration
from headgate.policies.q_values.table import INITIALISERS, Action, Initialiser, QState, QTable

Pair = tuple[QState, Action]


@dataclass(slots=True)
class Experiences:
    """Counts of what followed what (azimi eq. 4.7)."""

    transitions: dict[Pair, dict[QState, int]] = field(default_factory=dict)
    """P: how often an action in a state led to another state."""
    rewards: dict[Pair, float] = field(default_factory=dict)
    """R: the sum of the rewards of an action in a state."""

    def add(self, state: QState, action: Action, reward: float, after: QState) -> None:
        followers = self.transitions.setdefault((state, action), {})
        followers[after] = followers.get(after, 0) + 1
        self.rewards[state, action] = self.rewards.get((state, action), 0.0) + reward

    def count(self, pair: Pair) -> int:
        """C: how often an action was taken in a state."""
        return sum(self.transitions.get(pair, {}).values())

    def to_json(self) -> list[JSON]:
        return [
            [
                *(state.bucket, state.rising, action.value, self.rewards[state, action]),
                [[after.bucket, after.rising, count] for after, count in followers.items()],
            ]
            for (state, action), followers in self.transitions.items()
        ]

    @classmethod
    def from_json(cls, rows: Iterable[JSON]) -> Experiences:
        made = cls()
        for bucket, rising, action, reward, followers in rows:
            pair = QState(int(bucket), bool(rising)), Action(action)
            made.rewards[pair] = float(reward)
            made.transitions[pair] = {QState(int(b), bool(r)): int(count) for b, r, count in followers}
        return made


def solve(
    table: QTable, seen: Experiences, *, discount_factor: float, threshold: float, most_sweeps: int
) -> tuple[int, float]:
    """Write into the table what the experiences are worth (azimi eqs. 4.6 and 4.8, Alg. 4).

    Actions that were never taken keep the value they have. Gives the number of sweeps, and by how much the last one
    changed the value of any state.

    >>> from headgate.policies.q_values.table import Grid
    >>> table, seen = QTable(Grid(target_s=30, granularity_s=10, max_s=20)), Experiences()
    >>> seen.add(QState(0, True), Action.NONE, 1.0, QState(0, True))
    >>> sweeps, change = solve(table, seen, discount_factor=0.5, threshold=1e-6, most_sweeps=100)
    >>> round(table.values(QState(0, True))[Action.NONE], 5), change < 1e-6
    (2.0, True)
    """
    best = {state: max(table.values(state)) for state in table.states()}
    change = 0.0
    for sweep in range(1, most_sweeps + 1):
        change = 0.0
        for state in sorted({state for state, _ in seen.transitions}, key=lambda state: (state.bucket, state.rising)):
            for action in Action:
                if count := seen.count((state, action)):
                    followers = seen.transitions[state, action].items()
                    to_come = sum(times * best[after] for after, times in followers) / count
                    table.put(state, action, seen.rewards[state, action] / count + discount_factor * to_come)
            before, best[state] = best[state], max(table.values(state))
            change = max(change, abs(before - best[state]))
        if change < threshold:
            return sweep, change
    return most_sweeps, change


class ValueIterationSettings(QLearningSettings):
    initialization_mode: Annotated[str, NameOf(INITIALISERS)] = Initialiser.ZERO
    """What the table holds at first, and afterwards for actions that were never taken."""
    value_iteration_initialization_time_s: PositiveSeconds = 300.0
    """How long experiences are collected; meanwhile actions are chosen by ``decreasing-one-minus-epsilon``."""
    value_iteration_initialization_count: Annotated[int, Field(ge=1)] = 1000
    """The most sweeps over all states."""
    value_iteration_threshold: Annotated[float, Field(gt=0)] = 1e-3
    """θ: solved when no state's value changes by more than this in a sweep."""
    epsilon: Annotated[float, Field(ge=0, le=1)] = 1.0
    """The probability of a random action at the beginning of the collection."""
    epsilon_step: Annotated[float, Field(ge=0, le=1)] = 0.05
    """What is taken off epsilon at each decision."""


@register
class ValueIteration(QLearning):
    """Collects experiences for a time, acting partly at random; solves them; then goes on as q-learning does.

    The document initialises the table once and learns by eq. 4.4 from then on, because a table that is never changed
    again would not follow the load.

    >>> from headgate.core.objective import parse_objective
    >>> from headgate.core.topology import Topology
    >>> from headgate.policies import Context, make_policy
    >>> policy = make_policy("value-iteration", Context(parse_objective("latency < 30s"), Topology.single()))
    >>> policy.settings.value_iteration_initialization_time_s
    300.0
    """

    name = "value-iteration"
    summary = "Collects experience for a time, solves it by dynamic programming, then learns on as q-learning."
    Settings = ValueIterationSettings

    def __init__(self, settings: ValueIterationSettings, context: Context) -> None:
        super().__init__(settings, context)
        self._collecting = settings
        self._experiences: dict[str, Experiences] = {}
        self._collected_s: dict[str, float] = {}
        """How long experiences were collected for each operator."""
        self._checked_s: dict[str, Instant] = {}
        self._solved: dict[str, int] = {}
        """Sweeps that it took for each operator that is done."""

    def size(self, now: Instant, window: Window, operator: str, instances: Instances, sample: Sample) -> Target:
        if operator not in self._solved:
            # Added up, so that a restart does not begin again; a pause does not count.
            passed_s = now - self._checked_s.get(operator, now)
            if 0 <= passed_s <= 2 * self.settings.decision_interval_s:
                self._collected_s[operator] = self._collected_s.get(operator, 0.0) + passed_s
            self._checked_s[operator] = now
            if self._collected_s.get(operator, 0.0) >= self._collecting.value_iteration_initialization_time_s:
                self._solve(operator)
        target = super().size(now, window, operator, instances, sample)
        return Target(target.instances, target.code, f"{self._phase(operator)}; {target.reason}", target.numbers)

    def _solve(self, operator: str) -> None:
        self._solved[operator], _ = solve(
            self._agent(operator).table,
            self._experiences.get(operator, Experiences()),
            discount_factor=self.settings.discount_factor,
            threshold=self._collecting.value_iteration_threshold,
            most_sweeps=self._collecting.value_iteration_initialization_count,
        )

    def _phase(self, operator: str) -> str:
        if operator in self._solved:
            return f"solved in {self._solved[operator]} sweeps"
        left_s = self._collecting.value_iteration_initialization_time_s - self._collected_s.get(operator, 0.0)
        return f"collecting experience for {format_duration(left_s)} more"

    def _exploration(self, operator: str) -> str:
        return self.settings.policy if operator in self._solved else Exploration.DECREASING

    def _learn(
        self,
        operator: str,
        last: Experience,
        done: Action,
        seen: ObservedState,
        *,
        chosen_value: float,
        best_value: float,
    ) -> float:
        if operator in self._solved:
            return super()._learn(operator, last, done, seen, chosen_value=chosen_value, best_value=best_value)
        reward = self._reward(last, done, seen)
        self._experiences.setdefault(operator, Experiences()).add(last.state, done, reward, seen.state)
        return reward

    def _state(self) -> dict[str, JSON]:
        return {
            **super()._state(),
            "experiences": {name: seen.to_json() for name, seen in self._experiences.items()},
            "collected_s": dict(self._collected_s),
            "observed_s": dict(self._checked_s),
            "solved": dict(self._solved),
        }

    def _restore_state(self, state: Mapping[str, JSON]) -> None:
        experiences = {str(name): Experiences.from_json(rows) for name, rows in state["experiences"].items()}
        collected_s = {str(name): float(spent_s) for name, spent_s in state["collected_s"].items()}
        checked_s = {str(name): float(at_s) for name, at_s in state["observed_s"].items()}
        solved = {str(name): int(sweeps) for name, sweeps in state["solved"].items()}
        super()._restore_state(state)
        self._experiences, self._collected_s = experiences, collected_s
        self._checked_s, self._solved = checked_s, solved

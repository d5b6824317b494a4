"""What an agent knows of a job's states: the value of each action in each (azimi §4.1.1, §4.2.1, §4.2.2).

A state is a bucket of latency and the direction of the load. Seen from the target latency there are four regions
(azimi fig. 4.3), and both the first values of the table and the rewards follow them:

=======  ===========  =====  ==========================================================
region   latency      load   what is preferred
=======  ===========  =====  ==========================================================
1        below        rises  the nearer to the target, the more an early scale-out
2        at or above  rises  scale-out
3        at or above  falls  no action: let the latency come down
4        below        falls  the farther from the target, the more a scale-in
=======  ===========  =====  ==========================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from headgate.core.errors import StateError
from headgate.core.plugins import Functions
from headgate.core.types import JSON


class Action(IntEnum):
    """In the order in which they stand in a table."""

    OUT = 0
    NONE = 1
    IN = 2

    @property
    def direction(self) -> int:
        """1 to add instances, -1 to remove some."""
        return 1 - self.value

    @classmethod
    def of(cls, change: int) -> Action:
        """The action that a change of size was."""
        return cls.NONE if change == 0 else cls.OUT if change > 0 else cls.IN

    def __str__(self) -> str:
        return ("scale out", "no action", "scale in")[self.value]


class Region(IntEnum):
    EARLY = 1
    VIOLATED = 2
    RECOVERING = 3
    RELAXED = 4

    @classmethod
    def of(cls, latency_share: float, *, rising: bool) -> Region:
        """``latency_share``: latency over target; ``rising``: whether the load rises.

        >>> [Region.of(0.5, rising=True), Region.of(1.0, rising=True)]
        [<Region.EARLY: 1>, <Region.VIOLATED: 2>]
        """
        if rising:
            return cls.EARLY if latency_share < 1 else cls.VIOLATED
        return cls.RELAXED if latency_share < 1 else cls.RECOVERING


class Initialiser(StrEnum):
    """What a table holds before anything was learned, in the document."""

    ZERO = "zero"
    RANDOM = "random"
    OPTIMIZED = "optimized"


def first_values(latency_share: float, *, rising: bool) -> tuple[float, float, float]:
    """The optimised first values of scale-out, no action and scale-in (azimi eqs. 4.9 to 4.13).

    >>> first_values(0.75, rising=True), first_values(1.5, rising=True)
    ((0.75, 0.25, 0.0), (1.5, 0.5, -1.0))
    >>> first_values(1.5, rising=False), first_values(0.25, rising=False)
    ((0.0, 1.0, -1.0), (0.0, 0.25, 0.75))
    """
    match Region.of(latency_share, rising=rising):
        case Region.EARLY:
            return latency_share, 1 - latency_share, 0.0
        case Region.VIOLATED:
            return latency_share, latency_share - 1, -1.0
        case Region.RECOVERING:
            return 0.0, 1.0, -1.0
        case Region.RELAXED:
            return 0.0, latency_share, 1 - latency_share


@dataclass(frozen=True, slots=True)
class NewState:
    """A state before anything was learned of it."""

    latency_share: float
    """The middle of its bucket over the target."""
    rising: bool
    """Whether the load rises."""
    random: np.random.Generator
    """The agent's own: draw from no other, so that a run can be repeated."""


FirstValues: TypeAlias = tuple[float, float, float]
"""Of scale-out, no action and scale-in."""
INITIALISERS: Functions[Callable[[NewState], FirstValues]] = Functions("initialiser", "headgate.initialisers")


@INITIALISERS.register(Initialiser.ZERO)
def _zero(state: NewState) -> FirstValues:
    return 0.0, 0.0, 0.0


@INITIALISERS.register(Initialiser.RANDOM)
def _random(state: NewState) -> FirstValues:
    out, none, in_ = state.random.uniform(-1, 1, len(Action))
    return float(out), float(none), float(in_)


@INITIALISERS.register(Initialiser.OPTIMIZED)
def _optimized(state: NewState) -> FirstValues:
    return first_values(state.latency_share, rising=state.rising)


@dataclass(frozen=True, slots=True)
class QState:
    bucket: int
    """Of the mean latency; the last one holds everything from the greatest latency on."""
    rising: bool
    """Whether the load rises."""


@dataclass(frozen=True, slots=True)
class Grid:
    """How latency is cut into buckets; all in seconds."""

    target_s: float
    granularity_s: float
    max_s: float

    @property
    def buckets(self) -> int:
        # Rounded, because 30 / (10 / 3) is a little less than 9.
        return math.floor(round(self.max_s / self.granularity_s, 9)) + 1

    def bucket(self, latency_s: float) -> int:
        return min(self.buckets - 1, math.floor(round(latency_s / self.granularity_s, 9)))

    def bounds_s(self, bucket: int) -> tuple[float, float]:
        """From (included) and to (not included)."""
        until_s = math.inf if bucket == self.buckets - 1 else (bucket + 1) * self.granularity_s
        return bucket * self.granularity_s, until_s

    def latency_share(self, bucket: int) -> float:
        """The middle of a bucket over the target: what its states are initialised by."""
        return (bucket + 0.5) * self.granularity_s / self.target_s


class QTable:
    """The value of each action in each state.

    >>> table = QTable(Grid(target_s=30, granularity_s=10, max_s=60))
    >>> before, after = QState(2, True), QState(3, True)
    >>> table.learn(before, Action.OUT, reward=1.0, next_value=0.5, learning_factor=0.7, discount_factor=0.9)
    >>> round(table.values(before)[Action.OUT], 3)
    1.015
    """

    def __init__(
        self, grid: Grid, initialiser: str = Initialiser.ZERO, random: np.random.Generator | None = None
    ) -> None:
        self.grid = grid
        self._values: NDArray[np.float64] = np.zeros((grid.buckets, 2, len(Action)))
        self._visits = np.zeros(self._values.shape, dtype=int)
        if initialiser != Initialiser.ZERO:
            first, source = INITIALISERS[initialiser], random or np.random.default_rng(0)
            for bucket in range(grid.buckets):
                for rising in (False, True):
                    state = NewState(grid.latency_share(bucket), rising, source)
                    self._values[bucket, int(rising)] = first(state)

    def state(self, latency_s: float, *, rising: bool) -> QState:
        return QState(self.grid.bucket(latency_s), rising)

    def states(self) -> list[QState]:
        return [QState(bucket, rising) for rising in (True, False) for bucket in range(self.grid.buckets)]

    def values(self, state: QState) -> tuple[float, float, float]:
        """Of scale-out, no action and scale-in."""
        out, none, in_ = self._values[state.bucket, int(state.rising)]
        return float(out), float(none), float(in_)

    def visits(self, state: QState) -> tuple[int, int, int]:
        """How often each action's value was learned from experience."""
        out, none, in_ = self._visits[state.bucket, int(state.rising)]
        return int(out), int(none), int(in_)

    def put(self, state: QState, action: Action, value: float, visits: int = 0) -> None:
        """Replace a value by one that was worked out otherwise."""
        self._values[state.bucket, int(state.rising), action] = value
        self._visits[state.bucket, int(state.rising), action] += visits

    def learn(
        self,
        state: QState,
        action: Action,
        *,
        reward: float,
        next_value: float,
        learning_factor: float,
        discount_factor: float,
    ) -> None:
        """Q ← (1 − α) Q + α (R + γ Q') (azimi eq. 4.4); what Q' is, is up to the caller."""
        at = state.bucket, int(state.rising), action
        learned = reward + discount_factor * next_value
        self._values[at] = (1 - learning_factor) * self._values[at] + learning_factor * learned
        self._visits[at] += 1

    def to_json(self) -> dict[str, JSON]:
        grid = self.grid
        return {
            "target_s": grid.target_s,
            "granularity_s": grid.granularity_s,
            "max_s": grid.max_s,
            "values": self._values.tolist(),
            "visits": self._visits.tolist(),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, JSON]) -> QTable:
        table = cls(Grid(float(data["target_s"]), float(data["granularity_s"]), float(data["max_s"])))
        values, visits = np.array(data["values"], dtype=float), np.array(data["visits"], dtype=int)
        if values.shape != table._values.shape or visits.shape != values.shape or not np.isfinite(values).all():
            raise StateError(
                f"a saved table has values of shape {values.shape}; {table._values.shape} finite ones are needed."
            )
        table._values, table._visits = values, visits
        return table


def best_action(values: tuple[float, float, float], feasible: Iterable[Action] = tuple(Action)) -> Action:
    """The feasible action of the highest value. Ties go to no action, then to scale-out, which is the safer side.

    >>> best_action((0.5, 0.5, 0.1)), best_action((0.5, 0.1, 0.5))
    (<Action.NONE: 1>, <Action.OUT: 0>)
    """
    preferred = {Action.NONE: 2, Action.OUT: 1, Action.IN: 0}
    return max(feasible, key=lambda action: (values[action], preferred[action]))


def feasible_actions(last: Action | None, latency_before_s: float | None, latency_s: float) -> tuple[Action, ...]:
    """What monotonicity leaves (azimi Alg. 5): no scale-in when latency rose in spite of a scale-out, and no scale-out
    when it fell in spite of a scale-in.

    >>> feasible_actions(Action.OUT, 10.0, 12.0)
    (<Action.OUT: 0>, <Action.NONE: 1>)
    """
    if last is None or latency_before_s is None:
        return tuple(Action)
    if last is Action.OUT and latency_s > latency_before_s:
        return Action.OUT, Action.NONE
    if last is Action.IN and latency_s < latency_before_s:
        return Action.NONE, Action.IN
    return tuple(Action)

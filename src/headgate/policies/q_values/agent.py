"""What one agent of q-learning knows, how it explores, and what rewards it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

import numpy as np

from headgate.core.plugins import Functions
from headgate.core.types import JSON, Instant
from headgate.core.units import plain
from headgate.policies.frame.base import StateTable
from headgate.policies.q_values.table import Action, QState, QTable, Region, best_action


class Reward(StrEnum):
    """The rules of the document: the first three, or all four."""

    PREFER_SCALE_IN = "prefer-scale-in-when-load-is-decreasing"
    LATENCY_ONLY = "latency-only"


_Row = tuple[float, float, float]
"""The rewards of scale-out, no action and scale-in."""


def _table(share: float) -> Mapping[tuple[Region, bool], _Row]:
    """By region and whether latency rose; ``share`` is latency over target, at most 1."""
    return {
        (Region.EARLY, True): (share, 1 - share, -1),
        (Region.EARLY, False): (share, 1 - share, 0),
        (Region.VIOLATED, True): (1, -1, -1),
        (Region.VIOLATED, False): (1, 0, -1),
        (Region.RECOVERING, True): (-1, 1, -1),
        (Region.RECOVERING, False): (0, 1, -1),
        (Region.RELAXED, True): (-1, -1, -1),
        (Region.RELAXED, False): (0, share, 1 - share),
    }


def _preferring_scale_in(share: float) -> Mapping[tuple[Region, bool], _Row]:
    return {
        **_table(share),
        (Region.RELAXED, True): (-1, share - 1, 1 - share),
        (Region.RELAXED, False): (0, share - 1, 1 - share),
    }


@dataclass(frozen=True, slots=True)
class ActionResult:
    """An action and the state that it led to, for its reward.

    >>> result = ActionResult(Action.OUT, latency_share=0.75, rising=True, latency_rose=True, instances=3)
    >>> REWARDS[Reward.PREFER_SCALE_IN](result)
    0.75
    """

    action: Action
    latency_share: float
    """Latency over target."""
    rising: bool
    """Whether the load rises."""
    latency_rose: bool
    """Since the action was taken."""
    instances: int
    """Planned now."""

    @property
    def region(self) -> Region:
        return Region.of(self.latency_share, rising=self.rising)


REWARDS: Functions[Callable[[ActionResult], float]] = Functions("reward", "headgate.rewards")


@REWARDS.register(Reward.PREFER_SCALE_IN)
def _reward_preferring_scale_in(result: ActionResult) -> float:
    table = _preferring_scale_in(min(1.0, result.latency_share))
    return float(table[result.region, result.latency_rose][result.action])


@REWARDS.register(Reward.LATENCY_ONLY)
def _reward_by_latency(result: ActionResult) -> float:
    return float(_table(min(1.0, result.latency_share))[result.region, result.latency_rose][result.action])


class Exploration(StrEnum):
    """How an action is chosen by the table, in the document."""

    GREEDY = "greedy"
    ONE_MINUS_EPSILON = "one-minus-epsilon"
    DECREASING = "decreasing-one-minus-epsilon"


@dataclass(frozen=True, slots=True)
class Choice:
    """What an agent chooses between."""

    values: tuple[float, float, float]
    """Of scale-out, no action and scale-in, in the present state."""
    feasible: tuple[Action, ...]
    epsilon: float
    epsilon_step: float
    random: np.random.Generator
    """The agent's own: draw from no other, so that a run can be repeated."""

    def drawn(self) -> Action:
        """Return a feasible action, each with the same probability."""
        return self.feasible[int(self.random.integers(len(self.feasible)))]


Explored: TypeAlias = tuple[Action | None, float]
"""The action that is tried, ``None`` for the best one, and epsilon from now on."""
EXPLORATIONS: Functions[Callable[[Choice], Explored]] = Functions("exploration", "headgate.explorations")


@EXPLORATIONS.register(Exploration.GREEDY)
def _greedy(choice: Choice) -> Explored:
    return None, choice.epsilon


@EXPLORATIONS.register(Exploration.ONE_MINUS_EPSILON)
def _one_minus_epsilon(choice: Choice) -> Explored:
    return choice.drawn() if choice.random.random() < choice.epsilon else None, choice.epsilon


@EXPLORATIONS.register(Exploration.DECREASING)
def _decreasing(choice: Choice) -> Explored:
    action, _ = _one_minus_epsilon(choice)
    return action, max(0.0, choice.epsilon - choice.epsilon_step)


@dataclass(frozen=True, slots=True)
class Experience:
    """What an agent saw and chose at its last decision."""

    at_s: Instant
    state: QState
    latency_s: float
    action: Action


@dataclass(slots=True)
class QAgent:
    """What is learned of one operator."""

    table: QTable
    random: np.random.Generator
    epsilon: float
    rising: bool = True
    checked_s: Instant | None = None
    last: Experience | None = None

    def to_json(self) -> dict[str, JSON]:
        last = self.last
        return {
            "table": self.table.to_json(),
            "random": self.random.bit_generator.state,
            "epsilon": self.epsilon,
            "rising": self.rising,
            "looked_s": self.checked_s,
            "last": None
            if last is None
            else [last.at_s, last.state.bucket, last.state.rising, last.latency_s, last.action.value],
        }

    @classmethod
    def from_json(cls, saved: Mapping[str, JSON]) -> QAgent:
        random = np.random.default_rng()
        random.bit_generator.state = saved["random"]
        last = None
        if saved["last"] is not None:
            at_s, bucket, rising, latency_s, action = saved["last"]
            last = Experience(float(at_s), QState(int(bucket), bool(rising)), float(latency_s), Action(action))
        checked_s = None if saved["looked_s"] is None else float(saved["looked_s"])
        table = QTable.from_json(saved["table"])
        return cls(table, random, float(saved["epsilon"]), bool(saved["rising"]), checked_s, last)


def region_table(operator: str, table: QTable, region: Region) -> StateTable:
    """The states of one region, with what each action is worth there."""
    rows = []
    for state in table.states():
        if Region.of(table.grid.latency_share(state.bucket), rising=state.rising) is not region:
            continue
        from_s, until_s = table.grid.bounds_s(state.bucket)
        values = table.values(state)
        span = f"{plain(from_s)} s and more" if until_s == float("inf") else f"{plain(from_s)} to {plain(until_s)} s"
        seen = sum(table.visits(state))
        rows.append((span, *(plain(value) for value in values), str(best_action(values)), str(seen) if seen else ""))
    load = "rising" if region in (Region.EARLY, Region.VIOLATED) else "falling"
    side = "below" if region in (Region.EARLY, Region.RELAXED) else "at or above"
    title = f"{operator}, region {region.value}: latency {side} {plain(table.grid.target_s)} s, load {load}"
    return StateTable(title, ("latency", *(str(action) for action in Action), "takes", "learned"), rows)

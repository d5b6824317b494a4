"""What one agent of q-learning knows, apart from how it decides: it can be saved, restored and shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from headgate.core.types import JSON, Instant
from headgate.core.units import plain
from headgate.policies.frame.base import StateTable
from headgate.policies.q_values.table import Action, QState, QTable, Region, best_action


class Reward(StrEnum):
    """Which rules count: the first three, or all four."""

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


_TABLES = {Reward.LATENCY_ONLY: _table, Reward.PREFER_SCALE_IN: _preferring_scale_in}


def reward_of(kind: Reward, action: Action, *, latency_share: float, rising: bool, latency_rose: bool) -> float:
    """Return the reward for an action by the state it led to.

    - ``latency_share``: latency over target; ``rising``: whether the load rises
    - ``latency_rose``: since the action was taken

    >>> reward_of(Reward.PREFER_SCALE_IN, Action.OUT, latency_share=0.75, rising=True, latency_rose=True)
    0.75
    """
    region = Region.of(latency_share, rising=rising)
    return float(_TABLES[kind](min(1.0, latency_share))[region, latency_rose][action])


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

"""What an agent is given for what it did (azimi §4.2.4): four rules, as one table.

1. An action after which latency rose gets a negative reward, with these exceptions:
2. While the load rises too, scale-out gets a positive reward, and doing nothing is as right as the target is far.
3. In region 3 no action gets a positive reward, so that the job can settle.
4. In region 4, with *prefer scale-in*, a scale-in is good even though latency rises a little, and doing nothing while
   latency falls gets a negative reward.

The document gives the signs. The sizes are ours: those of the table's first values (eqs. 4.10 to 4.13), held within
−1 and 1, for otherwise the rewards of a latency far over its target would make that a good place to be.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from headgate.policies.q_values.table import Action, Region


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
    """The reward for an action, told by the state it led to.

    - ``latency_share``: latency over target; ``rising``: whether the load rises
    - ``latency_rose``: since the action was taken

    >>> reward_of(Reward.PREFER_SCALE_IN, Action.OUT, latency_share=0.75, rising=True, latency_rose=True)
    0.75
    """
    region = Region.of(latency_share, rising=rising)
    return float(_TABLES[kind](min(1.0, latency_share))[region, latency_rose][action])

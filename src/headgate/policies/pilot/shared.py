"""One bound from end to end for several operators: what part of it each is given, and what a late record is worth.

Whichever operator makes a record late, it is late all the same. So it has one price, in money for all operators, and
every operator has a curve of what it costs with a given part of the bound (``division.py``): its instances, and the
records that it would make late. What is late at one operator by its part is at most late from end to end; the price
follows what really is, and takes back what that assumes too much.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from headgate.core.topology import Topology
from headgate.core.types import JSON, Instant
from headgate.forecast.contract import FloatArray
from headgate.policies.pilot.division import Curve, cost_of, divided, slack
from headgate.policies.pilot.price import LEAST_NEED
from headgate.policies.pilot.prospect import Prospect

DIVIDE_EVERY_S = 60.0
FEWEST_PARTS = 12
PARTS_EACH = 4
"""Into so many parts for each operator on the longest path the bound is cut, and no fewer than ``FEWEST_PARTS``."""
WORTH_IT = 0.03
"""A new division must be cheaper by this share: with every change of its part an operator may change its size."""


@dataclass(frozen=True, slots=True)
class Member:
    """What has to be known of an operator to divide: what may happen with a given part, and which sizes it can have."""

    ahead: Callable[[float], Prospect]
    """What may happen, by what part of the bound it has, in seconds."""
    need: float
    """Instances that its load needs."""
    sizes: FloatArray


class SharedBound:
    """Keeps the division of one bound, and looks now and then whether another is cheaper."""

    def __init__(self, topology: Topology, bound_s: float, prices: Mapping[str, float]) -> None:
        self._topology = topology
        self._bound_s = bound_s
        mean = sum(prices.values()) / len(prices) if prices else 0.0
        self._weights = {name: prices.get(name, mean) / mean if mean else 1.0 for name in topology.operators}
        """What an instance of each operator costs, over what one costs on average."""
        self._longest = -min(slack(topology, dict.fromkeys(topology.operators, 1), 0).values())
        """Operators on the longest path."""
        self._parts = max(FEWEST_PARTS, PARTS_EACH * self._longest)
        self._given = dict.fromkeys(topology.operators, self._parts // self._longest)
        # Half of an equal part at least: an operator that cannot be helped just now must not be given up.
        self._least = max(1, self._parts // self._longest // 2)
        self._dearer = dict.fromkeys(topology.operators, 1.0)
        """By how much dearer a late record is for each operator than if it were alone."""
        self._divided_s: Instant = -math.inf

    def bound_s(self, operator: str) -> float:
        """The part of the bound that an operator has."""
        return self._bound_s * self._given[operator] / self._parts

    def priced(self, operator: str, ahead: Prospect) -> Prospect:
        """What may happen to an operator, with late records at the price that they have for all."""
        return replace(ahead, late_price=ahead.late_price * self._dearer[operator])

    def is_due(self, now: Instant) -> bool:
        """Whether it is time to look for a better division; also where a clock went back."""
        return not self._divided_s <= now < self._divided_s + DIVIDE_EVERY_S

    def divide(self, now: Instant, members: Mapping[str, Member]) -> None:
        """Look for the division that costs least, all operators being known."""
        self._divided_s = now
        # A record that is late is so by the parts of several operators on its way, and counted at each of them.
        whole = sum(self._weights[name] * max(LEAST_NEED, member.need) for name, member in members.items())
        whole /= self._longest
        for name, member in members.items():
            weight = max(1e-9, self._weights[name])
            self._dearer[name] = whole / (weight * max(LEAST_NEED, member.need))
        curves = {name: self._curve(name, member) for name, member in members.items()}
        better = divided(self._topology, curves, self._parts, self._least)
        if cost_of(curves, better) < (1 - WORTH_IT) * cost_of(curves, self._given):
            self._given = better

    def _curve(self, name: str, member: Member) -> Curve:
        found = {}
        # The least is left for each of the others on the longest path there is.
        for parts in range(self._least, self._parts - self._least * (self._longest - 1) + 1):
            ahead = self.priced(name, member.ahead(self._bound_s * parts / self._parts))
            # What a part of the bound is worth in the long run; a change of size is weighed when there is one.
            late = ahead.rollout.rolled(member.sizes).lasting @ ahead.weights
            costs = member.sizes * ahead.paid_s + ahead.late_price * late
            found[parts] = float(self._weights[name] * np.min(costs))
        return found

    def to_json(self) -> dict[str, JSON]:
        return {
            "given": dict(self._given),
            "dearer": dict(self._dearer),
            "divided_s": None if math.isinf(self._divided_s) else self._divided_s,
        }

    def restore(self, saved: Mapping[str, JSON]) -> None:
        given = {name: int(saved["given"][name]) for name in self._topology.operators}
        if min(slack(self._topology, given, self._parts).values()) < 0 or min(given.values()) < self._least:
            raise ValueError(f"the division {given} does not fit {self._parts} parts")
        self._dearer = {name: float(saved["dearer"][name]) for name in self._topology.operators}
        self._given = given
        self._divided_s = -math.inf if saved["divided_s"] is None else float(saved["divided_s"])

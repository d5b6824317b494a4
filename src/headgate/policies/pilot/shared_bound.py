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
from itertools import permutations

import numpy as np

from headgate.core.topology import Topology
from headgate.core.types import JSON, Instant
from headgate.forecast.base import FloatArray
from headgate.policies.pilot.late_price import LEAST_NEED
from headgate.policies.pilot.lookahead import Prospect

Curve = Mapping[int, float]
"""The cost of an operator by the parts of the bound that it is given, from one part on."""
_HAIR = 1e-9
MOST_MOVES = 200


def divided(topology: Topology, curves: Mapping[str, Curve], parts: int, least: int = 1) -> dict[str, int]:
    """The parts that each operator is given, ``least`` to all; along no path are they more than ``parts`` together."""
    given = dict.fromkeys(topology.operators, least)
    while step := _best_step(topology, curves, given, parts):
        name, more = step
        given[name] += more
    for _ in range(MOST_MOVES):
        if not _improve(topology, curves, given, parts, least):
            break
    _give_rest(topology, curves, given, parts)
    return given


def cost_of(curves: Mapping[str, Curve], given: Mapping[str, int]) -> float:
    """What all operators cost together."""
    return sum(curves[name][parts] for name, parts in given.items())


def slack(topology: Topology, given: Mapping[str, int], parts: int) -> dict[str, int]:
    """By how many parts each operator could be given more, so that the longest path through it is still allowed."""
    before: dict[str, int] = {}
    for name in topology.order:
        before[name] = given[name] + max((before[source] for source in topology.upstream(name)), default=0)
    after: dict[str, int] = {}
    for name in reversed(topology.order):
        after[name] = given[name] + max((after[target] for target in topology.downstream(name)), default=0)
    return {name: parts - (before[name] + after[name] - given[name]) for name in topology.operators}


def _best_step(
    topology: Topology, curves: Mapping[str, Curve], given: Mapping[str, int], parts: int
) -> tuple[str, int] | None:
    """Which operator to give how many more: the one that saves the most for each part."""
    best, found = _HAIR, None
    for name, left in slack(topology, given, parts).items():
        now = curves[name][given[name]]
        # Several at once: sizes are whole numbers, so that one part alone may save nothing.
        for more in range(1, left + 1):
            if given[name] + more not in curves[name]:
                break
            saved = (now - curves[name][given[name] + more]) / more
            if saved > best:
                best, found = saved, (name, more)
    return found


def _improve(topology: Topology, curves: Mapping[str, Curve], given: dict[str, int], parts: int, least: int) -> bool:
    """Move parts from one operator to another where that makes it cheaper; says whether it did."""
    cost = cost_of(curves, given)
    for source, target in permutations(given, 2):
        for moved in range(1, given[source] - least + 1):
            if given[target] + moved not in curves[target]:
                break
            trial = {**given, source: given[source] - moved, target: given[target] + moved}
            if cost_of(curves, trial) < cost - _HAIR and min(slack(topology, trial, parts).values()) >= 0:
                given.update(trial)
                return True
    return False


def _give_rest(topology: Topology, curves: Mapping[str, Curve], given: dict[str, int], parts: int) -> None:
    """What saves nothing is better given than kept: to those first that have the least."""
    while open_ones := [
        name for name, left in slack(topology, given, parts).items() if left > 0 and given[name] + 1 in curves[name]
    ]:
        given[min(open_ones, key=lambda name: given[name])] += 1


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

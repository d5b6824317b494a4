"""Divides one end-to-end latency bound among several operators where it saves the most.

A late record has one price in money, whichever operator delays it. Every operator has a cost curve: the cost of its
instances and late records by the part of the bound that it gets. A slow operator with expensive records saves instances
if it may take longer; one that needs a single instance anyway saves nothing. Parts of the bound go, step by step, to
where they save the most, as long as no path through the graph exceeds the bound; then exchanges between two operators
are tried. A record over its part at one operator is not necessarily late end to end: the price corrects for that.

>>> from headgate.core.topology import Topology
>>> expensive = {1: 90.0, 2: 40.0, 3: 20.0, 4: 19.0}
>>> cheap = {1: 10.0, 2: 10.0, 3: 10.0, 4: 10.0}
>>> divide_parts(Topology.of(("parse", "enrich")), {"parse": cheap, "enrich": expensive}, 5)
{'parse': 1, 'enrich': 4}
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
from headgate.policies.pilot.lookahead import Lookahead

Curve = Mapping[int, float]
"""The cost of an operator by its number of parts of the bound, from one part on."""
_HAIR = 1e-9
MOST_MOVES = 200


def divide_parts(topology: Topology, curves: Mapping[str, Curve], parts: int, least: int = 1) -> dict[str, int]:
    """Return the parts of each operator, at least ``least``; along no path do they add up to more than ``parts``."""
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
    """Return the total cost of a division."""
    return sum(curves[name][parts] for name, parts in given.items())


def slack(topology: Topology, given: Mapping[str, int], parts: int) -> dict[str, int]:
    """Return how many more parts each operator could get without the longest path through it exceeding ``parts``."""
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
    """Return the operator that saves the most per additional part, and how many; ``None`` if none saves anything."""
    best, found = _HAIR, None
    for name, left in slack(topology, given, parts).items():
        now = curves[name][given[name]]
        # Several at once: sizes are whole numbers, so a single part may save nothing.
        for more in range(1, left + 1):
            if given[name] + more not in curves[name]:
                break
            saved = (now - curves[name][given[name] + more]) / more
            if saved > best:
                best, found = saved, (name, more)
    return found


def _improve(topology: Topology, curves: Mapping[str, Curve], given: dict[str, int], parts: int, least: int) -> bool:
    """Move parts between two operators if that is cheaper; return whether it was."""
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
    """Distribute parts that save nothing, to the operators with the fewest first."""
    while extensible := [
        name for name, left in slack(topology, given, parts).items() if left > 0 and given[name] + 1 in curves[name]
    ]:
        given[min(extensible, key=lambda name: given[name])] += 1


DIVIDE_EVERY_S = 60.0
FEWEST_PARTS = 12
PARTS_EACH = 4
"""Parts of the bound per operator on the longest path, and at least ``FEWEST_PARTS``."""
WORTH_IT = 0.03
"""A new division must be cheaper by this share, since every change may rescale operators."""


@dataclass(frozen=True, slots=True)
class DivisionInput:
    """What is needed about an operator to divide the bound."""

    ahead: Callable[[float], Lookahead]
    """The lookahead by the operator's part of the bound in seconds."""
    need: float
    """Instances that its load needs."""
    sizes: FloatArray
    """Sizes to consider."""


class SharedBound:
    """The current division of one bound, updated once a minute if another one is cheaper."""

    def __init__(self, topology: Topology, bound_s: float, prices: Mapping[str, float]) -> None:
        self._topology = topology
        self._bound_s = bound_s
        mean = sum(prices.values()) / len(prices) if prices else 0.0
        self._weights = {name: prices.get(name, mean) / mean if mean else 1.0 for name in topology.operators}
        """Price of an instance of each operator, relative to the mean."""
        self._longest = -min(slack(topology, dict.fromkeys(topology.operators, 1), 0).values())
        """Operators on the longest path."""
        self._parts = max(FEWEST_PARTS, PARTS_EACH * self._longest)
        self._given = dict.fromkeys(topology.operators, self._parts // self._longest)
        # At least half of an equal part: an operator that cannot be helped just now must not be given up.
        self._least = max(1, self._parts // self._longest // 2)
        self._dearer = dict.fromkeys(topology.operators, 1.0)
        """Factor on the price of a late record of each operator, compared with a job of this operator alone."""
        self._divided_s: Instant = -math.inf

    def bound_s(self, operator: str) -> float:
        """Return an operator's part of the bound in seconds."""
        return self._bound_s * self._given[operator] / self._parts

    def priced(self, operator: str, ahead: Lookahead) -> Lookahead:
        """Return a lookahead with the common price of late records."""
        return replace(ahead, late_price=ahead.late_price * self._dearer[operator])

    def is_due(self, now: Instant) -> bool:
        """Whether it is time to look for a better division; also true after a clock went back."""
        return not self._divided_s <= now < self._divided_s + DIVIDE_EVERY_S

    def divide(self, now: Instant, members: Mapping[str, DivisionInput]) -> None:
        """Adopt the cheapest division if it is enough better; all operators must be known."""
        self._divided_s = now
        # A late record exceeds the parts of several operators on its path and is counted at each of them.
        whole = sum(self._weights[name] * max(LEAST_NEED, member.need) for name, member in members.items())
        whole /= self._longest
        for name, member in members.items():
            weight = max(1e-9, self._weights[name])
            self._dearer[name] = whole / (weight * max(LEAST_NEED, member.need))
        curves = {name: self._curve(name, member) for name, member in members.items()}
        better = divide_parts(self._topology, curves, self._parts, self._least)
        if cost_of(curves, better) < (1 - WORTH_IT) * cost_of(curves, self._given):
            self._given = better

    def _curve(self, name: str, member: DivisionInput) -> Curve:
        found = {}
        # The least part is left for each of the others on the longest path.
        for parts in range(self._least, self._parts - self._least * (self._longest - 1) + 1):
            ahead = self.priced(name, member.ahead(self._bound_s * parts / self._parts))
            # The long-term cost counts; the cost of a change is considered when there is one.
            late = ahead.rollout.roll(member.sizes).steady_late @ ahead.weights
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

"""Dividing a bound on latency from end to end among operators, where it buys most.

Every operator has a curve: what it costs if it is given so much of the bound. A slow operator with dear records saves
instances when it may take longer; one that has to have an instance anyway saves nothing. Parts of the bound go, step by
step, to where they save the most for what they are, as long as no path through the graph becomes longer than the bound;
then it is looked whether moving some from one operator to another makes it cheaper still.

>>> from headgate.core.topology import Topology
>>> dear = {1: 90.0, 2: 40.0, 3: 20.0, 4: 19.0}
>>> cheap = {1: 10.0, 2: 10.0, 3: 10.0, 4: 10.0}
>>> divided(Topology.of(("parse", "enrich")), {"parse": cheap, "enrich": dear}, 5)
{'parse': 1, 'enrich': 4}
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations

from headgate.core.topology import Topology

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

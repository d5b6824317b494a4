"""An objective from end to end, divided among the operators of a graph.

A policy that looks at one operator at a time needs an objective for each. Each gets as large a part of the bound as the
others on the longest path through it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from headgate.core.objective import Objective
from headgate.core.slo import LatencySlo, Slo
from headgate.core.topology import Topology


def equal_shares(topology: Topology) -> dict[str, float]:
    """What part of a bound from end to end each operator gets if all on the longest path through it get the same.

    >>> equal_shares(Topology.of(("a", "b"), ("b", "d"), ("a", "d")))
    {'a': 0.3333333333333333, 'b': 0.3333333333333333, 'd': 0.3333333333333333}
    """
    before: dict[str, int] = {}
    for name in topology.order:
        before[name] = 1 + max((before[source] for source in topology.upstream(name)), default=0)
    after: dict[str, int] = {}
    for name in reversed(topology.order):
        after[name] = 1 + max((after[target] for target in topology.downstream(name)), default=0)
    return {name: 1 / (before[name] + after[name] - 1) for name in topology.operators}


def divided(asked: Objective, topology: Topology, own: Mapping[str, Slo], *, sees_graph: bool) -> Objective:
    """What is asked, with the operators' own objectives and bounds that hold for all of them.

    A policy that does not see the whole graph gets the bound divided. So does any policy where an operator has an
    objective of its own, for the others.
    """
    slo, each = asked.slo, dict(own)
    if len(topology.operators) > 1 and (own or not sees_graph) and isinstance(slo, LatencySlo):
        shares = equal_shares(topology)
        each = {name: replace(slo, bound_s=slo.bound_s * share) for name, share in shares.items()} | each
    bounds = [asked.bounds_of(name, topology) for name in topology.operators]
    return replace(asked, operators=each).within(min(low for low, _ in bounds), max(high for _, high in bounds))

"""What a load at the sources asks of every operator of a graph: one pass, each operator after those that feed it."""

from __future__ import annotations

from collections.abc import Mapping

from headgate.core.topology import Topology
from headgate.policies.flow.measured import Flow


def carried_on(
    topology: Topology, flows: Mapping[str, Flow], given: Mapping[str, float | None]
) -> dict[str, float | None]:
    """What each operator gets when all those before it keep up, beside what it is given itself; records per second.

    Sources are given what is offered. What cannot be known, because something before an operator is not, is ``None``.

    >>> graph = Topology.of(("parse", "count"), ("count", "store"))
    >>> flows = {
    ...     "parse": Flow(done_per_s=50, emitted_per_s=200),
    ...     "count": Flow(arrived_per_s=200, done_per_s=100, emitted_per_s=10),
    ...     "store": Flow(arrived_per_s=10),
    ... }
    >>> carried_on(graph, flows, {"parse": 100.0})
    {'parse': 100.0, 'count': 400.0, 'store': 40.0}
    """
    rates: dict[str, float | None] = {}
    for operator in topology.order:
        upstream = topology.upstream(operator)
        parts = [_product(rates[source], output_ratio(topology, flows, source, operator)) for source in upstream]
        if not upstream or operator in given:
            parts.append(given.get(operator))
        known = [part for part in parts if part is not None]
        rates[operator] = sum(known) if len(known) == len(parts) else None
    return rates


def output_ratio(topology: Topology, flows: Mapping[str, Flow], source: str, operator: str) -> float | None:
    """Records that an operator gets for each record done by one that feeds it.

    An operator that is fed by one other is asked itself; of those that are fed by several it is only known what each of
    the others gives to everybody downstream, each of whom gets a copy.
    """
    done_per_s = flows.get(source, Flow()).done_per_s
    if not done_per_s:
        return None
    given = None
    if topology.upstream(operator) == (source,):
        flow = flows.get(operator, Flow())
        # What waits further up has not been done by the source either.
        given = flow.arrived_per_s if flow.given_per_s is None else flow.given_per_s
    if given is None:
        given = flows.get(source, Flow()).emitted_per_s
    return None if given is None else given / done_per_s


def _product(rate: float | None, ratio: float | None) -> float | None:
    # Nothing in gives nothing out, whatever the ratio is.
    if rate == 0:
        return 0.0
    return None if rate is None or ratio is None else rate * ratio

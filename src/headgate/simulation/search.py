"""Finding moments in time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from headgate.workloads.contract import Workload

BENDS = 64
"""Into so many straight lines a curve is cut where its truth is told."""


def bends_s(from_s: float, until_s: float) -> list[float]:
    """The moments from one time on, the other left out, between which a curve is as good as straight."""
    return [from_s + part / BENDS * (until_s - from_s) for part in range(BENDS)]


def first_time_s(is_after: Callable[[float], bool], from_s: float, to_s: float) -> float:
    """The moment from which on a condition holds, to the last bit, by halving.

    It does not hold just after ``from_s``, holds at ``to_s`` and changes once in between.

    >>> first_time_s(lambda at_s: at_s * at_s > 2.0, 0.0, 2.0)
    1.4142135623730951
    """
    low_s, high_s = from_s, to_s
    while low_s < (middle_s := (low_s + high_s) / 2) < high_s:
        if is_after(middle_s):
            high_s = middle_s
        else:
            low_s = middle_s
    return high_s


def arrival_time_s(workload: Workload, from_s: float, count: float, until_s: float) -> float:
    """When the first record after ``count`` others arrives, counted from a time on; ``until_s`` if it does not by then.

    >>> from headgate.workloads import parse_workload
    >>> round(arrival_time_s(parse_workload("spike:base=0,peak=10,at=60s,width=60s"), 0.0, 50.0, 600.0), 6)
    65.0
    """
    while from_s < until_s:
        if count <= 0 and workload.rate_per_s(from_s) > 0:
            return from_s
        turn_s = min(until_s, workload.next_turn_s(from_s))
        arrivals = workload.arrivals(from_s, turn_s)
        if arrivals > count:
            return first_time_s(partial(_more_arrive, workload, count, from_s), from_s, turn_s)
        count -= arrivals
        from_s = turn_s
    return until_s


def _more_arrive(workload: Workload, count: float, from_s: float, to_s: float) -> bool:
    return workload.arrivals(from_s, to_s) > count

"""How many instances the load of an operator takes just now, by what its instances were seen to get through.

It is made of counters alone, so that it means the same for every engine and policy. Instances that are busy for a
share of their time, and get through less or more than arrives, tell how many would be busy with just what arrives. An
objective that is nearly used up by fewer records than that (a batch takes its time however few wait) needs more.
"""

from __future__ import annotations

import math

from headgate.core.slo import Slo
from headgate.core.types import Sample
from headgate.core.window import Window
from headgate.policies.frame.readings import work_pressure

SPAN_S = 30.0
"""What came and was done is counted over so long: a few readings, and not longer than a load takes to change."""
HEADROOM = 0.9
"""Share of what instances can carry, and of what the objective allows, that may be used up."""


def needed_for_load(window: Window, operator: str, slo: Slo) -> int | None:
    """Instances that keep up with what arrives, within the objective; ``None`` where it cannot be told."""
    newest = window.sample(operator)
    before = None if newest is None else window.sample_at(operator, newest.at_s - SPAN_S)
    ready = _mean_ready(window, operator, SPAN_S)
    if newest is None or before is None or not ready:
        return None
    busy = _busy_with_arrivals(before, newest, ready)
    if busy is None:
        return None
    pressure = work_pressure(slo, newest)
    # One that is late has to catch up, which is told by itself; how late it is says nothing of what keeps up.
    strained = ready * pressure if pressure is not None and pressure <= 1 else 0.0
    return math.ceil(round(max(busy, min(strained, HEADROOM * ready)) / HEADROOM, 9))


def _busy_with_arrivals(before: Sample, newest: Sample, ready: float) -> float | None:
    """How many instances would have been busy all the time, had they done just what arrived."""
    arrived, done = _more(before.arrived, newest.arrived), _more(before.done, newest.done)
    busy_s, available_s = _more(before.busy_s, newest.busy_s), _more(before.available_s, newest.available_s)
    if arrived == 0:
        return 0.0
    if not done or not busy_s or not available_s or arrived is None:
        return None
    return ready * min(1.0, busy_s / available_s) * arrived / done


def _more(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None or after < before else float(after - before)


def _mean_ready(window: Window, operator: str, span_s: float) -> float:
    sizes: list[int] = []
    for observation in reversed(window.observations):
        if sizes and observation.at_s < window.observations[-1].at_s - span_s:
            break
        if (instances := observation.instances.get(operator)) is not None:
            sizes.append(instances.ready)
    return sum(sizes) / len(sizes) if sizes else 0.0

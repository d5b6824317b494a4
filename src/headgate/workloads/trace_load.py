"""A public trace, or a part of it, as a workload: with its own rates or with another peak."""

from __future__ import annotations

import math

from headgate.core.errors import InputError
from headgate.workloads.numbers import plain, require_length, require_rate, require_time
from headgate.workloads.steps import Steps
from headgate.workloads.traces import read_trace


def trace_load(name: str, *, peak: float | None = None, from_s: float = 0.0, lasting_s: float | None = None) -> Steps:
    """The rates of a trace from a time of it on, for a while or to its end.

    With ``peak``, the highest rate of the part that is taken is this one, in records per second, and all others are in
    proportion.
    """
    require_time("from", from_s)
    trace = read_trace(name)
    end_s = len(trace.rates_per_s) * trace.step_s
    until_s = end_s if lasting_s is None else from_s + lasting_s
    if lasting_s is not None:
        require_length("lasting", lasting_s)
    if not (from_s < end_s and until_s <= end_s):
        raise InputError(f"trace {name!r} ends at {plain(end_s)}s; {plain(from_s)}s to {plain(until_s)}s is not in it.")
    first, end = int(from_s // trace.step_s), math.ceil(until_s / trace.step_s)
    rates_per_s = trace.rates_per_s[first:end]
    notes: tuple[str, ...] = ()
    if peak is not None:
        require_rate("peak", peak)
        highest_per_s = float(rates_per_s.max())
        if highest_per_s == 0:
            raise InputError(f"trace {name!r} has no records from {plain(from_s)}s to {plain(until_s)}s to scale.")
        factor = peak / highest_per_s
        rates_per_s = rates_per_s * factor
        notes = (f"multiplied by {factor:.6g}, for a peak of {plain(peak)} records/s",)
    bounds_s = [0.0, *(step * trace.step_s - from_s for step in range(first + 1, end)), until_s - from_s]
    return Steps(bounds_s, rates_per_s.tolist(), _described(name, peak, from_s, lasting_s), notes=notes)


def _described(name: str, peak: float | None, from_s: float, lasting_s: float | None) -> str:
    parts = [f"trace:{name}"]
    if peak is not None:
        parts.append(f"peak={plain(peak)}")
    if from_s:
        parts.append(f"from={plain(from_s)}s")
    if lasting_s is not None:
        parts.append(f"lasting={plain(lasting_s)}s")
    return ",".join(parts)

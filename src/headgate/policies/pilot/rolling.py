"""The loop of the rollout, for a compiler: the same steps as with arrays in ``stepping.py``, and the same results.

One size and one scenario after the other, a batch at a time.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headgate.forecast.compiled import compiled
from headgate.forecast.contract import FloatArray
from headgate.policies.pilot.grades import AHEAD_S
from headgate.policies.pilot.load import BIN_S

MOST_BATCHES = 120
LEAST_RECORDS = 0.5
"""Fewer records than this make no batch."""
LEAST_CYCLE_S = 0.2
BATCHES_TO_END = 100
"""Batches that follow each other faster than this many until the end are looked at together."""


class Inputs(NamedTuple):
    """What the loop needs to know; see ``rollout.py`` for what each is."""

    cumulative: FloatArray
    """Records that have arrived by the edges of the bins, one row per scenario."""
    last_counts: FloatArray
    past: int
    """Bins that are over."""
    ratios: FloatArray
    start_power: FloatArray
    """What the instances there are get through, by size."""
    power: FloatArray
    join_s: FloatArray
    """When the others join, by size and scenario."""
    grows: NDArray[np.bool_]
    """Whether others join."""
    standstill_s: float
    """For how long nothing is done once they have joined, or others have left."""
    left_s: float
    """For how long nothing is done from now on, because the size has just changed."""
    begins_s: float
    waiting: float
    batch_records: float
    bound_s: float
    trigger_s: float
    next_trigger_s: float
    fixed_s: float
    divided: float
    """The part of the fixed time that is divided among instances."""
    each_s: float
    warm_factor: float
    until_s: float
    least_cycle_s: float
    """How soon a batch follows another one at most."""


@compiled
def _arrived_by(cumulative: FloatArray, last_count: float, past: int, at_s: float) -> float:
    edges = len(cumulative) - 1
    place = at_s / BIN_S + past
    index = min(max(int(place), 0), edges - 1)
    low, high = cumulative[index], cumulative[index + 1]
    share = min(max(place - index, 0.0), 1.0)
    return float(low + share * (high - low) + max(0.0, place - edges) * last_count)


@compiled
def _took_s(
    powers: tuple[float, float], fixed_s: tuple[float, float], left_s: float, work: float, dearer: float
) -> float:
    """How long a batch takes that begins so long before instances join; what is left of it then is divided anew.

    Powers and the fixed time are those before and after that; afterwards work is ``dearer``.
    """
    start_power, power = powers
    if left_s <= 0:
        return fixed_s[1] + dearer * work / power
    alone_s = max(0.0, left_s - fixed_s[0])
    before_s = work / start_power
    left = max(0.0, work - alone_s * start_power)
    return fixed_s[0] + (before_s if before_s <= alone_s else alone_s + left / power)


@compiled
def _following_s(given: Inputs, at_s: float) -> float:
    """The first time after ``at_s`` at which a batch can start."""
    if given.trigger_s <= given.least_cycle_s:
        return at_s + given.least_cycle_s
    passed = math.floor((at_s - given.next_trigger_s) / given.trigger_s + 1e-9)
    return given.next_trigger_s + (passed + 1) * given.trigger_s


@compiled
def _course(given: Inputs, size: int, scenario: int) -> tuple[float, float, float, float]:
    """One size and one scenario, a batch at a time."""
    cumulative, last_count, past = given.cumulative[scenario], given.last_counts[scenario], given.past
    taken = max(0.0, _arrived_by(cumulative, last_count, past, 0.0) - given.waiting - given.batch_records)
    at_s, late, done_ahead, out_ahead = given.begins_s, 0.0, taken, taken
    is_cold = given.grows[size]
    join_s = given.join_s[size, scenario]
    goes_on_s = join_s + given.standstill_s
    powers = given.start_power[size], given.power[size]
    # What does not change from batch to batch is reckoned once: divisions are what this loop spends its time on.
    fixed_before_s = given.fixed_s * (1 - given.divided + given.divided / powers[0])
    fixed_after_s = given.fixed_s * (1 - given.divided + given.divided / powers[1])
    ratios, turn = given.ratios[scenario], 0
    for step in range(MOST_BATCHES):
        if join_s <= at_s < goes_on_s:
            at_s = goes_on_s
        is_running = step == 0 and given.batch_records > 0
        arrived = _arrived_by(cumulative, last_count, past, at_s)
        records = max(0.0, arrived - taken)
        if is_running:
            records = given.batch_records
        ratio = ratios[turn]
        turn = turn + 1 if turn + 1 < len(ratios) else 0
        fixed_s = fixed_before_s * ratio, fixed_after_s * ratio
        dearer = given.warm_factor if is_cold else 1.0
        took_s = _took_s(powers, fixed_s, join_s - at_s, given.each_s * records * ratio, dearer)
        is_cold = is_cold and at_s < join_s
        if is_running:
            # What runs already has taken its time so far; it ends after now.
            took_s = max(took_s, LEAST_CYCLE_S + given.left_s - given.begins_s)
        if at_s < join_s < at_s + took_s:
            took_s += given.standstill_s
        ended_s, works = at_s + took_s, records >= LEAST_RECORDS
        served = records if works else 0.0
        if works:
            overdue = arrived
            if ended_s - given.bound_s < at_s:
                overdue = _arrived_by(cumulative, last_count, past, ended_s - given.bound_s)
            late += min(max(overdue - taken, 0.0), records)
        if at_s <= AHEAD_S:
            done_ahead = taken + min(max((AHEAD_S - at_s) / max(took_s, 1e-9), 0.0), 1.0) * served
            out_ahead = taken + (served if ended_s <= AHEAD_S else 0.0)
        taken = taken + served
        at_s = max(ended_s if works else at_s, _following_s(given, at_s))
        if at_s >= given.until_s:
            break
    left = max(0.0, _arrived_by(cumulative, last_count, past, at_s) - taken)
    by_ahead = _arrived_by(cumulative, last_count, past, AHEAD_S)
    return late, left, max(0.0, by_ahead - done_ahead), max(0.0, by_ahead - out_ahead)


@compiled
def rolled_batches(given: Inputs) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Records that were late, that wait at the end, and ``AHEAD_S`` from now: not done, and without a result yet."""
    sizes, scenarios = given.join_s.shape
    found = np.zeros((4, sizes, scenarios))
    for size in range(sizes):
        for scenario in range(scenarios):
            found[:, size, scenario] = _course(given, size, scenario)
    return found[0], found[1], found[2], found[3]

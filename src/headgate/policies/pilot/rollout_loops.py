"""The inner loop of ``rollout.py``, twice, with the same results.

``roll_compiled`` is a plain loop for numba: one size after the other, one batch of every scenario at a time.
``roll_vectorised`` is for installations without numba: numpy arrays of all sizes (rows) and scenarios (columns) advance
one batch at a time, each at its own simulated time.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headgate.forecast.base import FloatArray
from headgate.forecast.compiled import compiled
from headgate.policies.pilot.calibration import AHEAD_S
from headgate.policies.pilot.load import BIN_S

MOST_BATCHES = 120
LEAST_RECORDS = 0.5
"""Fewer records do not start a batch."""
LEAST_CYCLE_S = 0.2
BATCHES_TO_END = 100
"""Faster batches than this many per rollout are simulated as fewer, longer ones."""
LONGEST_WAIT_S = 3600.0
CATCH_UP_S = 120.0
"""For this long after the end of the rollout, remaining backlog makes records late; then another size can be there."""
BEYOND = 0.01
"""Weight of lateness after that: of two hopeless sizes the larger one is still better."""
LEAST_SPARE = 0.05
"""Least spare capacity with which a backlog is worked off, even at a size that can hardly keep up."""


class LoopInputs(NamedTuple):
    """State and parameters of a rollout; times are in seconds from now (see ``rollout.py``)."""

    cumulative: FloatArray
    """Cumulative arrivals at the edges of bins, one row per scenario."""
    last_counts: FloatArray
    """Arrivals of the last bin, continued beyond it, by scenario."""
    past: int
    """Number of bins before now."""
    ratios: FloatArray
    """Actual over predicted batch times, one row per scenario, used in turn."""
    start_power: FloatArray
    """Speed of the instances present now, by size."""
    power: FloatArray
    """Speed of all instances, by size."""
    join_s: FloatArray
    """When new instances join, by size and scenario."""
    scales_out: NDArray[np.bool_]
    """Whether new instances join, by size."""
    downtime_s: float
    """Downtime after instances joined or left."""
    remaining_s: float
    """Remaining downtime of the previous change."""
    begins_s: float
    waiting: float
    batch_records: float
    bound_s: float
    trigger_s: float
    next_trigger_s: float
    fixed_s: float
    divided: float
    """Share of the fixed time that is divided among instances."""
    each_s: float
    warm_factor: float
    until_s: float
    least_cycle_s: float
    """Shortest time between the starts of two batches."""
    ahead_per_s: FloatArray
    """Arrival rate ``AHEAD_S`` from now, by scenario."""
    end_per_s: FloatArray
    """Arrival rate at the end, by scenario."""


# These functions take single numbers and arrays instead of LoopInputs: numba copies arguments wherever it does not
# inline a call.


@compiled
def _arrived_by(cumulative: FloatArray, last_counts: FloatArray, past: int, scenario: int, at_s: float) -> float:
    edges = cumulative.shape[1] - 1
    place = at_s / BIN_S + past
    index = min(max(int(place), 0), edges - 1)
    low, high = cumulative[scenario, index], cumulative[scenario, index + 1]
    share = min(max(place - index, 0.0), 1.0)
    return float(low + share * (high - low) + max(0.0, place - edges) * last_counts[scenario])


@compiled
def _took_s(
    powers: tuple[float, float], fixed_s: tuple[float, float], remaining_s: float, work: float, dearer: float
) -> float:
    """Return the time of a batch that begins ``left_s`` before instances join and speed up its rest.

    Powers and fixed times are pairs of before and after joining; ``dearer`` is the factor on work after it.
    """
    start_power, power = powers
    if remaining_s <= 0:
        return fixed_s[1] + dearer * work / power
    alone_s = max(0.0, remaining_s - fixed_s[0])
    before_s = work / start_power
    left = max(0.0, work - alone_s * start_power)
    return fixed_s[0] + (before_s if before_s <= alone_s else alone_s + left / power)


@compiled
def _following_s(trigger_s: float, next_trigger_s: float, least_cycle_s: float, at_s: float) -> float:
    """Return the first time after ``at_s`` at which a batch can start."""
    if trigger_s <= least_cycle_s:
        return at_s + least_cycle_s
    passed = math.floor((at_s - next_trigger_s) / trigger_s + 1e-9)
    return next_trigger_s + (passed + 1) * trigger_s


@compiled
def _resumes_s(join_s: float, downtime_s: float, at_s: float) -> float:
    """Return when a batch can start at or after ``at_s``, given the downtime that begins at ``join_s``."""
    return join_s + downtime_s if join_s <= at_s < join_s + downtime_s else at_s


@compiled
def _fixed_s(fixed_s: float, divided: float, power: float) -> float:
    return fixed_s * (1 - divided + divided / power)


@compiled
def _late_afterwards(waiting: float, rate: float, power: float, fixed_s: float, each_s: float, bound_s: float) -> float:
    """Return the records that will be late after the end while the remaining backlog is worked off."""
    # Waiting time counts at the arrival rate: at the service rate, a backlog would not seem worth an instance.
    waited_s = waiting / rate + fixed_s + each_s * waiting / power
    over_s = max(0.0, waited_s - bound_s)
    lasts_s = over_s / max(LEAST_SPARE, 1 - each_s * rate / power)
    return float(rate * (min(lasts_s, CATCH_UP_S) + BEYOND * max(0.0, lasts_s - CATCH_UP_S)))


@compiled
def _roll(
    inputs: LoopInputs, size: int, at_s: FloatArray, taken: FloatArray, cold: NDArray[np.bool_], found: FloatArray
) -> None:
    """Roll one size forward, a batch of every scenario at a time.

    The scenarios alternate within a step so that the processor can overlap their divisions. Per scenario, ``at_s`` is
    when its next batch can start, ``taken`` the records in earlier batches and ``cold`` whether joining instances still
    warm up; these three are updated. ``found`` receives late records and, ``AHEAD_S`` from now, the records processed
    and the records whose batch has ended.
    """
    powers = inputs.start_power[size], inputs.power[size]
    fixed_before_s = _fixed_s(inputs.fixed_s, inputs.divided, powers[0])
    fixed_after_s = _fixed_s(inputs.fixed_s, inputs.divided, powers[1])
    cumulative, last_counts, past = inputs.cumulative, inputs.last_counts, inputs.past
    turns = inputs.ratios.shape[1]
    for step in range(MOST_BATCHES):
        is_running = step == 0 and inputs.batch_records > 0
        turn, continues = step % turns, False
        for scenario in range(len(at_s)):
            if step > 0 and at_s[scenario] >= inputs.until_s:
                continue
            join_s = inputs.join_s[size, scenario]
            from_s = _resumes_s(join_s, inputs.downtime_s, at_s[scenario])
            arrived = _arrived_by(cumulative, last_counts, past, scenario, from_s)
            before = taken[scenario]
            records = inputs.batch_records if is_running else max(0.0, arrived - before)
            ratio = inputs.ratios[scenario, turn]
            fixed_s = fixed_before_s * ratio, fixed_after_s * ratio
            dearer = inputs.warm_factor if cold[scenario] else 1.0
            took_s = _took_s(powers, fixed_s, join_s - from_s, inputs.each_s * records * ratio, dearer)
            cold[scenario] = cold[scenario] and from_s < join_s
            if is_running:
                # The running batch has not ended yet, so it ends after now.
                took_s = max(took_s, LEAST_CYCLE_S + inputs.remaining_s - inputs.begins_s)
            if from_s < join_s < from_s + took_s:
                took_s += inputs.downtime_s
            ended_s = from_s + took_s
            next_s = _following_s(inputs.trigger_s, inputs.next_trigger_s, inputs.least_cycle_s, from_s)
            if records < LEAST_RECORDS:
                records, next_s = 0.0, max(from_s, next_s)
            else:
                overdue = arrived
                if ended_s - inputs.bound_s < from_s:
                    overdue = _arrived_by(cumulative, last_counts, past, scenario, ended_s - inputs.bound_s)
                found[0, scenario] += min(max(overdue - before, 0.0), records)
                next_s = max(ended_s, next_s)
            is_last = next_s >= inputs.until_s or step == MOST_BATCHES - 1
            if from_s <= AHEAD_S and (is_last or _resumes_s(join_s, inputs.downtime_s, next_s) > AHEAD_S):
                found[1, scenario] = before + min(max((AHEAD_S - from_s) / max(took_s, 1e-9), 0.0), 1.0) * records
                found[2, scenario] = before + (records if ended_s <= AHEAD_S else 0.0)
            taken[scenario], at_s[scenario] = before + records, next_s
            continues = continues or next_s < inputs.until_s
        if not continues:
            break


@compiled
def roll_compiled(inputs: LoopInputs) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return late records, the backlog ``AHEAD_S`` from now and the age of its oldest record, by size and scenario."""
    sizes, scenarios = inputs.join_s.shape
    cumulative, last_counts, past = inputs.cumulative, inputs.last_counts, inputs.past
    found = np.zeros((3, sizes, scenarios))
    at_s, taken, cold = np.empty(scenarios), np.empty(scenarios), np.empty(scenarios, np.bool_)
    for size in range(sizes):
        power = inputs.power[size]
        fixed_s = _fixed_s(inputs.fixed_s, inputs.divided, power)
        for scenario in range(scenarios):
            arrived = _arrived_by(cumulative, last_counts, past, scenario, 0.0)
            begun = max(0.0, arrived - inputs.waiting - inputs.batch_records)
            at_s[scenario], taken[scenario], cold[scenario] = inputs.begins_s, begun, inputs.scales_out[size]
            found[1, size, scenario] = found[2, size, scenario] = begun
        _roll(inputs, size, at_s, taken, cold, found[:, size])
        for scenario in range(scenarios):
            arrived = _arrived_by(cumulative, last_counts, past, scenario, at_s[scenario])
            left, rate = max(0.0, arrived - taken[scenario]), inputs.end_per_s[scenario]
            found[0, size, scenario] += _late_afterwards(left, rate, power, fixed_s, inputs.each_s, inputs.bound_s)
            by_ahead = _arrived_by(cumulative, last_counts, past, scenario, AHEAD_S)
            found[1, size, scenario] = max(0.0, by_ahead - found[1, size, scenario])
            pending, waited_s = max(0.0, by_ahead - found[2, size, scenario]), 0.0
            if pending >= LEAST_RECORDS:
                waited_s = min(pending / inputs.ahead_per_s[scenario], AHEAD_S + LONGEST_WAIT_S)
            found[2, size, scenario] = waited_s
    return found[0], found[1], found[2]


def roll_vectorised(inputs: LoopInputs) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return late records, the backlog ``AHEAD_S`` from now and the age of its oldest record, by size and scenario."""
    return _VectorisedRollout(inputs).roll()


class _VectorisedRollout:
    def __init__(self, inputs: LoopInputs) -> None:
        self._inputs = inputs
        self._shape = inputs.join_s.shape
        self._column = np.arange(self._shape[1])[None, :]
        self._start_power, self._power = inputs.start_power[:, None], inputs.power[:, None]
        self._at_s = np.full(self._shape, inputs.begins_s)
        arrived = self._arrived_by(np.zeros(self._shape))
        self._taken = np.maximum(0.0, arrived - inputs.waiting - inputs.batch_records)
        self._cold: NDArray[np.bool_] = np.broadcast_to(inputs.scales_out[:, None], self._shape).copy()
        self._active: NDArray[np.bool_] = np.ones(self._shape, dtype=bool)
        self._late = np.zeros(self._shape)
        self._done_ahead, self._out_ahead = self._taken, self._taken
        self._resumes_s = inputs.join_s + inputs.downtime_s

    def roll(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        for step in range(MOST_BATCHES):
            self._take_batch(step)
            self._active &= self._at_s < self._inputs.until_s
            if not self._active.any():
                break
        by_ahead = self._arrived_by(np.full(self._shape, AHEAD_S))
        late = self._late + self._late_afterwards(np.maximum(0.0, self._arrived_by(self._at_s) - self._taken))
        pending = np.maximum(0.0, by_ahead - self._out_ahead)
        waited_s = np.minimum(pending / self._inputs.ahead_per_s, AHEAD_S + LONGEST_WAIT_S)
        return late, np.maximum(0.0, by_ahead - self._done_ahead), np.where(pending < LEAST_RECORDS, 0.0, waited_s)

    def _late_afterwards(self, waiting: FloatArray) -> FloatArray:
        """Return the records that will be late after the end while the remaining backlog is worked off."""
        inputs, rate, power = self._inputs, self._inputs.end_per_s, self._power
        fixed_s = inputs.fixed_s * (1 - inputs.divided + inputs.divided / power)
        waited_s = waiting / rate + fixed_s + inputs.each_s * waiting / power
        over_s = np.maximum(0.0, waited_s - inputs.bound_s)
        lasts_s = over_s / np.maximum(LEAST_SPARE, 1 - inputs.each_s * rate / power)
        return np.asarray(rate * (np.minimum(lasts_s, CATCH_UP_S) + BEYOND * np.maximum(0.0, lasts_s - CATCH_UP_S)))

    def _take_batch(self, step: int) -> None:
        inputs = self._inputs
        if inputs.downtime_s > 0:
            is_down = self._active & (inputs.join_s <= self._at_s) & (self._at_s < self._resumes_s)
            self._at_s = np.where(is_down, self._resumes_s, self._at_s)
        is_running = step == 0 and inputs.batch_records > 0
        waiting = np.maximum(0.0, self._arrived_by(self._at_s) - self._taken)
        records = np.full(self._shape, inputs.batch_records) if is_running else waiting
        took_s = self._took_s(records, inputs.ratios[:, step % inputs.ratios.shape[1]][None, :])
        if is_running:
            # The running batch has not ended yet, so it ends after now.
            took_s = np.maximum(took_s, LEAST_CYCLE_S + inputs.remaining_s - inputs.begins_s)
        if inputs.downtime_s > 0:
            is_down = (self._at_s < inputs.join_s) & (inputs.join_s < self._at_s + took_s)
            took_s = took_s + np.where(is_down, inputs.downtime_s, 0.0)
        ended_s = self._at_s + took_s
        works = self._active & (records >= LEAST_RECORDS)
        overdue = self._arrived_by(np.minimum(self._at_s, ended_s - inputs.bound_s))
        late = np.clip(overdue - self._taken, 0.0, records)
        self._late += np.where(works, late, 0.0)
        share = np.clip((AHEAD_S - self._at_s) / np.maximum(took_s, 1e-9), 0.0, 1.0)
        seen = self._active & (self._at_s <= AHEAD_S)
        self._done_ahead = np.where(seen, self._taken + np.where(works, share * records, 0.0), self._done_ahead)
        out = np.where(works & (ended_s <= AHEAD_S), records, 0.0)
        self._out_ahead = np.where(seen, self._taken + out, self._out_ahead)
        self._taken = self._taken + np.where(works, records, 0.0)
        following = np.maximum(np.where(records >= LEAST_RECORDS, ended_s, self._at_s), self._next_trigger_s())
        self._at_s = np.where(self._active, following, self._at_s)

    def _took_s(self, records: FloatArray, ratio: FloatArray) -> FloatArray:
        """Return the times of batches; instances that join speed up the rest of a batch."""
        inputs = self._inputs
        joined = self._at_s >= inputs.join_s
        work = inputs.each_s * records * ratio
        power = np.where(joined, self._power, self._start_power)
        fixed_s = inputs.fixed_s * (1 - inputs.divided + inputs.divided / power) * ratio
        warmth = np.where(joined & self._cold, inputs.warm_factor, 1.0)
        self._cold &= ~joined
        alone_s = np.maximum(0.0, inputs.join_s - self._at_s - fixed_s)
        before_s = work / self._start_power
        left = np.maximum(0.0, work - alone_s * self._start_power)
        joining_s = np.where(before_s <= alone_s, before_s, alone_s + left / self._power)
        return np.asarray(fixed_s + np.where(joined, warmth * work / self._power, joining_s))

    def _next_trigger_s(self) -> FloatArray:
        inputs = self._inputs
        if inputs.trigger_s <= inputs.least_cycle_s:
            return np.asarray(self._at_s + inputs.least_cycle_s)
        passed = np.floor((self._at_s - inputs.next_trigger_s) / inputs.trigger_s + 1e-9)
        return np.asarray(inputs.next_trigger_s + (passed + 1) * inputs.trigger_s)

    def _arrived_by(self, at_s: FloatArray) -> FloatArray:
        """Return cumulative arrivals by a time; after the last bin its rate continues."""
        cumulative = self._inputs.cumulative
        edges = cumulative.shape[1] - 1
        place = at_s / BIN_S + self._inputs.past
        index = np.clip(place.astype(np.int64), 0, edges - 1)
        low, high = cumulative[self._column, index], cumulative[self._column, index + 1]
        beyond = np.maximum(0.0, place - edges) * self._inputs.last_counts
        return np.asarray(low + np.clip(place - index, 0.0, 1.0) * (high - low) + beyond)

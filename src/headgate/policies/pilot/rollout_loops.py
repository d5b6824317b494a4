"""The loop of the rollout, for a compiler: the same steps as with arrays in ``stepping.py``, and the same results.

One size after the other, a batch of every scenario at a time.
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
"""Fewer records than this make no batch."""
LEAST_CYCLE_S = 0.2
BATCHES_TO_END = 100
"""Batches that follow each other faster than this many until the end are looked at together."""
LONGEST_WAIT_S = 3600.0
CATCH_UP_S = 120.0
"""How long what waits at the end goes on making others late: by then another size can be there."""
BEYOND = 0.01
"""What comes after that counts a little: of two hopeless sizes the larger one is still better."""
LEAST_SPARE = 0.05
"""A size that can hardly keep up is taken to have at least so much to spare when it works something off."""


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
    ahead_per_s: FloatArray
    """What arrives ``AHEAD_S`` from now, by scenario."""
    end_per_s: FloatArray
    """What arrives at the end."""


# These are given numbers and arrays, and not all inputs: where a compiler does not put a function in the place of its
# call, what it is given is copied at each.


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
def _following_s(trigger_s: float, next_trigger_s: float, least_cycle_s: float, at_s: float) -> float:
    """The first time after ``at_s`` at which a batch can start."""
    if trigger_s <= least_cycle_s:
        return at_s + least_cycle_s
    passed = math.floor((at_s - next_trigger_s) / trigger_s + 1e-9)
    return next_trigger_s + (passed + 1) * trigger_s


@compiled
def _stands_until_s(join_s: float, standstill_s: float, at_s: float) -> float:
    """When a batch begins that could start at a time: the job may stand still then."""
    return join_s + standstill_s if join_s <= at_s < join_s + standstill_s else at_s


@compiled
def _fixed_s(fixed_s: float, divided: float, power: float) -> float:
    return fixed_s * (1 - divided + divided / power)


@compiled
def _late_afterwards(waiting: float, rate: float, power: float, fixed_s: float, each_s: float, bound_s: float) -> float:
    """Records that will be late because of what waits at the end, while it is worked off."""
    # At the rate at which records arrive: at the rate of the service, a backlog would seem not worth the trouble.
    waited_s = waiting / rate + fixed_s + each_s * waiting / power
    over_s = max(0.0, waited_s - bound_s)
    lasts_s = over_s / max(LEAST_SPARE, 1 - each_s * rate / power)
    return float(rate * (min(lasts_s, CATCH_UP_S) + BEYOND * max(0.0, lasts_s - CATCH_UP_S)))


@compiled
def _roll(
    given: Inputs, size: int, at_s: FloatArray, taken: FloatArray, cold: NDArray[np.bool_], found: FloatArray
) -> None:
    """One size, a batch of every scenario at a time: while one of them waits for a division, the next one goes on.

    Scenarios are given when their next batch can start, the records that were taken before, and whether those that are
    to join are cold; all of that is left as it is in the end. Found are late records, and by ``AHEAD_S`` from now those
    that are done, and those that have come out.
    """
    powers = given.start_power[size], given.power[size]
    fixed_before_s = _fixed_s(given.fixed_s, given.divided, powers[0])
    fixed_after_s = _fixed_s(given.fixed_s, given.divided, powers[1])
    cumulative, last_counts, past = given.cumulative, given.last_counts, given.past
    turns = given.ratios.shape[1]
    for step in range(MOST_BATCHES):
        is_running = step == 0 and given.batch_records > 0
        turn, goes_on = step % turns, False
        for scenario in range(len(at_s)):
            if step > 0 and at_s[scenario] >= given.until_s:
                continue
            join_s = given.join_s[size, scenario]
            from_s = _stands_until_s(join_s, given.standstill_s, at_s[scenario])
            arrived = _arrived_by(cumulative, last_counts, past, scenario, from_s)
            before = taken[scenario]
            records = given.batch_records if is_running else max(0.0, arrived - before)
            ratio = given.ratios[scenario, turn]
            fixed_s = fixed_before_s * ratio, fixed_after_s * ratio
            dearer = given.warm_factor if cold[scenario] else 1.0
            took_s = _took_s(powers, fixed_s, join_s - from_s, given.each_s * records * ratio, dearer)
            cold[scenario] = cold[scenario] and from_s < join_s
            if is_running:
                # What runs already has taken its time so far; it ends after now.
                took_s = max(took_s, LEAST_CYCLE_S + given.left_s - given.begins_s)
            if from_s < join_s < from_s + took_s:
                took_s += given.standstill_s
            ended_s = from_s + took_s
            next_s = _following_s(given.trigger_s, given.next_trigger_s, given.least_cycle_s, from_s)
            if records < LEAST_RECORDS:
                records, next_s = 0.0, max(from_s, next_s)
            else:
                overdue = arrived
                if ended_s - given.bound_s < from_s:
                    overdue = _arrived_by(cumulative, last_counts, past, scenario, ended_s - given.bound_s)
                found[0, scenario] += min(max(overdue - before, 0.0), records)
                next_s = max(ended_s, next_s)
            is_last = next_s >= given.until_s or step == MOST_BATCHES - 1
            if from_s <= AHEAD_S and (is_last or _stands_until_s(join_s, given.standstill_s, next_s) > AHEAD_S):
                found[1, scenario] = before + min(max((AHEAD_S - from_s) / max(took_s, 1e-9), 0.0), 1.0) * records
                found[2, scenario] = before + (records if ended_s <= AHEAD_S else 0.0)
            taken[scenario], at_s[scenario] = before + records, next_s
            goes_on = goes_on or next_s < given.until_s
        if not goes_on:
            break


@compiled
def rolled_batches(given: Inputs) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Records that are late, those not done ``AHEAD_S`` from now, and what the oldest of them has waited by then."""
    sizes, scenarios = given.join_s.shape
    cumulative, last_counts, past = given.cumulative, given.last_counts, given.past
    found = np.zeros((3, sizes, scenarios))
    at_s, taken, cold = np.empty(scenarios), np.empty(scenarios), np.empty(scenarios, np.bool_)
    for size in range(sizes):
        power = given.power[size]
        fixed_s = _fixed_s(given.fixed_s, given.divided, power)
        for scenario in range(scenarios):
            came = _arrived_by(cumulative, last_counts, past, scenario, 0.0)
            begun = max(0.0, came - given.waiting - given.batch_records)
            at_s[scenario], taken[scenario], cold[scenario] = given.begins_s, begun, given.grows[size]
            found[1, size, scenario] = found[2, size, scenario] = begun
        _roll(given, size, at_s, taken, cold, found[:, size])
        for scenario in range(scenarios):
            came = _arrived_by(cumulative, last_counts, past, scenario, at_s[scenario])
            left, rate = max(0.0, came - taken[scenario]), given.end_per_s[scenario]
            found[0, size, scenario] += _late_afterwards(left, rate, power, fixed_s, given.each_s, given.bound_s)
            by_ahead = _arrived_by(cumulative, last_counts, past, scenario, AHEAD_S)
            found[1, size, scenario] = max(0.0, by_ahead - found[1, size, scenario])
            pending, waited_s = max(0.0, by_ahead - found[2, size, scenario]), 0.0
            if pending >= LEAST_RECORDS:
                waited_s = min(pending / given.ahead_per_s[scenario], AHEAD_S + LONGEST_WAIT_S)
            found[2, size, scenario] = waited_s
    return found[0], found[1], found[2]


def stepped_batches(given: Inputs) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Records that are late, those not done ``AHEAD_S`` from now, and what the oldest of them has waited by then."""
    return _Stepper(given).stepped()


class _Stepper:
    def __init__(self, given: Inputs) -> None:
        self._given = given
        self._shape = given.join_s.shape
        self._column = np.arange(self._shape[1])[None, :]
        self._start_power, self._power = given.start_power[:, None], given.power[:, None]
        self._at_s = np.full(self._shape, given.begins_s)
        arrived = self._arrived_by(np.zeros(self._shape))
        self._taken = np.maximum(0.0, arrived - given.waiting - given.batch_records)
        self._cold: NDArray[np.bool_] = np.broadcast_to(given.grows[:, None], self._shape).copy()
        self._open: NDArray[np.bool_] = np.ones(self._shape, dtype=bool)
        self._late = np.zeros(self._shape)
        self._done_ahead, self._out_ahead = self._taken, self._taken
        self._goes_on_s = given.join_s + given.standstill_s

    def stepped(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        for step in range(MOST_BATCHES):
            self._take_batch(step)
            self._open &= self._at_s < self._given.until_s
            if not self._open.any():
                break
        by_ahead = self._arrived_by(np.full(self._shape, AHEAD_S))
        late = self._late + self._late_afterwards(np.maximum(0.0, self._arrived_by(self._at_s) - self._taken))
        pending = np.maximum(0.0, by_ahead - self._out_ahead)
        waited_s = np.minimum(pending / self._given.ahead_per_s, AHEAD_S + LONGEST_WAIT_S)
        return late, np.maximum(0.0, by_ahead - self._done_ahead), np.where(pending < LEAST_RECORDS, 0.0, waited_s)

    def _late_afterwards(self, waiting: FloatArray) -> FloatArray:
        """Records that will be late because of what waits at the end, while it is worked off."""
        given, rate, power = self._given, self._given.end_per_s, self._power
        fixed_s = given.fixed_s * (1 - given.divided + given.divided / power)
        waited_s = waiting / rate + fixed_s + given.each_s * waiting / power
        over_s = np.maximum(0.0, waited_s - given.bound_s)
        lasts_s = over_s / np.maximum(LEAST_SPARE, 1 - given.each_s * rate / power)
        return np.asarray(rate * (np.minimum(lasts_s, CATCH_UP_S) + BEYOND * np.maximum(0.0, lasts_s - CATCH_UP_S)))

    def _take_batch(self, step: int) -> None:
        given = self._given
        if given.standstill_s > 0:
            stands = self._open & (given.join_s <= self._at_s) & (self._at_s < self._goes_on_s)
            self._at_s = np.where(stands, self._goes_on_s, self._at_s)
        is_running = step == 0 and given.batch_records > 0
        waiting = np.maximum(0.0, self._arrived_by(self._at_s) - self._taken)
        records = np.full(self._shape, given.batch_records) if is_running else waiting
        took_s = self._took_s(records, given.ratios[:, step % given.ratios.shape[1]][None, :])
        if is_running:
            # What runs already has taken its time so far; it ends after now.
            took_s = np.maximum(took_s, LEAST_CYCLE_S + given.left_s - given.begins_s)
        if given.standstill_s > 0:
            stands = (self._at_s < given.join_s) & (given.join_s < self._at_s + took_s)
            took_s = took_s + np.where(stands, given.standstill_s, 0.0)
        ended_s = self._at_s + took_s
        works = self._open & (records >= LEAST_RECORDS)
        overdue = self._arrived_by(np.minimum(self._at_s, ended_s - given.bound_s))
        late = np.clip(overdue - self._taken, 0.0, records)
        self._late += np.where(works, late, 0.0)
        share = np.clip((AHEAD_S - self._at_s) / np.maximum(took_s, 1e-9), 0.0, 1.0)
        seen = self._open & (self._at_s <= AHEAD_S)
        self._done_ahead = np.where(seen, self._taken + np.where(works, share * records, 0.0), self._done_ahead)
        out = np.where(works & (ended_s <= AHEAD_S), records, 0.0)
        self._out_ahead = np.where(seen, self._taken + out, self._out_ahead)
        self._taken = self._taken + np.where(works, records, 0.0)
        following = np.maximum(np.where(records >= LEAST_RECORDS, ended_s, self._at_s), self._next_trigger_s())
        self._at_s = np.where(self._open, following, self._at_s)

    def _took_s(self, records: FloatArray, ratio: FloatArray) -> FloatArray:
        """How long a batch takes; what is left of it when instances join is divided anew."""
        given = self._given
        joined = self._at_s >= given.join_s
        work = given.each_s * records * ratio
        power = np.where(joined, self._power, self._start_power)
        fixed_s = given.fixed_s * (1 - given.divided + given.divided / power) * ratio
        warmth = np.where(joined & self._cold, given.warm_factor, 1.0)
        self._cold &= ~joined
        alone_s = np.maximum(0.0, given.join_s - self._at_s - fixed_s)
        before_s = work / self._start_power
        left = np.maximum(0.0, work - alone_s * self._start_power)
        joining_s = np.where(before_s <= alone_s, before_s, alone_s + left / self._power)
        return np.asarray(fixed_s + np.where(joined, warmth * work / self._power, joining_s))

    def _next_trigger_s(self) -> FloatArray:
        given = self._given
        if given.trigger_s <= given.least_cycle_s:
            return np.asarray(self._at_s + given.least_cycle_s)
        passed = np.floor((self._at_s - given.next_trigger_s) / given.trigger_s + 1e-9)
        return np.asarray(given.next_trigger_s + (passed + 1) * given.trigger_s)

    def _arrived_by(self, at_s: FloatArray) -> FloatArray:
        """Records that have arrived by a time, in each scenario; beyond the horizon at its last rate."""
        cumulative = self._given.cumulative
        edges = cumulative.shape[1] - 1
        place = at_s / BIN_S + self._given.past
        index = np.clip(place.astype(np.int64), 0, edges - 1)
        low, high = cumulative[self._column, index], cumulative[self._column, index + 1]
        beyond = np.maximum(0.0, place - edges) * self._given.last_counts
        return np.asarray(low + np.clip(place - index, 0.0, 1.0) * (high - low) + beyond)

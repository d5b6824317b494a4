"""The loop of the rollout with arrays, for where there is no compiler: the same steps as in ``rolling.py``.

All sizes (rows) and scenarios (columns) go forward together, one batch at a time, each at its own time.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headgate.forecast.contract import FloatArray
from headgate.policies.pilot.grades import AHEAD_S
from headgate.policies.pilot.load import BIN_S
from headgate.policies.pilot.rolling import (
    BEYOND,
    CATCH_UP_S,
    LEAST_CYCLE_S,
    LEAST_RECORDS,
    LEAST_SPARE,
    LONGEST_WAIT_S,
    MOST_BATCHES,
    Inputs,
)


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

"""How long a batch takes: ``d = a (1 − φ + φ / n^γ) + s r / n^γ`` for r records on n instances, learned from batches.

a is the fixed time of a batch and s the time per record, both on one instance. γ < 1 describes instances that hinder
each other. φ is the share of the fixed time that is divided among instances (overhead per task rather than per batch).

One weighted least-squares fit of a and s with exponential forgetting runs for every combination of γ and φ; the
combination with the smallest prediction error is used. The ratios of actual to predicted times are stored as they are:
their tail decides how many records are late.

>>> model = BatchTimeModel()
>>> for records in 30 * (100, 200, 300, 400, 300, 200):
...     model.learn(records, 2, 1.0 + 0.01 * records / 2)
>>> round(float(model.batch_s(1000.0, 4.0)), 1)
3.5
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from functools import lru_cache
from itertools import product

import numpy as np

from headgate.core.types import JSON
from headgate.forecast.base import FloatArray
from headgate.forecast.compiled import compiled
from headgate.policies.pilot.load import RecentValues

SUMS = 5
"""Each fit ``d = a·base + s·work`` is stored as the sums of base², base·work, work², base·d and work·d."""
_NOTHING = 1e-12


@compiled
def solve_fits(sums: FloatArray) -> FloatArray:
    """Return the fitted fixed seconds (first row) and seconds per record (second row) of every fit."""
    count = sums.shape[1]
    found = np.empty((2, count))
    for place in range(count):
        ones, x, xx, d, xd = sums[0, place], sums[1, place], sums[2, place], sums[3, place], sums[4, place]
        determinant = ones * xx - x * x
        slope, fixed = 0.0, 0.0
        if determinant > _NOTHING * max(_NOTHING, ones * xx):
            slope = (ones * xd - x * d) / determinant
        if ones > 0:
            fixed = (d - slope * x) / max(ones, _NOTHING)
        # Neither coefficient can be negative; where one would be, the other is fitted alone.
        if fixed < 0:
            fixed, slope = 0.0, 0.0
            if xx > 0:
                slope = xd / max(xx, _NOTHING)
        if slope <= 0:
            fixed, slope = 0.5 * d / max(ones, _NOTHING), 0.0
            if x > 0:
                slope = 0.5 * d / max(x, _NOTHING)
        found[0, place], found[1, place] = fixed, slope
    return found


@compiled
def updated_fit_errors(
    errors: FloatArray,
    predicted: FloatArray,
    base: FloatArray,
    power: FloatArray,
    records: float,
    took_s: float,
    decay: float,
) -> FloatArray:
    """Return the decayed sums of squared log errors of the fits after one more batch."""
    found = np.empty(len(errors))
    for place in range(len(errors)):
        expected_s = max(1e-6, predicted[0, place] * base[place] + predicted[1, place] * (records / power[place]))
        off = math.log(took_s / expected_s)
        found[place] = decay * errors[place] + off * off
    return found


@compiled
def sums_with_batch(
    sums: FloatArray, base: FloatArray, work: FloatArray, took_s: FloatArray, weight: float, decay: float
) -> FloatArray:
    """Return the decayed sums of the fits after one more batch with a ``weight``."""
    found = np.empty(sums.shape)
    for place in range(sums.shape[1]):
        fixed, varying, took = base[place], work[place], took_s[place]
        found[0, place] = decay * sums[0, place] + weight * (fixed * fixed)
        found[1, place] = decay * sums[1, place] + weight * (fixed * varying)
        found[2, place] = decay * sums[2, place] + weight * (varying * varying)
        found[3, place] = decay * sums[3, place] + weight * (fixed * took)
        found[4, place] = decay * sums[4, place] + weight * (varying * took)
    return found


_POWERS = (1.0, 0.95, 0.9, 0.85, 0.8, 0.7, 0.5, 0.25, 0.0)
"""From linear scaling to no scaling at all."""
_DIVIDED = (0.0, 0.5, 0.9)
GAMMAS, DIVIDED = (np.array(values) for values in zip(*product(_POWERS, _DIVIDED), strict=True))
"""The combinations of γ and φ, one per fit."""
FORGETTING = 0.998
"""Decay of a batch's weight per further batch."""
LEAST_S = 0.3
"""Shorter batches all get the same weight."""
INCUMBENT = 0.95
"""Another combination must have an error below this multiple of the current one's."""
UNUSUAL = 0.5
"""Penalty on the error of γ = 0, proportionally less for others: most jobs scale linearly."""
UNUSUAL_DIVIDED = 0.02
"""Penalty on the error of φ = 1: without evidence the fixed time is not divided."""
_UNUSUAL = UNUSUAL * (1 - GAMMAS) + UNUSUAL_DIVIDED * DIVIDED
LEAST_GAMMA = 0.25
"""Lower limit of γ when computing the instances needed; with less, no number suffices."""
RATIOS_STORED = 400
SLOW = 1.6
"""A batch above this multiple of its predicted time is an outlier, unless several follow each other."""
SLOW_IN_A_ROW = 5
"""A streak of this length means that batches really have become slower."""
SLOW_FOR_S = 10.0
"""A slow batch adds one to the streak for itself and one per this many seconds of its duration."""
DRIFT = 0.15
"""A mean log ratio of actual to predicted time beyond this means that batches have changed."""
DRIFT_MEMORY = 0.92
REMEMBERED = 0.02
"""Factor on the weight of all earlier batches when records have become heavier: about ten batches are left."""
REMEMBERED_OF_OTHER_SIZES = 0.002
"""The same where the number of instances changed as well, so that nothing says which of the two it was."""
MOST_HEAVIER = 20.0
"""Records are not taken to have become heavier or lighter by more than this factor at once."""
NEWEST, UNLIKE = 5, 1.3
"""The newest batches are fitted alone if the largest has at least this multiple of the records of the smallest."""
FEWEST = 12
"""Batches before drift is judged."""
OVERHEAD_S = 0.25
"""Prior of the fixed time of a batch."""
BELIEF = 0.2
"""Weight of that prior in batches."""


class BatchTimeModel:
    """Learns from ended batches how long a batch takes by its records and the instances."""

    def __init__(self) -> None:
        count = len(GAMMAS)
        self._sums = np.zeros((SUMS, count))
        self._errors = np.zeros(count)
        self._chosen = 0
        self._ratios = RecentValues(RATIOS_STORED)
        self._slow_row = 0.0
        self._held_back: list[tuple[float, int, float]] = []
        """The current streak of slow batches, not learned from yet."""
        self._drift = 0.0
        """Decayed mean of the log ratio of actual to predicted time."""
        self._warm_factor = 1.3
        self._warm_instances: int | None = None
        """The size in the last batch that was not cold."""
        self._newest: deque[tuple[float, int, float]] = deque(maxlen=NEWEST)
        self.batches = 0
        self._solution: FloatArray | None = None
        self._coefficients: tuple[float, float] | None = None

    @property
    def is_known(self) -> bool:
        return self.batches > 0

    @property
    def gamma(self) -> float:
        return float(GAMMAS[self._chosen])

    @property
    def divided(self) -> float:
        """The share of the fixed time that is divided among instances."""
        return float(DIVIDED[self._chosen])

    @property
    def warm_factor(self) -> float:
        """Factor on the time of the first batch after instances joined."""
        return self._warm_factor

    @property
    def coefficients(self) -> tuple[float, float]:
        """The fixed seconds of a batch and the seconds per record, on one instance."""
        if self._coefficients is None:
            fixed, slope = self._solved()
            self._coefficients = float(fixed[self._chosen]), float(slope[self._chosen])
        return self._coefficients

    @property
    def careful_coefficients(self) -> tuple[float, float]:
        """The same for batches larger than any before: no fewer seconds per record than the newest batches show.

        While a job is young its batches are small, and small batches underestimate the time per record.
        """
        fixed_s, each_s = self.coefficients
        records, instances, took_s = np.array(self._newest, dtype=np.float64).reshape(-1, 3).T
        if len(records) < NEWEST or records.max() < UNLIKE * records.min():
            return fixed_s, each_s
        power = instances**self.gamma
        base, work = 1 - self.divided + self.divided / power, records / power
        offsets = work - work.mean()
        slope_s = float(offsets @ took_s) / max(1e-12, float(offsets @ offsets))
        if slope_s <= each_s:
            return fixed_s, each_s
        each_s = min(slope_s, float(took_s.mean() / work.mean()))
        return max(0.0, float((took_s - each_s * work).mean() / base.mean())), each_s

    def batch_s(self, records: FloatArray | float, instances: FloatArray | float) -> FloatArray:
        """Return the expected time of batches."""
        fixed_s, each_s = self.coefficients
        power = np.asarray(instances) ** self.gamma
        return np.asarray(fixed_s * (1 - self.divided + self.divided / power) + each_s * np.asarray(records) / power)

    def _expected_s(self, records: float, instances: int) -> float:
        """Return the expected time of one batch; a faster ``batch_s``."""
        fixed_s, each_s = self.coefficients
        power, base = _scaling(instances)
        chosen = self._chosen
        return float(fixed_s * base[chosen] + each_s * (records / power[chosen]))

    def ratios(self) -> FloatArray:
        """Return the ratios of actual to predicted time, newest last; valid until the next batch is learned."""
        return self._ratios.values

    def learn(self, records: float, instances: int, took_s: float, *, cold: bool = False) -> None:
        """Learn from a batch that has ended; a ``cold`` one mainly updates the warm-up factor."""
        if records <= 0 or instances < 1 or took_s <= 0:
            return
        ratio = took_s / max(1e-6, self._expected_s(records, instances)) if self.batches else 1.0
        if self.batches:
            if cold:
                self._warm_factor += 0.2 * (min(4.0, max(1.0, ratio)) - self._warm_factor)
                # If the instances present before would have been faster, the batch itself was slow: learn that too.
                fewer = min(instances, self._warm_instances or instances)
                ratio = took_s / max(1e-6, self._expected_s(records, fewer))
                if fewer == instances or ratio <= 1:
                    return
                instances = fewer
            else:
                self._warm_instances = instances
            self._ratios.append(ratio)
            if ratio > SLOW:
                self._hold_back(records, instances, took_s)
                return
            self._slow_row, self._held_back = 0.0, []
        self._update(records, instances, took_s, ratio)

    def _hold_back(self, records: float, instances: int, took_s: float) -> None:
        """Set a slow batch aside; learn from the whole streak once it is long enough."""
        self._slow_row += 1 + took_s / SLOW_FOR_S
        self._held_back.append((records, instances, took_s))
        if self._slow_row < SLOW_IN_A_ROW:
            return
        self._forget(math.log(self._held_back_ratio()))
        for batch in self._held_back:
            self._update(*batch, ratio=1.0)
        self._slow_row, self._held_back = 0.0, []

    def _forget(self, log_ratio: float) -> None:
        """Discount what was learned before: records have become heavier or lighter.

        What remains is as if they had always been so: the fixed time of a batch does not change with them. Batches that
        are all alike could not tell the two apart. Not so where batches of another number of instances take as long as
        before: then more instances do not make them faster.
        """
        if self._is_size_without_effect():
            remembered = REMEMBERED_OF_OTHER_SIZES
            self._sums = remembered * self._sums
        else:
            remembered = REMEMBERED
            self._sums = remembered * self._with_heavier_records(math.exp(log_ratio))
        self._errors = remembered * self._errors
        self._ratios.clear()
        self._solution, self._coefficients, self._drift = None, None, 0.0

    def _is_size_without_effect(self) -> bool:
        """Return whether the newest batches took as long as on the number of instances before."""
        newest = (*self._newest, *self._held_back)
        before, now = newest[0][1], newest[-1][1]
        if before == now:
            return False
        took_s = sum(took_s for _, instances, took_s in newest if instances == now)
        expected_s = sum(self._expected_s(records, before) for records, instances, _ in newest if instances == now)
        return abs(math.log(took_s / max(1e-6, expected_s))) < DRIFT

    def _held_back_ratio(self) -> float:
        """Return how much longer the slow batches took than predicted, on average."""
        expected_s = [self._expected_s(records, instances) for records, instances, _ in self._held_back]
        took_s = [took_s for _, _, took_s in self._held_back]
        return sum(took_s) / max(1e-6, sum(expected_s))

    def _with_heavier_records(self, ratio: float) -> FloatArray:
        """Return the sums as if batches like the newest had always taken ``ratio`` times as long, by their records."""
        (fixed, slope), found = self._solved(), self._sums.copy()
        records, instances, _ = np.array(self._newest, dtype=np.float64).reshape(-1, 3).T
        shares = [_scaling(int(size)) for size in instances]
        fixed_s = fixed * np.mean([base for _, base in shares], axis=0)
        varying_s = slope * np.mean([count / power for count, (power, _) in zip(records, shares, strict=True)], axis=0)
        # The time of the records alone explains the change.
        factor = np.clip(ratio + (ratio - 1) * fixed_s / np.maximum(1e-9, varying_s), 1 / MOST_HEAVIER, MOST_HEAVIER)
        slope = slope * factor
        found[3] = fixed * found[0] + slope * found[1]
        found[4] = fixed * found[1] + slope * found[2]
        return np.asarray(found)

    def _update(self, records: float, instances: int, took_s: float, ratio: float) -> None:
        self._newest.append((records, instances, took_s))
        power, base = _scaling(instances)
        if self.batches:
            self._errors = updated_fit_errors(self._errors, self._solved(), base, power, records, took_s, FORGETTING)
            if self.batches >= FEWEST:
                self._drift = DRIFT_MEMORY * self._drift + (1 - DRIFT_MEMORY) * math.log(ratio)
        if abs(self._drift) > DRIFT:
            self._forget(self._drift)
        weight = 1 / max(took_s, LEAST_S) ** 2
        if not self.batches:
            self._sums = sums_with_batch(self._sums, base, np.zeros_like(base), OVERHEAD_S * base, BELIEF * weight, 1.0)
        self._sums = sums_with_batch(self._sums, base, records / power, np.full(len(base), took_s), weight, FORGETTING)
        self._solution, self._coefficients = None, None
        errors = self._errors + _UNUSUAL
        best = int(errors.argmin())
        if errors[best] < INCUMBENT * errors[self._chosen] - 1e-12:
            self._chosen = best
        self.batches += 1

    def _solved(self) -> FloatArray:
        """Return the fixed seconds and the seconds per record of every fit."""
        if self._solution is None:
            self._solution = solve_fits(self._sums)
        return self._solution

    def to_json(self) -> dict[str, JSON]:
        return {
            "sums": self._sums.tolist(),
            "errors": self._errors.tolist(),
            "chosen": self._chosen,
            "ratios": self._ratios.values.tolist(),
            "slow_row": self._slow_row,
            "drift": self._drift,
            "held_back": [list(batch) for batch in self._held_back],
            "warm_factor": self._warm_factor,
            "warm_instances": self._warm_instances,
            "newest": [list(batch) for batch in self._newest],
            "batches": self.batches,
        }

    @classmethod
    def from_json(cls, saved: Mapping[str, JSON]) -> BatchTimeModel:
        made = cls()
        made._sums = np.array(saved["sums"], dtype=np.float64)
        made._errors = np.array(saved["errors"], dtype=np.float64)
        made._chosen = int(saved["chosen"])
        made._ratios = RecentValues(RATIOS_STORED, saved["ratios"])
        made._slow_row = float(saved["slow_row"])
        made._held_back = [(float(records), int(size), float(took_s)) for records, size, took_s in saved["held_back"]]
        made._drift = float(saved["drift"])
        made._warm_factor = float(saved["warm_factor"])
        made._warm_instances = None if saved["warm_instances"] is None else int(saved["warm_instances"])
        made._newest.extend((float(records), int(size), float(took_s)) for records, size, took_s in saved["newest"])
        made.batches = int(saved["batches"])
        return made


@lru_cache(maxsize=1024)
def _scaling(instances: int) -> tuple[FloatArray, FloatArray]:
    """Return the divisor of the work and the factor on the fixed time, for every fit."""
    power = float(instances) ** GAMMAS
    return power, 1 - DIVIDED + DIVIDED / power

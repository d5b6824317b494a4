"""How long a batch takes: ``d = a (1 − φ + φ / n^γ) + s r / n^γ`` for r records on n instances, learned from batches.

One weighted least-squares fit per γ and φ goes on side by side and forgets slowly; the one that has foretold best is
believed. Instances that get in each other's way make γ less than 1. What a task takes however few its records are is
divided among instances as well, and what a batch takes is not: φ is the part that is divided. How far batches were from
what was foretold is kept as it is: the tail of that is what late records are made of.

>>> service = ServiceModel()
>>> for records in 30 * (100, 200, 300, 400, 300, 200):
...     service.learn(records, 2, 1.0 + 0.01 * records / 2)
>>> round(float(service.batch_s(1000.0, 4.0)), 1)
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
from headgate.policies.pilot.load import Newest

SUMS = 5
_NOTHING = 1e-12


@compiled
def solved(sums: FloatArray) -> FloatArray:
    """What the fits say: a, the fixed part, in the first row, and s, the seconds per record, in the second."""
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
        # Neither can be negative; what is left is then fitted alone.
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
def judged(
    errors: FloatArray,
    foretold: FloatArray,
    base: FloatArray,
    power: FloatArray,
    records: float,
    took_s: float,
    kept: float,
) -> FloatArray:
    """The errors of the fits, squared and as a logarithm, with that of another batch; so much of the others is kept."""
    found = np.empty(len(errors))
    for place in range(len(errors)):
        expected_s = max(1e-6, foretold[0, place] * base[place] + foretold[1, place] * (records / power[place]))
        off = math.log(took_s / expected_s)
        found[place] = kept * errors[place] + off * off
    return found


@compiled
def added(
    sums: FloatArray, base: FloatArray, work: FloatArray, took_s: FloatArray, weight: float, kept: float
) -> FloatArray:
    """The sums with another batch of a ``weight``; of the others so much is ``kept``."""
    found = np.empty(sums.shape)
    for place in range(sums.shape[1]):
        one, many, took = base[place], work[place], took_s[place]
        found[0, place] = kept * sums[0, place] + weight * (one * one)
        found[1, place] = kept * sums[1, place] + weight * (one * many)
        found[2, place] = kept * sums[2, place] + weight * (many * many)
        found[3, place] = kept * sums[3, place] + weight * (one * took)
        found[4, place] = kept * sums[4, place] + weight * (many * took)
    return found


_POWERS = (1.0, 0.95, 0.9, 0.85, 0.8, 0.7, 0.5, 0.25, 0.0)
"""From instances that add up to those that do not help at all."""
_DIVIDED = (0.0, 0.5, 0.9)
GAMMAS, DIVIDED = (np.array(values) for values in zip(*product(_POWERS, _DIVIDED), strict=True))
"""What is tried for γ and φ, side by side."""
FORGETTING = 0.998
"""What is left of a batch's weight after another one."""
LEAST_S = 0.3
"""Shorter batches than this count alike."""
INCUMBENT = 0.95
"""Another γ must foretell better by this factor."""
UNUSUAL = 0.5
"""What γ = 0 must foretell better by in all, squared and as a logarithm, and others in proportion: most jobs add up."""
UNUSUAL_DIVIDED = 0.02
"""The same for what is divided: as long as nothing tells, it is not."""
_UNUSUAL = UNUSUAL * (1 - GAMMAS) + UNUSUAL_DIVIDED * DIVIDED
LEAST_GAMMA = 0.25
"""For how many instances would be needed; with less, no number of them."""
KEPT_RATIOS = 400
SLOW = 1.6
"""A batch that takes so much longer than foretold is a slow one, unless several in a row are: then it is the truth."""
SLOW_IN_A_ROW = 5
SLOW_FOR_S = 10.0
"""A slow batch counts as one in a row, and as another for each time that it took so long: there is no time to lose."""
DRIFT = 0.15
"""Batches that on average take this much longer or shorter than foretold (as a logarithm) are other than they were."""
DRIFT_MEMORY = 0.92
REMEMBERED = 0.002
"""What is left of the weight of all batches before, when batches have become other than they were."""
NEWEST, UNLIKE = 5, 1.3
"""So many batches are the newest, and tell something if the largest is so many times the smallest."""
FEWEST = 12
"""Batches before which nothing is said about that."""
OVERHEAD_S = 0.25
"""What a batch is taken to need whatever its records, before it is known."""
BELIEF = 0.2
"""How much that counts for, in batches: with few batches of one size, anything else would be a guess."""


class ServiceModel:
    def __init__(self) -> None:
        count = len(GAMMAS)
        self._sums = np.zeros((SUMS, count))
        self._errors = np.zeros(count)
        self._chosen = 0
        self._ratios = Newest(KEPT_RATIOS)
        self._slow_row = 0.0
        self._held_back: list[tuple[float, int, float]] = []
        """Slow batches in a row, which may turn out to be the truth."""
        self._drift = 0.0
        """What batches were off by lately, the mean of the logarithm."""
        self._warm_factor = 1.3
        self._warm_instances: int | None = None
        """The size of the last batch that was not cold."""
        self._newest: deque[tuple[float, int, float]] = deque(maxlen=NEWEST)
        self.batches = 0
        """Batches learned from."""
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
        """The part of the fixed time that is divided among instances."""
        return float(DIVIDED[self._chosen])

    @property
    def warm_factor(self) -> float:
        """By how much the first batch after instances joined takes longer."""
        return self._warm_factor

    @property
    def coefficients(self) -> tuple[float, float]:
        """The fixed part in seconds, and the seconds per record, on one instance."""
        if self._coefficients is None:
            fixed, slope = self._solved()
            self._coefficients = float(fixed[self._chosen]), float(slope[self._chosen])
        return self._coefficients

    @property
    def careful_coefficients(self) -> tuple[float, float]:
        """The same for batches larger than any before: the newest are looked at by themselves, too.

        Small ones may not tell what a record takes: while a job is young, overhead becomes less as its batches grow.
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
        """How long a batch is expected to take."""
        fixed_s, each_s = self.coefficients
        power = np.asarray(instances) ** self.gamma
        return np.asarray(fixed_s * (1 - self.divided + self.divided / power) + each_s * np.asarray(records) / power)

    def _expected_s(self, records: float, instances: int) -> float:
        """The same for one batch; asked for at each of them."""
        fixed_s, each_s = self.coefficients
        power, base = _scaling(instances)
        chosen = self._chosen
        return float(fixed_s * base[chosen] + each_s * (records / power[chosen]))

    def ratios(self) -> FloatArray:
        """How long batches took over what was foretold, newest last, until another one is learned from."""
        return self._ratios.values

    def learn(self, records: float, instances: int, took_s: float, *, cold: bool = False) -> None:
        """Take in a batch that has ended; a ``cold`` one tells of warming up only."""
        if records <= 0 or instances < 1 or took_s <= 0:
            return
        ratio = took_s / max(1e-6, self._expected_s(records, instances)) if self.batches else 1.0
        if self.batches:
            if cold:
                self._warm_factor += 0.2 * (min(4.0, max(1.0, ratio)) - self._warm_factor)
                # It tells of the work, too, where those that were there before would not have needed as long.
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
        self._take(records, instances, took_s, ratio)

    def _hold_back(self, records: float, instances: int, took_s: float) -> None:
        """A slow batch is no reason to believe otherwise; several in a row are."""
        self._slow_row += 1 + took_s / SLOW_FOR_S
        self._held_back.append((records, instances, took_s))
        if self._slow_row < SLOW_IN_A_ROW:
            return
        self._forget()
        for one in self._held_back:
            self._take(*one, ratio=1.0)
        self._slow_row, self._held_back = 0.0, []

    def _forget(self) -> None:
        """Records have become heavier or lighter: what was learned before counts little from now on."""
        self._sums = REMEMBERED * self._sums
        self._errors = REMEMBERED * self._errors
        self._ratios.clear()
        self._solution, self._coefficients, self._drift = None, None, 0.0

    def _take(self, records: float, instances: int, took_s: float, ratio: float) -> None:
        self._newest.append((records, instances, took_s))
        power, base = _scaling(instances)
        if self.batches:
            self._errors = judged(self._errors, self._solved(), base, power, records, took_s, FORGETTING)
            if self.batches >= FEWEST:
                self._drift = DRIFT_MEMORY * self._drift + (1 - DRIFT_MEMORY) * math.log(ratio)
        if abs(self._drift) > DRIFT:
            self._forget()
        weight = 1 / max(took_s, LEAST_S) ** 2
        if not self.batches:
            self._sums = added(self._sums, base, np.zeros_like(base), OVERHEAD_S * base, BELIEF * weight, 1.0)
        self._sums = added(self._sums, base, records / power, np.full(len(base), took_s), weight, FORGETTING)
        self._solution, self._coefficients = None, None
        errors = self._errors + _UNUSUAL
        best = int(errors.argmin())
        if errors[best] < INCUMBENT * errors[self._chosen] - 1e-12:
            self._chosen = best
        self.batches += 1

    def _solved(self) -> FloatArray:
        """The fixed part and the seconds per record, for each γ and φ."""
        if self._solution is None:
            self._solution = solved(self._sums)
        return self._solution

    def to_json(self) -> dict[str, JSON]:
        return {
            "sums": self._sums.tolist(),
            "errors": self._errors.tolist(),
            "chosen": self._chosen,
            "ratios": self._ratios.values.tolist(),
            "slow_row": self._slow_row,
            "drift": self._drift,
            "held_back": [list(one) for one in self._held_back],
            "warm_factor": self._warm_factor,
            "warm_instances": self._warm_instances,
            "newest": [list(one) for one in self._newest],
            "batches": self.batches,
        }

    @classmethod
    def from_json(cls, saved: Mapping[str, JSON]) -> ServiceModel:
        made = cls()
        made._sums = np.array(saved["sums"], dtype=np.float64)
        made._errors = np.array(saved["errors"], dtype=np.float64)
        made._chosen = int(saved["chosen"])
        made._ratios = Newest(KEPT_RATIOS, saved["ratios"])
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
    """By what work is divided, and what is left of the fixed part, for each γ and φ."""
    power = float(instances) ** GAMMAS
    return power, 1 - DIVIDED + DIVIDED / power

"""The size of a block that is worth its instances: each more instance against the steps it is expected to save."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import ndtr

from headgate.core.types import JSON
from headgate.forecast.base import FloatArray
from headgate.policies.capacity.censored import CensoredCurve
from headgate.policies.capacity.mst import Measured


def quantiles_of(ordered: FloatArray, shares: FloatArray) -> FloatArray:
    """What ``np.quantile`` gives, to the last bit, of values in ascending order that are all finite.

    >>> quantiles_of(np.array([1.0, 2.0, 4.0]), np.array([0.0, 0.5, 0.75, 1.0])).tolist()
    [1.0, 2.0, 3.0, 4.0]
    """
    places = (len(ordered) - 1) * shares
    below = np.floor(places)
    part = places - below
    index = below.astype(np.intp)
    low, high = ordered[index], ordered[np.minimum(index + 1, len(ordered) - 1)]
    width = high - low
    # From the nearer of the two, as numpy does it: else rounding could lead past the higher one.
    return np.asarray(np.where(part >= 0.5, high - width * (1 - part), low + width * part))


POINTS = 200
_SPANS = (2, 5, 10, 20)
"""The level is the mean of so many newest values."""
_SPAN_MEMORY = 100
"""Blocks by which it is judged how well each of them tells the next; one begins at every step."""
_TREND_STEPS = 6
_RESTLESS_STEPS = 30
_MEMORY = 2000
"""Steps at which errors begin that are remembered."""
_LEAST = 30
_TINY = 1e-9
_STILL = 1e-3
"""A load that moves by less than this share per step is taken to be as restless as that: any move would surprise."""
_FURTHEST = 3.0
"""Errors beyond this factor of e³ = 20, up or down, say that a load began or ended, and no more."""
_UNKNOWN = 0.1
"""Spread of a load, as a share, of which nothing is known yet."""
_SHARES: FloatArray = (np.arange(POINTS) + 0.5) / POINTS
_WIDE: FloatArray = _UNKNOWN * np.linspace(-2.5, 2.5, POINTS)


@dataclass(frozen=True)
class EqualLoads:
    """Equally probable loads of the steps of a block, in ascending order."""

    level: float
    """What the newest values suggest, in records/s."""
    errors: FloatArray
    """Logarithms of the load over the level."""

    @property
    def highest(self) -> float:
        """The highest of these loads."""
        return float(np.exp(self.logarithms[-1]))

    @cached_property
    def logarithms(self) -> FloatArray:
        """Of the loads."""
        return np.asarray(np.log(self.level) + self.errors)


class BlockOutlook:
    """The outlook on a block that begins ``lead_steps`` after the newest value."""

    def __init__(self, lead_steps: int, block_steps: int) -> None:
        self._lead = lead_steps
        self._block = block_steps
        span = lead_steps + block_steps
        self._values: deque[float] = deque(maxlen=max(span, _TREND_STEPS, *_SPANS))
        # Level and restlessness of the newest steps whose block is not over yet, and the mean of each span then.
        self._origins: deque[tuple[float, float]] = deque(maxlen=span)
        self._means: deque[tuple[float, ...]] = deque(maxlen=span)
        self._span_errors: FloatArray = np.zeros(len(_SPANS))
        self._errors: FloatArray = np.zeros((_MEMORY, block_steps))
        self._count = 0
        self._restless = 0.0
        self._steps = 0

    def observe(self, value: float) -> None:
        value = max(value, _TINY)
        if self._values:
            move = abs(np.log(value / self._values[-1]))
            self._restless += (move - self._restless) / min(self._steps, _RESTLESS_STEPS)
        self._steps += 1
        self._values.append(value)
        newest_first = list(self._values)[::-1]
        self._means.append(tuple(sum(newest_first[:span]) / len(newest_first[:span]) for span in _SPANS))
        self._origins.append((self._level(), float(np.sqrt(max(self._restless, _STILL)))))
        if len(self._origins) == self._lead + self._block:
            # The value that is lead + block − 1 steps after an origin ends its block.
            level, scale = self._origins[0]
            steps = np.array(self._values)[-self._block :]
            off = np.abs(np.log(np.array(self._means[0]) / steps.mean()))
            self._span_errors = self._span_errors + (off - self._span_errors) / min(self._count + 1, _SPAN_MEMORY)
            self._errors[self._count % _MEMORY] = np.clip(np.log(steps / level), -_FURTHEST, _FURTHEST) / scale
            self._count += 1

    def now(self) -> EqualLoads | None:
        """As of the newest value; none before there is one."""
        if not self._origins:
            return None
        level, scale = self._origins[-1]
        if self._count < _LEAST:
            return EqualLoads(level, _WIDE)
        errors = scale * quantiles_of(np.sort(self._errors[: min(self._count, _MEMORY)], axis=None), _SHARES)
        return EqualLoads(level, np.clip(errors, -_FURTHEST, _FURTHEST))

    def _level(self) -> float:
        values = np.array(self._values)[-_TREND_STEPS:]
        best = int(np.argmin(self._span_errors)) if self._count >= _LEAST else 0
        level = self._means[-1][best]
        if best > 0 or len(values) < 3:
            return level
        offsets = np.arange(len(values)) - (len(values) - 1) / 2
        slope = float(offsets @ values) / float(offsets @ offsets)
        return level + max(0.0, slope) * (self._lead + self._block / 2)

    def snapshot(self) -> JSON:
        return [
            list(self._values),
            [list(origin) for origin in self._origins],
            self._errors[: min(self._count, _MEMORY)].tolist(),
            self._count,
            self._restless,
            self._steps,
            [list(means) for means in self._means],
            self._span_errors.tolist(),
        ]

    def restore(self, state: JSON) -> None:
        values, origins, errors, count, restless, steps, means, span_errors = state
        self._values.extend(float(value) for value in values)
        self._origins.extend((float(level), float(scale)) for level, scale in origins)
        self._errors[: len(errors)] = np.array(errors, dtype=np.float64).reshape(-1, self._block)
        self._count, self._restless, self._steps = int(count), float(restless), int(steps)
        self._means.extend(tuple(float(mean) for mean in row) for row in means)
        self._span_errors = np.array(span_errors, dtype=np.float64)


_WORTH_RANGE = math.log(2.0)
"""The worth of a miss stays within this factor of its setting: no ruinous price is paid to meet an objective."""


class QuantileSizer:
    """The capacity curve of one operator, what a missed step is worth, and the best size by both.

    The share of steps that a size misses is the outlook on the load convolved with the uncertainty of what the size
    sustains. Its cost is its instances over those that the expected load needs; a size is best when cost plus ``worth``
    times share is least. The worth is adjusted so that, in the long run, the share of missed steps is the
    allowed one: the counterpart of a conformal offset for a whole size.
    """

    def __init__(
        self,
        target: float,
        worth: float,
        gain: float,
        highest: int,
        training: Sequence[Measured] = (),
        validation: Sequence[Measured] = (),
    ) -> None:
        self._allowed = 1 - target
        self._gain = gain
        self._start = math.log(worth)
        self._log_worth = self._start
        self._highest = highest
        self._curve = CensoredCurve((*training, *validation), highest) if training else None
        self._sizes = np.arange(1.0, highest + 1.0)
        # Of the present block, per size: the highest load it carried, the sum and the number of what it sustained.
        self._read: dict[int, tuple[float, float, int]] = {}
        # What one instance might carry at least, by how busy it was; it counts until something was sustained.
        self._estimated: float | None = None
        self._is_estimate = False
        self._steps = 0
        self._missed = 0

    def read(self, instances: int, load: float, sustained: float | None) -> None:
        """Take in one step: what arrived, and what was sustained if that was less."""
        highest, total, count = self._read.get(instances, (0.0, 0.0, 0))
        self._steps += 1
        if sustained is None:
            self._read[instances] = (max(highest, load), total, count)
        else:
            self._missed += 1
            self._read[instances] = (highest, total + sustained, count + 1)

    def estimate(self, instances: int, throughput_per_s: float) -> None:
        """Take in what instances that are not saturated might carry: or a job that begins too large stays so."""
        if self._curve is None or self._is_estimate:
            each = throughput_per_s / instances
            self._estimated = each if self._estimated is None else min(each, self._estimated)

    def end_block(self) -> None:
        """Learn from what was read since the last block."""
        if self._is_estimate and any(count for _, _, count in self._read.values()):
            self._curve, self._is_estimate = None, False
        elif self._curve is None and self._estimated is not None:
            self._curve, self._is_estimate = CensoredCurve(((1, self._estimated),), self._highest), True
        self._estimated = None
        for instances, (highest, total, count) in self._read.items():
            if count and self._curve is None:
                self._curve = CensoredCurve(((instances, total / count),), self._highest)
            elif self._curve is not None and count:
                self._curve.sustained(min(instances, self._highest), total / count)
            elif self._curve is not None:
                self._curve.carried(min(instances, self._highest), highest)
        if self._steps:
            excess = self._missed / self._steps - self._allowed
            self._log_worth += self._gain * excess / self._allowed
            self._log_worth = min(max(self._log_worth, self._start - _WORTH_RANGE), self._start + _WORTH_RANGE)
        self._read.clear()
        self._steps = self._missed = 0

    def size(self, outlook: EqualLoads) -> int | None:
        if self._curve is None:
            return None
        expected, spread = self._curve.expected, self._curve.spread
        missed = ndtr((outlook.logarithms[None, :] - np.log(expected)[:, None]) / spread[:, None]).mean(axis=1)
        needed = float(np.interp(outlook.level, np.maximum.accumulate(expected), self._sizes))
        return int(np.argmin(self._sizes / needed + math.exp(self._log_worth) * missed)) + 1

    @property
    def worth(self) -> float:
        return math.exp(self._log_worth)

    def snapshot(self) -> JSON:
        return [
            self._log_worth,
            None if self._curve is None else self._curve.snapshot(),
            [[size, *sums] for size, sums in self._read.items()],
            self._steps,
            self._missed,
            self._estimated,
            self._is_estimate,
        ]

    def restore(self, state: JSON) -> None:
        log_worth, curve, read, steps, missed, estimated, is_estimate = state
        self._log_worth = float(log_worth)
        self._curve = None
        if curve is not None:
            self._curve = CensoredCurve(((1, 1.0),), self._highest)
            self._curve.restore(curve)
        self._read = {int(size): (float(high), float(total), int(count)) for size, high, total, count in read}
        self._steps, self._missed = int(steps), int(missed)
        self._estimated = None if estimated is None else float(estimated)
        self._is_estimate = bool(is_estimate)

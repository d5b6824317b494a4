"""The size of a block that is worth its instances: each more instance against the steps it is expected to save."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import ndtr

from headgate.core.types import JSON
from headgate.policies.blocks.outlook import Outlook
from headgate.policies.capacity.censored import CensoredCurve
from headgate.policies.capacity.mst import Measured

_FURTHEST = math.log(2.0)
"""The worth of a miss stays within this factor of what was set: what can only be kept at a ruinous price is not."""


class QuantileSizer:
    """The capacity curve of one operator, what a missed step is worth, and the best size by both.

    The share of steps that a size misses is the outlook on the load convolved with the uncertainty of what the size
    sustains. Its cost is its instances over those that the expected load needs; a size is best when cost plus ``worth``
    times share is least. The worth is moved so that, in the long run, the share of steps that were missed is the one
    asked for: the counterpart of a conformal offset for a whole size.
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
            self._log_worth = min(max(self._log_worth, self._start - _FURTHEST), self._start + _FURTHEST)
        self._read.clear()
        self._steps = self._missed = 0

    def size(self, outlook: Outlook) -> int | None:
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

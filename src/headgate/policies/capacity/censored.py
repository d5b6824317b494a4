"""A throughput curve that keeps learning: from what was sustained at saturation, and from what was carried with ease.

Saturated readings alone mislead: a size is seen saturated when it happens to sustain little, so their mean is too low.
What it carried without saturating is the other half of the truth: there it could have carried at least that much (the
reading is censored). Both together are unbiased.

The logarithm of the throughput is a fitted MST model plus a correction, which is linear between a few sizes and
gaussian in its uncertainty. A saturated reading is an observation of it; an unsaturated one moves it by the slope of
the censored likelihood (one Fisher-scoring step).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.optimize import nnls

from headgate.core.types import JSON
from headgate.forecast.base import FloatArray
from headgate.policies.capacity.mst import PRIOR_FREEDOM, Measured, MstKind, MstModel

_PRIOR_DEVIATION = 0.15
"""How far, as a share, the fitted model may be off where nothing was measured."""
_NEAR = 0.2
"""The same at neighbouring knots: how much a correction may change while the size doubles."""
_LEAST_NOISE = 0.01
_USUAL_NOISE = 0.05
"""Where no size was measured twice."""
_SIGNIFICANT = -4.0
"""Deviations below the expected throughput at which being unsaturated tells nothing any more."""


class CensoredCurve:
    """The throughput of 1 … ``highest`` instances and how sure it is.

    >>> curve = CensoredCurve([(1, 100.0), (1, 102.0), (2, 199.0), (2, 195.0), (4, 380.0), (4, 390.0)], highest=8)
    >>> before = float(curve.expected[7])
    >>> for _ in range(20):
    ...     curve.sustained(8, 500.0)
    >>> before > 600, round(float(curve.expected[7]), -1)
    (True, 500.0)
    """

    def __init__(self, training: Sequence[Measured], highest: int) -> None:
        self._set_up(_relative_fit(training), highest)
        self._noise = self._relative_noise(training)
        for size, throughput in training:
            if size <= highest:
                self.sustained(size, throughput)

    def _set_up(self, model: MstModel, highest: int) -> None:
        self._model = model
        self._sizes: FloatArray = np.arange(1.0, highest + 1.0)
        knots = math.ceil(math.log2(highest)) + 1 if highest > 1 else 1
        place = np.log2(self._sizes)
        self._features: FloatArray = np.maximum(0.0, 1 - np.abs(place[:, None] - np.arange(knots)))
        self._base: FloatArray = np.log(np.maximum(self._model.throughput(self._sizes), 1e-9))
        self._weights: FloatArray = np.zeros(knots)
        gaps = np.abs(np.subtract.outer(np.arange(knots), np.arange(knots)))
        self._covariance: FloatArray = _PRIOR_DEVIATION**2 * np.exp(-_NEAR * gaps)

    def _relative_noise(self, training: Sequence[Measured]) -> float:
        """Deviation of repeated measurements of one size, as a share."""
        sums, freedom = 0.0, 0
        for size in {size for size, _ in training}:
            values = np.log([throughput for other, throughput in training if other == size])
            sums += float(np.sum((values - values.mean()) ** 2))
            freedom += len(values) - 1
        if not freedom:
            return _USUAL_NOISE
        return max(_LEAST_NOISE, math.sqrt(sums / freedom))

    @property
    def expected(self) -> FloatArray:
        """Median throughput of each size in records/s."""
        return np.asarray(np.exp(self._base + self._features @ self._weights))

    @property
    def spread(self) -> FloatArray:
        """Deviation of what a size sustains, as a share: its noise, and what is not known of its mean."""
        doubt = np.einsum("ij,jk,ik->i", self._features, self._covariance, self._features)
        return np.asarray(np.sqrt(self._noise**2 + doubt))

    def sustained(self, size: int, throughput: float) -> None:
        """Take in what a size sustained when it was saturated."""
        surprise = math.log(throughput) - self._expected_log(size)
        self._move(size, surprise, self._noise**2)

    def carried(self, size: int, load: float) -> None:
        """Take in the highest load that a size carried without being saturated."""
        if load <= 0:
            return
        distance = (math.log(load) - self._expected_log(size)) / self._noise
        if distance < _SIGNIFICANT:
            return
        # Beyond this the ratio below is its argument but for rounding.
        distance = min(distance, 8.0)
        hazard = (
            math.exp(-distance * distance / 2) / math.sqrt(2 * math.pi) / (0.5 * math.erfc(distance / math.sqrt(2)))
        )
        information = hazard * (hazard - distance)
        self._move(size, self._noise * hazard / information, self._noise**2 / information)

    def _expected_log(self, size: int) -> float:
        return float(self._base[size - 1] + self._features[size - 1] @ self._weights)

    def _move(self, size: int, surprise: float, variance: float) -> None:
        features = self._features[size - 1]
        gain = self._covariance @ features
        total = float(features @ gain) + variance
        self._weights = self._weights + gain * (surprise / total)
        self._covariance = self._covariance - np.outer(gain, gain) / total

    def snapshot(self) -> JSON:
        return [self._model.to_json(), self._noise, self._weights.tolist(), self._covariance.tolist()]

    def restore(self, state: JSON) -> None:
        """Go on from a snapshot; what the curve was made from does not matter then."""
        model, noise, weights, covariance = state
        self._set_up(MstModel.from_json(model), len(self._sizes))
        self._noise = float(noise)
        self._weights = np.array(weights, dtype=np.float64)
        self._covariance = np.array(covariance, dtype=np.float64)


def _relative_fit(measured: Sequence[Measured]) -> MstModel:
    """Model 1 with its first two weights, by least squares of *relative* errors.

    Throughputs vary by a share of themselves. The other two weights make a curve turn down beyond the sizes that were
    measured, by no more than the noise of the largest; what is wrong there is left to the correction.
    """
    sizes = np.array([size for size, _ in measured], dtype=np.float64)
    throughputs = np.array([throughput for _, throughput in measured])
    if len(set(sizes)) == 1:
        # One size says nothing about the others but that twice as many might carry twice as much.
        return MstModel(MstKind.RECIPROCAL, (0.0, float(np.mean(sizes / throughputs)), 0.0, 0.0), 0.0, PRIOR_FREEDOM)
    features = MstKind.RECIPROCAL.features(sizes)[:, :2] * throughputs[:, None]
    scale = np.sqrt(np.mean(features * features, axis=0))
    weights, _ = nnls(features / scale, np.ones(len(sizes)))
    return MstModel(MstKind.RECIPROCAL, (*(float(weight) for weight in weights / scale), 0.0, 0.0), 0.0, PRIOR_FREEDOM)

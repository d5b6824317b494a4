"""Judges whether a performance model is reliable, by the spread of its predictions over refits.

Source: giannakopoulos Alg. 4 and 5. As printed, the spread is that of predictions over *inputs*, which does not depend
on the model's quality. Here the model is refitted to each resample of the readings, and the spread is the standard
deviation of its predictions at each point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headgate.forecast.base import FloatArray
from headgate.policies.capacity.performance import CEILING, PerformanceModel, Point, as_arrays

_PHASE_2_POINTS = 25
_RIDGE = 1e-6
_RANK = 1e-9


@dataclass(frozen=True, slots=True)
class Stability:
    """The largest spread at the readings (phase 1), and up to what the present size can carry (phase 2)."""

    at_readings: float
    up_to_capacity: float
    threshold: float

    @property
    def is_stable(self) -> bool:
        return self.at_readings <= self.threshold and self.up_to_capacity <= self.threshold


def check_stability(
    model: PerformanceModel,
    points: Sequence[Point],
    rate_per_s: float,
    instances: int,
    *,
    threshold: float,
    resamples: int = 250,
    seed: int = 0,
) -> Stability:
    """Run both phases of the check with the same refits.

    ``rate_per_s`` and ``instances`` are the present load and size; ``threshold`` is in pressure.
    """
    rates, sizes, pressures = as_arrays(points)
    highest = max(rate_per_s, instances * model.capacity_per_s)
    ahead = np.linspace(rate_per_s, highest, _PHASE_2_POINTS)
    design = model.polynomial.design(rates, sizes)
    ahead_design = model.polynomial.design(ahead, np.full(len(ahead), float(instances)))
    spread = prediction_spread(design, pressures, np.vstack((design, ahead_design)), resamples=resamples, seed=seed)
    return Stability(float(spread[: len(rates)].max()), float(spread[len(rates) :].max()), threshold)


def prediction_spread(
    design: FloatArray, values: FloatArray, at: FloatArray, *, resamples: int = 250, seed: int = 0
) -> FloatArray:
    """Return the standard deviation, at each row of ``at``, of the predictions of fits to bootstrap resamples.

    A resample only changes the weights of the rows of one design matrix, so all fits are solved at once, in a basis in
    which the whole sample is orthonormal.

    >>> line = np.stack((np.ones(50), np.linspace(0, 1, 50)), axis=1)
    >>> [float(spread) for spread in prediction_spread(line, line @ [1.0, 0.5], line[:2]).round(6)]
    [0.0, 0.0]
    """
    count = len(values)
    basis, singular, rotation = np.linalg.svd(design, full_matrices=False)
    rank = int((singular > _RANK * singular[0]).sum())
    basis = basis[:, :rank] * np.sqrt(count)
    points = at @ rotation[:rank].T / singular[:rank] * np.sqrt(count)
    weights = np.random.default_rng(seed).multinomial(count, np.full(count, 1 / count), size=resamples).astype(float)
    rows, columns = np.triu_indices(rank)
    halves = weights @ (basis[:, rows] * basis[:, columns])
    grams = np.empty((resamples, rank, rank))
    grams[:, rows, columns] = grams[:, columns, rows] = halves
    # A resample may contain no readings of a size; the ridge keeps the unknown coefficients finite.
    grams += _RIDGE * count * np.eye(rank)
    moments = weights @ (basis * values[:, None])
    coefficients = np.linalg.solve(grams, moments[:, :, None])[:, :, 0]
    spread: FloatArray = np.clip(coefficients @ points.T, 0.0, CEILING).std(axis=0)
    return spread

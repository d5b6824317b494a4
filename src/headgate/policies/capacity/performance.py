"""The performance model: how much of the objective a load uses up at a size (giannakopoulos §3.3.1, Alg. 3).

What is modelled is the *pressure*, 1 being the objective's bound: for an objective on slow records it is their share
over the allowed share, for one on latency the latency over its bound. So one model, and one set of thresholds, serves
every objective.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from headgate.core.errors import InputError
from headgate.core.types import JSON
from headgate.forecast.base import FloatArray


@dataclass(frozen=True, slots=True)
class MonotoneCurve:
    """A piecewise linear, never falling curve; constant beyond its outermost knots."""

    at: tuple[float, ...]
    values: tuple[float, ...]

    @property
    def left(self) -> float:
        return self.at[0]

    @property
    def right(self) -> float:
        return self.at[-1]

    def __call__(self, at: FloatArray) -> FloatArray:
        value: FloatArray = np.interp(at, self.at, self.values)
        return value

    @classmethod
    def monotone(cls, at: FloatArray, values: FloatArray, weights: FloatArray) -> MonotoneCurve:
        """Fit a never-falling curve to values by weighted least squares.

        >>> MonotoneCurve.monotone(np.array([0.0, 1.0, 2.0]), np.array([0.1, 0.5, 0.3]), np.ones(3)).values
        (0.1, 0.4, 0.4)
        """
        from scipy.optimize import isotonic_regression

        fitted = isotonic_regression(values, weights=weights).x
        return cls(tuple(float(value) for value in at), tuple(float(value) for value in fitted))

    @classmethod
    def through(cls, at: FloatArray, values: FloatArray, knots: int) -> MonotoneCurve:
        """Fit a never-falling curve to scattered points, averaged into at most ``knots`` groups of equal count."""
        order = np.argsort(at, kind="stable")
        parts = [part for part in np.array_split(order, min(knots, len(order))) if len(part)]
        means = np.array([at[part].mean() for part in parts])
        # The ends stay: averaging must not shrink the range of the readings.
        means[0], means[-1] = at[order[0]], at[order[-1]]
        counts = np.array([float(len(part)) for part in parts])
        return cls.monotone(means, np.array([float(values[part].mean()) for part in parts]), counts)

    def to_json(self) -> dict[str, JSON]:
        return {"at": list(self.at), "values": list(self.values)}

    @classmethod
    def from_json(cls, state: Mapping[str, JSON]) -> MonotoneCurve:
        return cls(tuple(float(value) for value in state["at"]), tuple(float(value) for value in state["values"]))


_NEIGHBOURS = 9
_DEVIATIONS = 4.0
_NORMAL = 1.4826
"""Times the median absolute deviation is the standard deviation, where errors are normal."""
TOLERANCE = 0.5
"""Half the objective's bound: a reading that is nearer than this to its neighbours is never left out."""


def typical(points: Sequence[tuple[float, int, float]]) -> list[bool]:
    """Return whether each (rate, instances, pressure) is like its neighbours of the same size and a similar rate.

    Neighbours rather than the whole sample: readings near the capacity of a size are few and high, and they matter most
    to the model. A single one among normal neighbours is an outlier.

    >>> steady = [(float(rate), 1, 0.01 * rate) for rate in range(20)]
    >>> typical([*steady, (10.5, 1, 1.8)]).count(False)
    1
    """
    values = np.array(points, dtype=float).reshape(-1, 3)
    typical_points = np.ones(len(values), dtype=bool)
    for size in np.unique(values[:, 1]):
        members = np.flatnonzero(values[:, 1] == size)
        if len(members) >= _NEIGHBOURS:
            order = members[np.argsort(values[members, 0], kind="stable")]
            typical_points[order] = _like_neighbours(values[order, 2])
    return [bool(value) for value in typical_points]


def _like_neighbours(pressures: FloatArray) -> NDArray[np.bool_]:
    first = np.clip(np.arange(len(pressures)) - _NEIGHBOURS // 2, 0, len(pressures) - _NEIGHBOURS)
    around = pressures[first[:, None] + np.arange(_NEIGHBOURS)]
    medians = np.median(around, axis=1)
    deviations = _NORMAL * np.median(np.abs(around - medians[:, None]), axis=1)
    like: NDArray[np.bool_] = np.abs(pressures - medians) <= np.maximum(TOLERANCE, _DEVIATIONS * deviations)
    return like


CEILING = 2.0
"""A pressure beyond this is as bad as this: how far a queue had grown says nothing about load and size."""
MAX_DEGREE = 8
_FOLDS = 5
_BLOCK = 10
"""Readings in a row that go into the same fold: neighbours in time are alike, and must not predict each other."""
_RIDGE = 1e-9
_KNOTS = 33
_LEAST_NEAR = 20
_ONE_SIGMA = 0.6827


class Point(NamedTuple):
    """One steady reading."""

    rate_per_s: float
    instances: int
    pressure: float


@dataclass(frozen=True, slots=True)
class Polynomial:
    """A polynomial in the load per instance and the instances, in Chebyshev form on the range of the data."""

    degree: int
    instance_degree: int
    """Highest power of the number of instances: below the number of sizes that were seen."""
    loads: tuple[float, float]
    sizes: tuple[float, float]
    coefficients: tuple[float, ...] = ()

    def design(self, rates_per_s: FloatArray, instances: FloatArray) -> FloatArray:
        """One row per point, one column per term."""
        load_terms = chebyshev.chebvander(_scaled(rates_per_s / instances, self.loads), self.degree)
        size_terms = chebyshev.chebvander(_scaled(instances, self.sizes), self.instance_degree)
        terms = [
            load_terms[:, power] * size_terms[:, other]
            for other in range(self.instance_degree + 1)
            for power in range(self.degree + 1 - other)
        ]
        return np.stack(terms, axis=1)

    def __call__(self, rates_per_s: FloatArray, instances: FloatArray) -> FloatArray:
        value: FloatArray = self.design(rates_per_s, instances) @ np.array(self.coefficients)
        return value


@dataclass(frozen=True, slots=True)
class PerformanceModel:
    """What pressure to expect of a load at a size, with the error of that expectation.

    The document's two inputs, load and instances, enter as load per instance and instances: then what the job does at
    three instances says something about four. Where there are readings of a size, its curve is the polynomial, made
    monotone in the load; where there are none, it is what all sizes together show at the same load per instance, never
    below what is known to the left of it. Beyond every reading the pressure grows with the load at least, and it is 1
    at the learned capacity, because that is where the objective broke.
    """

    polynomial: Polynomial
    curves: Mapping[int, MonotoneCurve]
    """Pressure over records per second, for each size that was seen."""
    shared: MonotoneCurve
    """Pressure over records per second and instance, from all sizes together."""
    capacity_per_s: float
    """Records per second that one instance carries."""
    error: float
    """What predictions near the bound are off by, as a standard deviation, from cross-validation."""
    readings: int
    outliers: int

    def predict(self, rates_per_s: Sequence[float] | FloatArray, instances: int) -> FloatArray:
        """The pressure of each of some loads at a size."""
        rates = np.asarray(rates_per_s, dtype=float)
        loads = rates / instances
        shared = self.shared(loads)
        beyond = loads > self.shared.right
        growth = np.maximum(shared * loads / max(self.shared.right, 1e-12), loads / self.capacity_per_s)
        shared = np.where(beyond, growth, shared)
        curve = self.curves.get(instances)
        if curve is None:
            return shared
        own = curve(rates)
        silent_above = np.where(rates > curve.right, np.maximum(own, shared), own)
        return np.where(rates < curve.left, np.minimum(own, shared), silent_above)

    def knows(self, rate_per_s: float, instances: int) -> bool:
        """Whether there are readings about there; elsewhere a prediction is a bound rather than a claim."""
        curve = self.curves.get(instances)
        if curve is not None and curve.left <= rate_per_s <= curve.right:
            return True
        return self.shared.left <= rate_per_s / instances <= self.shared.right

    def to_json(self) -> dict[str, JSON]:
        polynomial = self.polynomial
        return {
            "degree": polynomial.degree,
            "instance_degree": polynomial.instance_degree,
            "loads": list(polynomial.loads),
            "sizes": list(polynomial.sizes),
            "coefficients": list(polynomial.coefficients),
            "curves": {str(size): curve.to_json() for size, curve in self.curves.items()},
            "shared": self.shared.to_json(),
            "capacity_per_s": self.capacity_per_s,
            "error": self.error,
            "readings": self.readings,
            "outliers": self.outliers,
        }

    @classmethod
    def from_json(cls, state: Mapping[str, JSON]) -> PerformanceModel:
        polynomial = Polynomial(
            int(state["degree"]),
            int(state["instance_degree"]),
            (float(state["loads"][0]), float(state["loads"][1])),
            (float(state["sizes"][0]), float(state["sizes"][1])),
            tuple(float(value) for value in state["coefficients"]),
        )
        return cls(
            polynomial,
            {int(size): MonotoneCurve.from_json(curve) for size, curve in state["curves"].items()},
            MonotoneCurve.from_json(state["shared"]),
            float(state["capacity_per_s"]),
            float(state["error"]),
            int(state["readings"]),
            int(state["outliers"]),
        )


def fit_performance(
    points: Sequence[Point], capacity_per_s: float, max_degree: int = MAX_DEGREE
) -> tuple[PerformanceModel, list[Point]]:
    """The model of some readings, and the readings it was made of.

    Alg. 3 as printed compares predictions with themselves, and by the training error the highest degree always wins:
    the degree is chosen by cross-validation, the lowest one that is within a standard error of the best. Readings that
    differ from all others of their size and load are left out before (the document's future work).

    >>> points = [Point(rate, size, 0.1 + 0.02 * rate / size) for size in (1, 2) for rate in range(5, 40 * size)]
    >>> model, _ = fit_performance(points, capacity_per_s=45.0)
    >>> model.polynomial.degree, [round(float(pressure), 3) for pressure in model.predict([20.0, 60.0, 200.0], 2)]
    (1, [0.3, 0.7, 2.236])
    """
    if len(points) < _FOLDS:
        raise InputError(f"{len(points)} readings are too few for a performance model; it needs at least {_FOLDS}.")
    capped = [Point(point.rate_per_s, point.instances, min(point.pressure, CEILING)) for point in points]
    typical_points = [point for point, is_typical in zip(capped, typical(capped), strict=True) if is_typical]
    rates, sizes, pressures = as_arrays(typical_points)
    polynomial, error = _choose(rates, sizes, pressures, max_degree)
    model = PerformanceModel(
        polynomial,
        {int(size): _curve(polynomial, rates[sizes == size], int(size)) for size in np.unique(sizes)},
        MonotoneCurve.through(rates / sizes, pressures, _KNOTS),
        capacity_per_s,
        error,
        len(typical_points),
        len(points) - len(typical_points),
    )
    return model, typical_points


def as_arrays(points: Sequence[Point]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Rates, instances and pressures."""
    rates, sizes, pressures = np.array(points, dtype=float).reshape(-1, 3).T
    return rates, sizes, pressures


def _choose(rates: FloatArray, sizes: FloatArray, pressures: FloatArray, max_degree: int) -> tuple[Polynomial, float]:
    loads = rates / sizes
    block = _BLOCK if len(rates) >= _BLOCK * _FOLDS else 1
    folds = np.arange(len(rates)) // block % _FOLDS
    distinct = len(np.unique(sizes))
    candidates: list[tuple[Polynomial, FloatArray, FloatArray]] = []
    for degree in range(1, max_degree + 1):
        shape = Polynomial(degree, min(degree, distinct - 1), _range(loads), _range(sizes))
        design = shape.design(rates, sizes)
        if design.shape[1] > len(rates) / _FOLDS and candidates:
            break
        candidates.append((shape, design, _held_out(design, pressures, folds)))
    squares = [(predicted - pressures) ** 2 for _, _, predicted in candidates]
    errors = np.array([[square[folds == fold].mean() for fold in range(_FOLDS)] for square in squares])
    means = errors.mean(axis=1)
    best = int(np.argmin(means))
    tolerated = means[best] + float(errors[best].std(ddof=1)) / np.sqrt(_FOLDS) + 1e-12
    shape, design, predicted = candidates[int(np.argmax(means <= tolerated))]
    coefficients = _solved(design.T @ design, design.T @ pressures, len(rates))
    fitted = replace(shape, coefficients=tuple(float(value) for value in coefficients))
    return fitted, _error(predicted, pressures)


def _held_out(design: FloatArray, pressures: FloatArray, folds: NDArray[np.int64]) -> FloatArray:
    """What the fit to all other folds predicts for each: the whole is summed once, each fold is taken out of it."""
    gram, moments = design.T @ design, design.T @ pressures
    predicted = np.empty(len(pressures))
    for fold in range(_FOLDS):
        held = folds == fold
        part = design[held]
        coefficients = _solved(gram - part.T @ part, moments - part.T @ pressures[held], len(design))
        predicted[held] = np.clip(part @ coefficients, 0.0, CEILING)
    return predicted


def _error(predicted: FloatArray, pressures: FloatArray) -> float:
    """One standard deviation of what held-out predictions are off by where it matters, near the bound."""
    near = predicted >= 0.5
    off = np.abs(predicted - pressures)
    # By rank, because a few readings of a queue that happened to grow must not count as the common error.
    return float(np.quantile(off[near] if near.sum() >= _LEAST_NEAR else off, _ONE_SIGMA))


def _solved(gram: FloatArray, moments: FloatArray, count: int) -> FloatArray:
    # The least that keeps terms apart which the readings cannot tell apart.
    solution = np.linalg.solve(gram + _RIDGE * count * np.eye(len(gram)), moments)
    return np.asarray(solution, dtype=np.float64)


def _curve(polynomial: Polynomial, rates: FloatArray, size: int) -> MonotoneCurve:
    knots = np.linspace(rates.min(), rates.max(), _KNOTS) if np.ptp(rates) > 0 else rates[:1]
    pressures = np.clip(polynomial(knots, np.full(len(knots), float(size))), 0.0, CEILING)
    nearest = np.abs(rates[:, None] - knots[None, :]).argmin(axis=1)
    # Where there are hardly any readings, the neighbours and monotonicity say what the polynomial cannot know.
    weights = np.bincount(nearest, minlength=len(knots)).astype(np.float64) + 1e-3
    return MonotoneCurve.monotone(knots, pressures, weights)


def _range(values: FloatArray) -> tuple[float, float]:
    return float(values.min()), float(values.max())


def _scaled(values: FloatArray, bounds: tuple[float, float]) -> FloatArray:
    low, high = bounds
    return (2 * values - low - high) / (high - low) if high > low else np.zeros_like(values)

"""The maximum sustainable throughput (MST) of a number of instances, learned by regression (imai §III-A, eqs. 2, 3, 6).

Model 1 is τ(m) = 1 / (w0 + w1/m + w2·m + w3·m²), which is linear in 1/τ; model 2 is τ(m) = w0 + w1·m − w2·m². Weights
are not negative: the signs as printed say so, and a curve with other signs would grow without bound. The exception is
w0 of model 2 from three sizes on: a job with a fixed cost per batch sustains more than twice as much on two instances,
and a curve through the origin would promise too much for one.

Which model is taken is decided on validation samples. σ of eq. 6 is undefined for n ≤ l samples, and 0 for a curve that
goes through all of its points, so a weak prior is added and the throughput follows Student's t instead of eq. 7's
normal distribution; with many samples both are the same.

Measurements come from the model file of ``headgate mst``, in a form that mst-0 … mst-7 and quantile take.

>>> found = {"version": 1, "measurements": [
...     {"executors": 1, "agreeing_per_s": [99.0, 101.0], "use": "training"},
...     {"executors": 3, "agreeing_per_s": [290.0], "use": "validation"}]}
>>> measurements_in(found, "mst.json")
Measurements(training=((1, 99.0), (1, 101.0)), validation=((3, 290.0),))
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy.optimize import nnls
from scipy.special import stdtrit

from headgate.core.errors import InputError
from headgate.core.types import JSON, Sample
from headgate.forecast.base import FloatArray


def saturated_throughput(sample: Sample) -> float | None:
    """Return the records per second of saturated instances, or ``None`` if they were not saturated.

    Saturated means that records wait and more arrive than are processed. Readings taken while instances start or stop
    belong to no particular size.

    >>> saturated_throughput(Sample("job", 0, input_rate_per_s=120, processed_rate_per_s=100, backlog=40))
    100
    >>> saturated_throughput(Sample("job", 0, input_rate_per_s=80, processed_rate_per_s=100, backlog=40)) is None
    True
    """
    offered, processed = sample.input_rate_per_s, sample.processed_rate_per_s
    if sample.warming or offered is None or not processed or not sample.backlog:
        return None
    return processed if offered >= processed else None


def estimated_throughput(sample: Sample) -> float | None:
    """Return the estimated capacity of all instances by how busy they were: the more cautious of two estimates.

    >>> estimated_throughput(Sample("job", 0, input_rate_per_s=50, utilization=0.25))
    200.0
    """
    guesses = []
    # Without a trigger interval batches follow each other without a pause, so their rate shows no idle time.
    if sample.trigger_interval_s and sample.processed_rate_per_s:
        guesses.append(float(sample.processed_rate_per_s))
    if sample.utilization and sample.input_rate_per_s:
        guesses.append(float(sample.input_rate_per_s / sample.utilization))
    return min(guesses, default=None)


LAST = 5
LEAST = 4
TOLERANCE = 0.05
ENOUGH = 12
"""Values from which a throughput is estimated even if they do not settle."""


def converged(
    values: Sequence[float], last: int = LAST, least: int = LEAST, tolerance: float = TOLERANCE
) -> list[float] | None:
    """Return those of the last ``last`` values within ``tolerance`` of their predecessor, if there are ``least``.

    >>> converged([10.0, 80.0, 99.0, 101.0, 100.0, 102.0, 101.0])
    [101.0, 100.0, 102.0, 101.0]
    >>> converged([10.0, 80.0, 99.0, 101.0, 100.0]) is None
    True
    """
    if len(values) < last:
        return None
    # The first value has no predecessor.
    newest = range(max(1, len(values) - last), len(values))
    agreeing = [values[i] for i in newest if abs(values[i] - values[i - 1]) <= tolerance * values[i - 1]]
    return agreeing if len(agreeing) >= least else None


def middling(values: Sequence[float]) -> list[float]:
    """Return the middle half of the newer half of values that did not settle; empty if there are too few.

    >>> middling([1.0] * 12 + [90.0, 100.0, 200.0, 110.0, 95.0, 20.0, 105.0, 98.0, 102.0, 99.0, 101.0, 97.0])
    [97.0, 98.0, 99.0, 100.0, 101.0, 102.0]
    >>> middling([100.0, 200.0, 50.0])
    []
    """
    if len(values) < ENOUGH:
        return []
    newer = sorted(values[len(values) // 2 :])
    cut = len(newer) // 4
    return newer[cut : len(newer) - cut]


Measured: TypeAlias = tuple[int, float]
"""A number of instances and the throughput in records/s that they sustained at most."""

PRIOR_DEVIATION = 0.03
"""Deviation of repeated measurements as a share of their mean: the median over the sizes of measured applications
(``docs/benchmarks/mst.json``)."""
PRIOR_FREEDOM = 1
"""The number of samples that the prior counts as."""
_LEAST_SIZES_FOR_FIXED_COST = 3
_LARGEST = 1e12
"""Records/s that stand for no bound at all: what model 1 says when every weight is 0."""


class MstKind(IntEnum):
    """The two shapes of the document; l, the number of coefficients in eq. 6, goes with them."""

    RECIPROCAL = 1
    QUADRATIC = 2

    @property
    def coefficients(self) -> int:
        return 4 if self is MstKind.RECIPROCAL else 3

    def features(self, instances: FloatArray) -> FloatArray:
        """One row per number of instances, one column per weight."""
        m = instances
        ones = np.ones_like(m)
        return np.stack((ones, 1 / m, m, m * m) if self is MstKind.RECIPROCAL else (ones, m, -m * m), axis=-1)


@dataclass(frozen=True, slots=True)
class MstModel:
    """A fitted curve with its uncertainty, which is the same at every size (eq. 7).

    >>> model = MstModel(MstKind.QUADRATIC, (10.0, 100.0, 0.5), deviation=8.0, freedom=3)
    >>> [float(value) for value in model.throughput(np.array([1.0, 10.0]))], round(model.margin(0.95), 1)
    ([109.5, 960.0], 18.8)
    """

    kind: MstKind
    weights: tuple[float, ...]
    deviation: float
    """σ in records/s."""
    freedom: int
    """Degrees of freedom of Student's t distribution."""

    def margin(self, probability: float) -> float:
        """Return by how many records/s the throughput may be below the curve, with this probability of less."""
        return self.deviation * float(stdtrit(self.freedom, probability))

    def throughput(self, instances: FloatArray) -> FloatArray:
        """Expected throughput in records/s of each number of instances, at least 0."""
        values = self.kind.features(instances) @ np.array(self.weights)
        if self.kind is MstKind.RECIPROCAL:
            return np.asarray(1 / np.maximum(values, 1 / _LARGEST))
        return np.asarray(np.maximum(values, 0.0))

    def to_json(self) -> JSON:
        return [int(self.kind), list(self.weights), self.deviation, self.freedom]

    @classmethod
    def from_json(cls, state: JSON) -> MstModel:
        kind, weights, deviation, freedom = state
        return cls(MstKind(kind), tuple(float(weight) for weight in weights), float(deviation), int(freedom))


class MstSamples:
    """Measured throughputs, stored as sums per number of instances, so that adding one is cheap.

    >>> samples = MstSamples([(1, 100.0), (1, 104.0), (2, 199.0)])
    >>> len(samples), samples.sizes
    (3, (1, 2))
    """

    def __init__(self, measured: Iterable[Measured] = ()) -> None:
        # Count, Σ τ, Σ τ², Σ 1/τ.
        self._sums: dict[int, tuple[int, float, float, float]] = {}
        for instances, throughput in measured:
            self.add(instances, throughput)

    def add(self, instances: int, throughput_per_s: float) -> None:
        if instances < 1 or not 0 < throughput_per_s < _LARGEST:
            raise InputError(
                f"{throughput_per_s} records/s of {instances} instances is no sample; both must be above 0 and finite."
            )
        count, total, squares, reciprocals = self._sums.get(instances, (0, 0.0, 0.0, 0.0))
        self._sums[instances] = (
            count + 1,
            total + throughput_per_s,
            squares + throughput_per_s * throughput_per_s,
            reciprocals + 1 / throughput_per_s,
        )

    def __len__(self) -> int:
        return sum(count for count, *_ in self._sums.values())

    @property
    def sizes(self) -> tuple[int, ...]:
        """The numbers of instances that were measured, in ascending order."""
        return tuple(sorted(self._sums))

    def mean(self, size: int) -> float:
        """Mean throughput, in records/s, of the samples of one size."""
        count, total, *_ = self._sums[size]
        return total / count

    def only(self, sizes: Container[int]) -> MstSamples:
        """The samples of some sizes."""
        return MstSamples.from_json([row for row in self.to_json() if row[0] in sizes])

    def fit(self, kind: MstKind) -> MstModel:
        """The least-squares curve of one kind through all samples."""
        if not self._sums:
            raise InputError("an MST model needs samples; there are none.")
        instances, counts, totals, _, reciprocals = self._arrays()
        # Several samples of one size weigh like their mean taken that often.
        means = (reciprocals if kind is MstKind.RECIPROCAL else totals) / counts
        weight = np.sqrt(counts)
        features = kind.features(instances)
        has_fixed_cost = kind is MstKind.QUADRATIC and len(instances) >= _LEAST_SIZES_FOR_FIXED_COST
        if has_fixed_cost:
            # A column for the negative part of w0.
            features = np.column_stack([features, -features[:, 0]])
        # Columns of one length: m² and 1/m differ by orders of magnitude.
        scale = np.sqrt(np.mean(features * features, axis=0))
        unit = float(np.mean(np.abs(means))) or 1.0
        solution, _ = nnls(weight[:, None] * features / scale, weight * means / unit)
        weights = [float(value) for value in unit * solution / scale]
        if has_fixed_cost:
            weights[0] -= weights.pop()
        return self.with_uncertainty(kind, weights, kind.coefficients)

    def with_uncertainty(self, kind: MstKind, weights: Sequence[float], coefficients: int) -> MstModel:
        """Return the model of a curve with this many fitted coefficients and σ by eq. 6 with a prior."""
        curve = MstModel(kind, tuple(weights), 0.0, PRIOR_FREEDOM)
        measured = max(0, len(self) - coefficients)
        _, _, totals, *_ = self._arrays()
        prior = PRIOR_DEVIATION * float(totals.sum()) / len(self)
        residual = self._residual(curve) if measured else 0.0
        variance = (PRIOR_FREEDOM * prior**2 + residual) / (PRIOR_FREEDOM + measured)
        return replace(curve, deviation=math.sqrt(variance), freedom=PRIOR_FREEDOM + measured)

    def error(self, model: MstModel) -> float:
        """Root mean square difference, in records/s, of a curve to these samples."""
        return math.sqrt(self._residual(model) / len(self))

    def _residual(self, model: MstModel) -> float:
        """Return the sum of squared differences of the samples to a curve."""
        instances, counts, totals, squares, _ = self._arrays()
        fitted = model.throughput(instances)
        return max(0.0, float(np.sum(squares - 2 * fitted * totals + counts * fitted * fitted)))

    def _arrays(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
        rows = np.array([(size, *self._sums[size]) for size in self.sizes], dtype=np.float64)
        return rows[:, 0], rows[:, 1], rows[:, 2], rows[:, 3], rows[:, 4]

    def to_json(self) -> JSON:
        return [[size, *self._sums[size]] for size in self.sizes]

    @classmethod
    def from_json(cls, state: JSON) -> MstSamples:
        samples = cls()
        samples._sums = {
            int(size): (int(count), float(total), float(squares), float(reciprocals))
            for size, count, total, squares, reciprocals in state
        }
        return samples


DISCREPANCY = 0.1
"""A measurement can distinguish models that differ by more than this share of the larger one."""


def discrepancies(models: Sequence[MstModel], sizes: FloatArray) -> FloatArray:
    """Return by which share of the larger one the throughputs of two models differ at each size."""
    first, second = (model.throughput(sizes) for model in models)
    return np.asarray(np.abs(first - second) / np.maximum(np.maximum(first, second), 1 / _LARGEST))


def select_model(training: MstSamples, validation: MstSamples | None = None) -> MstModel:
    """Fit both models and take the one that is nearer to the validation samples (imai §III-A2).

    Only sizes at which the two differ by more than ``DISCREPANCY`` are looked at; where they never do, or nothing was
    measured for validation, the one nearer to the training samples is taken.
    """
    models = [training.fit(kind) for kind in MstKind]
    judges = training
    if validation is not None and validation.sizes:
        sizes = np.array(validation.sizes, dtype=np.float64)
        distinguishing = {int(size) for size in sizes[discrepancies(models, sizes) > DISCREPANCY]}
        if distinguishing:
            judges = validation.only(distinguishing)
    return min(models, key=judges.error)


FILE_VERSION = 1
TRAINING, VALIDATION = "training", "validation"


class Measurements(NamedTuple):
    """Pairs of a number of instances and the records per second that they sustained at most."""

    training: tuple[Measured, ...]
    validation: tuple[Measured, ...]


def curve_in(found: JSON, name: str) -> tuple[Measured, ...]:
    """Pairs of a number of instances, from 1 on, and what the chosen model says that they sustain at most."""
    _require_version(found, name)
    try:
        return tuple((int(row["executors"]), float(row["throughput_per_s"])) for row in found["curve"])
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(name, error) from error


def measurements_in(found: JSON, name: str) -> Measurements:
    """What a model file has measured; ``name`` is that of the file."""
    _require_version(found, name)
    try:
        by_use: dict[str, list[Measured]] = {TRAINING: [], VALIDATION: []}
        for row in found["measurements"]:
            by_use[row["use"]].extend((int(row["executors"]), float(value)) for value in row["agreeing_per_s"])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _damaged(name, error) from error
    if not by_use[TRAINING]:
        raise InputError(f"model file {name!r} has no measurement that settled; at least one is needed.")
    return Measurements(tuple(by_use[TRAINING]), tuple(by_use[VALIDATION]))


def _require_version(found: JSON, name: str) -> None:
    version = found.get("version") if isinstance(found, dict) else None
    if version != FILE_VERSION:
        raise InputError(f"model file {name!r} has version {version!r}; version {FILE_VERSION} is needed.")


def _damaged(name: str, error: Exception) -> InputError:
    return InputError(f"model file {name!r} is damaged: {error!r}; it is written by headgate mst --save FILE.")

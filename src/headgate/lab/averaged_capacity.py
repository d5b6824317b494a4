"""What more instances would get through than were ever tried, with an honest interval: an average over what is known
about scaling.

Four forms are believed alike before anything was measured: proportional, a power law, Amdahl's law and the universal
scalability law. Their parameters are anything between 0 and 1, and measurements are off by a share that is not known.
Each set of parameters then counts by how well it explains the measurements (Bayesian model averaging), which punishes
forms with more parameters by itself; nothing is chosen, and nothing is set.

>>> model = AveragedCapacity([1, 2, 4, 8], [100, 190, 360, 650])
>>> low, middle, high = model.quantiles(16, 0.05, 0.5, 0.95)
>>> bool(low < middle < high < 1600)
True
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from headgate.core.errors import InputError
from headgate.forecast.contract import FloatArray

_POINTS = (1, 400, 120)
"""Values of each parameter that are tried, by how many parameters there are."""
_LEAST_WEIGHT = 1e-4
"""Sets of parameters that count for less are left out."""
Form = Callable[[FloatArray, FloatArray], FloatArray]
"""The logarithm of how many times as much as one instance so many get through, by sets of parameters (rows)."""


def _proportional(instances: FloatArray, parameters: FloatArray) -> FloatArray:
    return np.log(instances) + 0 * parameters[:, :1]


def _power(instances: FloatArray, parameters: FloatArray) -> FloatArray:
    return np.asarray(parameters[:, :1] * np.log(instances))


def _amdahl(instances: FloatArray, parameters: FloatArray) -> FloatArray:
    return np.asarray(np.log(instances) - np.log1p(parameters[:, :1] * (instances - 1)))


def _universal(instances: FloatArray, parameters: FloatArray) -> FloatArray:
    contention, coherency = parameters[:, :1], parameters[:, 1:2]
    return np.asarray(np.log(instances) - np.log1p((contention + coherency * instances) * (instances - 1)))


FORMS: Mapping[str, tuple[Form, int]] = MappingProxyType(
    {"proportional": (_proportional, 0), "power law": (_power, 1), "Amdahl": (_amdahl, 1), "USL": (_universal, 2)}
)
"""The forms, and how many parameters each has beside what one instance gets through."""


class AveragedCapacity:
    """Fitted to how much was got through by how many instances; at least three measurements are needed."""

    def __init__(
        self, instances: Sequence[float], rates_per_s: Sequence[float], forms: Sequence[str] = tuple(FORMS)
    ) -> None:
        if len(instances) != len(rates_per_s) or len(instances) < 3:
            raise InputError(f"{len(instances)} sizes with {len(rates_per_s)} rates do not tell; 3 of each are needed.")
        if min(*instances, *rates_per_s) <= 0:
            raise InputError(f"sizes and rates must be above 0; got {min(*instances, *rates_per_s)}.")
        self._sizes, self._logs = np.array(instances, dtype=np.float64), np.log(rates_per_s)
        self._freedom = len(instances) - 1
        self._parts = {name: self._fitted(*FORMS[name]) for name in forms}
        total = np.logaddexp.reduce([evidence for evidence, *_ in self._parts.values()])
        self.weights = {name: float(np.exp(part[0] - total)) for name, part in self._parts.items()}
        """How much each form is believed, by its name."""

    def _fitted(self, form: Form, count: int) -> tuple[float, FloatArray, FloatArray, FloatArray, FloatArray]:
        """The logarithm of the evidence for a form; its sets of parameters, with weight, level and error of each."""
        parameters, prior = _grid(count)
        off = self._logs - form(self._sizes, parameters)
        level = off.mean(axis=1)
        squares = np.maximum(1e-12, ((off - level[:, None]) ** 2).sum(axis=1))
        # What one instance gets through, and by what share measurements are off, are integrated out.
        likelihood = np.log(prior) - self._freedom / 2 * np.log(squares)
        evidence = float(np.logaddexp.reduce(likelihood))
        weight = np.exp(likelihood - evidence)
        counts = weight > _LEAST_WEIGHT
        error = np.sqrt(squares / self._freedom * (1 + 1 / len(self._sizes)))
        return evidence, parameters[counts], weight[counts], level[counts], error[counts]

    def mean(self, instances: float) -> float:
        """Records per second that so many are expected to get through: the mean of the logarithm over all that is
        believed, as errors are shares."""
        at = np.array([float(instances)])
        logs = (
            self.weights[name] * float(weight @ (level + FORMS[name][0](at, parameters)[:, 0]) / weight.sum())
            for name, (_, parameters, weight, level, _) in self._parts.items()
        )
        return float(np.exp(sum(logs)))

    def quantiles(self, instances: float, *shares: float) -> list[float]:
        """Records per second that so many would get through at most with these probabilities."""
        from scipy.stats import t as student

        centres, errors, weights = [], [], []
        for name, (_, parameters, weight, level, error) in self._parts.items():
            form, _ = FORMS[name]
            centres.append(level + form(np.array([float(instances)]), parameters)[:, 0])
            errors.append(error)
            weights.append(self.weights[name] * weight)
        centre, scale, weight = (np.concatenate(parts) for parts in (centres, errors, weights))
        # From where to where most of it lies; beyond, nothing is asked for.
        at = np.linspace(float((centre - 4 * scale).min()), float((centre + 4 * scale).max()), 200)
        below = np.array([float(weight @ student.cdf((one - centre) / scale, self._freedom)) for one in at])
        return [float(np.exp(np.interp(share, below / weight.sum(), at))) for share in shares]


def _grid(count: int) -> tuple[FloatArray, FloatArray]:
    """Sets of parameters between 0 and 1, closer together near 0, with what each stands for of a uniform belief."""
    if not count:
        return np.zeros((1, 1)), np.ones(1)
    points = _POINTS[count]
    roots = (np.arange(points) + 0.5) / points
    axes = np.meshgrid(*[roots] * count, indexing="ij")
    weight = np.prod([2 * axis for axis in axes], axis=0).ravel() / points**count
    return np.column_stack([axis.ravel() ** 2 for axis in axes]), weight

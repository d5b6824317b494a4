"""conttune: capacity at a parallelism of 20 and more, predicted from 8 and less."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from operator import ne
from types import MappingProxyType

import numpy as np

from headgate.core.errors import InputError, cause_of
from headgate.core.types import JSON
from headgate.forecast.base import FloatArray
from headgate.lab.scenario import Progress, ScenarioOutcome, scenario
from headgate.render.page import Plot, axes, line
from headgate.workloads.traces import trace_folder

_POINTS = (1, 400, 120)
"""Grid values of each parameter, by the number of parameters."""
_LEAST_WEIGHT = 1e-4
"""Sets of parameters with a smaller weight are left out."""
Form = Callable[[FloatArray, FloatArray], FloatArray]
"""Returns the logarithm of the speed-up of instances, by sets of parameters (rows)."""


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
"""The forms, and their number of parameters without the capacity of a single instance."""


class AveragedCapacity:
    """A Bayesian average of scaling laws, fitted to at least three measurements of capacity by instances."""

    def __init__(
        self, instances: Sequence[float], rates_per_s: Sequence[float], forms: Sequence[str] = tuple(FORMS)
    ) -> None:
        if len(instances) != len(rates_per_s) or len(instances) < 3:
            raise InputError(
                f"{len(instances)} sizes and {len(rates_per_s)} rates were given; at least 3 of each are needed."
            )
        if min(*instances, *rates_per_s) <= 0:
            raise InputError(f"sizes and rates must be above 0; got {min(*instances, *rates_per_s)}.")
        self._sizes, self._logs = np.array(instances, dtype=np.float64), np.log(rates_per_s)
        self._freedom = len(instances) - 1
        self._parts = {name: self._fit(*FORMS[name]) for name in forms}
        total = np.logaddexp.reduce([evidence for evidence, *_ in self._parts.values()])
        self.weights = {name: float(np.exp(part[0] - total)) for name, part in self._parts.items()}
        """The posterior weight of each form, by name."""

    def _fit(self, form: Form, count: int) -> tuple[float, FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return the log evidence for a form, and its sets of parameters with weight, level and error of each."""
        parameters, prior = _grid(count)
        off = self._logs - form(self._sizes, parameters)
        level = off.mean(axis=1)
        squares = np.maximum(1e-12, ((off - level[:, None]) ** 2).sum(axis=1))
        # The capacity of an instance and the measurement error are integrated out.
        likelihood = np.log(prior) - self._freedom / 2 * np.log(squares)
        evidence = float(np.logaddexp.reduce(likelihood))
        weight = np.exp(likelihood - evidence)
        counts = weight > _LEAST_WEIGHT
        error = np.sqrt(squares / self._freedom * (1 + 1 / len(self._sizes)))
        return evidence, parameters[counts], weight[counts], level[counts], error[counts]

    def mean(self, instances: float) -> float:
        """Return the expected capacity in records per second: the mean of the logarithm, since errors are relative."""
        at = np.array([float(instances)])
        logs = (
            self.weights[name] * float(weight @ (level + FORMS[name][0](at, parameters)[:, 0]) / weight.sum())
            for name, (_, parameters, weight, level, _) in self._parts.items()
        )
        return float(np.exp(sum(logs)))

    def quantiles(self, instances: float, *shares: float) -> list[float]:
        """Return the quantiles of the capacity in records per second."""
        from scipy.stats import t as student

        centres, errors, weights = [], [], []
        for name, (_, parameters, weight, level, error) in self._parts.items():
            form, _ = FORMS[name]
            centres.append(level + form(np.array([float(instances)]), parameters)[:, 0])
            errors.append(error)
            weights.append(self.weights[name] * weight)
        centre, scale, weight = (np.concatenate(parts) for parts in (centres, errors, weights))
        # The range of practically all of the distribution.
        at = np.linspace(float((centre - 4 * scale).min()), float((centre + 4 * scale).max()), 200)
        below = np.array([float(weight @ student.cdf((log - centre) / scale, self._freedom)) for log in at])
        return [float(np.exp(np.interp(share, below / weight.sum(), at))) for share in shares]


def _grid(count: int) -> tuple[FloatArray, FloatArray]:
    """Return sets of parameters in [0, 1], denser near 0, with their weights under a uniform prior."""
    if not count:
        return np.zeros((1, 1)), np.ones(1)
    points = _POINTS[count]
    roots = (np.arange(points) + 0.5) / points
    axes = np.meshgrid(*[roots] * count, indexing="ij")
    weight = np.prod([2 * axis for axis in axes], axis=0).ravel() / points**count
    return np.column_stack([axis.ravel() ** 2 for axis in axes]), weight


MOST_KNOWN, LEAST_PREDICTED = 8, 20
OURS = "averaged"
_FILE = "conttune-capacity/capacity.csv"

_FIRST: Mapping[str, Sequence[float]] = MappingProxyType(
    {"proportional": (), "power law": (0.9,), "Amdahl": (0.05,), "USL": (0.05, 0.001)}
)
"""The initial parameters of each form for the least-squares fit."""


@dataclass(frozen=True)
class Capacities:
    """Records per second by parallelism in ascending order."""

    sizes: Sequence[int]
    rates_per_s: Sequence[float]

    def part(self, is_included: Callable[[int], bool]) -> Capacities:
        pairs = [(size, rate) for size, rate in zip(self.sizes, self.rates_per_s, strict=True) if is_included(size)]
        return Capacities([size for size, _ in pairs], [rate for _, rate in pairs])


def read_capacities() -> Capacities:
    path = trace_folder() / _FILE
    try:
        lines = path.read_text(encoding="utf-8").split()
    except OSError as error:
        raise InputError(f"the measured capacities cannot be read from {str(path)!r}: {cause_of(error)}.") from error
    try:
        pairs = [(int(size), float(rate)) for size, rate in (line.split(",") for line in lines[1:])]
    except ValueError as error:
        raise InputError(f"{str(path)!r} must have lines of parallelism,records_per_s; {error}.") from error
    if any(after[0] <= before[0] for before, after in pairwise(pairs)):
        raise InputError(f"{str(path)!r} must have each parallelism once, rising.")
    return Capacities([size for size, _ in pairs], [rate for _, rate in pairs])


def least_squares(form: str, known: Capacities) -> Callable[[float], float]:
    """Return the usual fit of a form by least squares of the rates."""
    from scipy.optimize import least_squares as solve

    log_of, _ = FORMS[form]
    sizes, rates = np.array(known.sizes, dtype=np.float64), np.array(known.rates_per_s)

    def fitted(parameters: FloatArray, at: FloatArray) -> FloatArray:
        shape = parameters[1:].reshape(1, -1) if len(parameters) > 1 else np.zeros((1, 1))
        return np.asarray(parameters[0] * np.exp(log_of(at, shape))[0])

    unit = float(rates[0])
    first = np.array([1.0, *_FIRST[form]])
    most = [np.inf, *[1.0] * (len(first) - 1)]
    found = solve(lambda parameters: fitted(parameters, sizes) - rates / unit, first, bounds=(0.0, most))
    return lambda size: unit * float(fitted(found.x, np.array([float(size)]))[0])


def rows_of(capacities: Capacities) -> list[dict[str, JSON]]:
    """Return a row per predicted parallelism: the truth, the interval, and the error of each model."""
    known = capacities.part(lambda size: size <= MOST_KNOWN)
    model = AveragedCapacity(known.sizes, known.rates_per_s)
    others = {form: least_squares(form, known) for form in FORMS}
    unknown = capacities.part(lambda size: size >= LEAST_PREDICTED)
    rows: list[dict[str, JSON]] = []
    for size, truth in zip(unknown.sizes, unknown.rates_per_s, strict=True):
        low, high = model.quantiles(size, 0.05, 0.95)
        rows.append(
            {
                "parallelism": size,
                "measured_per_s": round(truth),
                f"{OURS}_per_s": round(model.mean(size)),
                "from_per_s": round(low),
                "to_per_s": round(high),
                **_errors(model, others, size, truth),
            }
        )
    return rows


def left_out(capacities: Capacities) -> list[dict[str, JSON]]:
    """Cross-validate the models: predict each known measurement from the others."""
    known = capacities.part(lambda size: size <= MOST_KNOWN)
    rows: list[dict[str, JSON]] = []
    for size, truth in zip(known.sizes, known.rates_per_s, strict=True):
        rest = known.part(partial(ne, size))
        model = AveragedCapacity(rest.sizes, rest.rates_per_s)
        others = {form: least_squares(form, rest) for form in FORMS}
        rows.append({"left_out": size, "measured_per_s": round(truth), **_errors(model, others, size, truth)})
    return rows


def _errors(
    model: AveragedCapacity, others: Mapping[str, Callable[[float], float]], size: int, truth: float
) -> dict[str, JSON]:
    """Return whether the interval of the averaged model covers the truth, and how far off each model is."""
    low, middle, high = model.quantiles(size, 0.05, 0.5, 0.95)
    return {
        "covered": "yes" if low <= truth <= high else "no",
        f"{OURS}_off_pct": _off_pct(model.mean(size), truth),
        "median_off_pct": _off_pct(middle, truth),
        **{f"{form}_off_pct": _off_pct(other(size), truth) for form, other in others.items()},
    }


def _off_pct(guess: float, truth: float) -> float:
    return round(100 * (guess / truth - 1), 1)


NOTES = (
    "measured_per_s is the capacity of a map operator of Nexmark query 1 on Flink (ContTune, VLDB 2023). Every model "
    f"is fitted to a parallelism of at most {MOST_KNOWN} and predicts {LEAST_PREDICTED} and more.",
    "averaged is the mean over four forms of scaling, each weighted by how well it explains the known capacities; "
    "median is that of the same distribution, and from and to bound its 90 % interval. The other columns are "
    "least-squares fits of a form each; off is by how much a prediction is above the truth.",
)


@scenario(
    "conttune",
    "Capacity at 20 to 26 instances from measurements at 1 to 8: averaged model and four fits.",
    takes_s=7.0,
)
def run(progress: Progress) -> ScenarioOutcome:
    capacities = read_capacities()
    known = capacities.part(lambda size: size <= MOST_KNOWN)
    model = AveragedCapacity(known.sizes, known.rates_per_s)
    weights = ", ".join(f"{form} {weight:.2f}" for form, weight in model.weights.items())
    progress(0.2)
    rows, others = rows_of(capacities), left_out(capacities)
    progress(1.0)
    note = f"Weight of each form given the known capacities: {weights}."
    return ScenarioOutcome(rows, (*NOTES, note), [_plot(capacities, model)], details=others)


def _plot(capacities: Capacities, model: AveragedCapacity) -> Plot:
    sizes = [*capacities.sizes]
    bounds = [model.quantiles(size, 0.05, 0.95) for size in sizes]
    lines = (
        line("measured", sizes, capacities.rates_per_s, mode="markers"),
        line("5 %", sizes, [low for low, _ in bounds]),
        line("mean", sizes, [model.mean(size) for size in sizes]),
        line("95 %", sizes, [high for _, high in bounds]),
    )
    return Plot(
        f"Fitted to {MOST_KNOWN} and less, predicted for more",
        lines,
        axes("parallelism", "records/s"),
        "Points: measured capacity. Lines: its expected value and the 90 % interval.",
    )

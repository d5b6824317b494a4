"""conttune: capacity at a parallelism of 20 and more, foretold from 8 and fewer."""

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
from headgate.render.plots import Plot
from headgate.workloads.traces import trace_folder

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


KNOWN, ASKED = 8, 20
OURS = "averaged"
_FILE = "conttune-capacity/capacity.csv"

_FIRST: Mapping[str, Sequence[float]] = MappingProxyType(
    {"proportional": (), "power law": (0.9,), "Amdahl": (0.05,), "USL": (0.05, 0.001)}
)
"""Where the search for the best parameters of each form begins."""


@dataclass(frozen=True)
class Capacities:
    """Records per second by parallelism, rising."""

    sizes: Sequence[int]
    rates_per_s: Sequence[float]

    def part(self, keep: Callable[[int], bool]) -> Capacities:
        kept = [(size, rate) for size, rate in zip(self.sizes, self.rates_per_s, strict=True) if keep(size)]
        return Capacities([size for size, _ in kept], [rate for _, rate in kept])


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
    """The usual fit of one form, by least squares of the rates themselves."""
    from scipy.optimize import least_squares as solve

    log_of, _ = FORMS[form]
    sizes, rates = np.array(known.sizes, dtype=np.float64), np.array(known.rates_per_s)

    def fitted(parameters: FloatArray, at: FloatArray) -> FloatArray:
        shape = parameters[1:].reshape(1, -1) if len(parameters) > 1 else np.zeros((1, 1))
        return np.asarray(parameters[0] * np.exp(log_of(at, shape))[0])

    unit = float(rates[0])
    first = np.array([1.0, *_FIRST[form]])
    most = [np.inf, *[1.0] * (len(first) - 1)]
    found = solve(lambda one: fitted(one, sizes) - rates / unit, first, bounds=(0.0, most))
    return lambda size: unit * float(fitted(found.x, np.array([float(size)]))[0])


def rows_of(capacities: Capacities) -> list[dict[str, JSON]]:
    """One row per parallelism that is asked for: the truth, the interval, and by how much each model is off."""
    known = capacities.part(lambda size: size <= KNOWN)
    model = AveragedCapacity(known.sizes, known.rates_per_s)
    others = {form: least_squares(form, known) for form in FORMS}
    asked = capacities.part(lambda size: size >= ASKED)
    rows: list[dict[str, JSON]] = []
    for size, truth in zip(asked.sizes, asked.rates_per_s, strict=True):
        low, middle, high = model.quantiles(size, 0.05, 0.5, 0.95)
        rows.append(
            {
                "parallelism": size,
                "measured_per_s": round(truth),
                f"{OURS}_per_s": round(model.mean(size)),
                "from_per_s": round(low),
                "to_per_s": round(high),
                "covered": "yes" if low <= truth <= high else "no",
                f"{OURS}_off_pct": _off_pct(model.mean(size), truth),
                "median_off_pct": _off_pct(middle, truth),
                **{f"{form}_off_pct": _off_pct(other(size), truth) for form, other in others.items()},
            }
        )
    return rows


def left_out(capacities: Capacities) -> list[dict[str, JSON]]:
    """What was known, each asked of the others: how the model would have been judged before the answer was known."""
    known = capacities.part(lambda size: size <= KNOWN)
    told: list[dict[str, JSON]] = []
    for size, truth in zip(known.sizes, known.rates_per_s, strict=True):
        rest = known.part(partial(ne, size))
        model = AveragedCapacity(rest.sizes, rest.rates_per_s)
        low, middle, high = model.quantiles(size, 0.05, 0.5, 0.95)
        told.append(
            {
                "left_out": size,
                "measured_per_s": round(truth),
                "covered": "yes" if low <= truth <= high else "no",
                f"{OURS}_off_pct": _off_pct(model.mean(size), truth),
                "median_off_pct": _off_pct(middle, truth),
                **{f"{form}_off_pct": _off_pct(least_squares(form, rest)(size), truth) for form in FORMS},
            }
        )
    return told


def _off_pct(guess: float, truth: float) -> float:
    return round(100 * (guess / truth - 1), 1)


NOTES = (
    "measured_per_s is what a map operator of Nexmark query 1 got through on Flink (ContTune, VLDB 2023). Every model "
    f"is fitted to a parallelism of at most {KNOWN} and asked for at least {ASKED}.",
    "averaged is the mean over four forms of scaling, each counted by how well it explains what is known; median is "
    "that of the same, and from and to bound its 90 % interval. The other columns are least-squares fits of one form "
    "each; off is by how much a guess is above the truth.",
)


@scenario(
    "conttune",
    "Capacity at 20 to 26 instances from measurements at 1 to 8: averaged model beside four fits.",
    takes_s=7.0,
)
def run(progress: Progress) -> ScenarioOutcome:
    capacities = read_capacities()
    known = capacities.part(lambda size: size <= KNOWN)
    model = AveragedCapacity(known.sizes, known.rates_per_s)
    told = ", ".join(f"{form} {weight:.2f}" for form, weight in model.weights.items())
    progress(0.2)
    rows, others = rows_of(capacities), left_out(capacities)
    progress(1.0)
    believed = f"How much each form is believed by what is known: {told}."
    return ScenarioOutcome(rows, (*NOTES, believed), [_plot(capacities, model)], details=others)


def _plot(capacities: Capacities, model: AveragedCapacity) -> Plot:
    sizes = [*capacities.sizes]
    bounds = [model.quantiles(size, 0.05, 0.95) for size in sizes]
    lines: Sequence[tuple[str, str, list[float]]] = (
        ("measured", "markers", [*capacities.rates_per_s]),
        ("5 %", "lines", [low for low, _ in bounds]),
        ("mean", "lines", [model.mean(size) for size in sizes]),
        ("95 %", "lines", [high for _, high in bounds]),
    )
    return Plot(
        f"Fitted to {KNOWN} and fewer, asked for more",
        [{"type": "scatter", "mode": mode, "name": name, "x": sizes, "y": values} for name, mode, values in lines],
        {"xaxis": {"title": {"text": "parallelism"}}, "yaxis": {"title": {"text": "records/s"}}},
        "Points: capacity as measured. Lines: what the model expects, and between which values nine of ten should lie.",
    )

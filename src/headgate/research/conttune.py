"""The capacity of a real operator by its parallelism, as ContTune's authors measured it, and what is made of few of it.

Models are fitted to a parallelism of at most ``KNOWN`` and asked for at least ``ASKED``, more than twice as much.
"""

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
from headgate.forecast.contract import FloatArray
from headgate.lab.averaged_capacity import FORMS, AveragedCapacity
from headgate.workloads.traces import trace_folder

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

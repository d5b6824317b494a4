"""Measures of one simulated run, as used in the field, and means of them over repeats, with confidence intervals.

``docs/guides/measures.md`` explains the measures.

Intervals are Student's: they assume normally distributed means and allow for few values. A bootstrap assumes less, but
draws from few values, and its intervals are too narrow (a test shows it on five skewed ones), so it is not used.

>>> found = estimate([10.0, 12.0, 14.0])
>>> found.mean, round(found.low, 2), round(found.high, 2)
(12.0, 7.03, 16.97)
>>> estimate([10.0]).low is None
True
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import numpy as np

from headgate.core.course import Rows
from headgate.core.errors import InputError
from headgate.core.objective import DAY_S, HOUR_S, LatencySlo, Objective
from headgate.core.types import JSON
from headgate.forecast.base import FloatArray
from headgate.lab.measures.clairvoyant import needed_instances, paid_instances
from headgate.runtime.simulate import Model, SimulationResult, micro_batch
from headgate.runtime.summary import violated_parts
from headgate.workloads.contract import SameWorkload, Workload

INSTABILITY_STEP_S = 60.0
"""Changes are compared from minute to minute: a shorter step finds more of them in either curve."""


@dataclass(frozen=True, slots=True)
class Elasticity:
    under_accuracy_pct: float
    over_accuracy_pct: float
    under_time_pct: float
    over_time_pct: float
    instability_pct: float | None
    """``None`` where the run is shorter than two steps."""


def elasticity(
    sizes: Rows, edges_s: FloatArray, needed: FloatArray, instability_step_s: float = INSTABILITY_STEP_S
) -> Elasticity:
    """SPEC's measures of elasticity: how well the ready instances (supply) followed the needed ones (demand).

    With supply ``s`` and demand ``d`` in instances over a run of length ``T``:

    - accuracy, in per cent of the demand: ``θ_U = 100/T · ∫ max(d - s, 0)/d dt`` and
      ``θ_O = 100/T · ∫ max(s - d, 0)/d dt``
    - time share, in per cent: ``τ_U = 100/T · ∫ [d > s] dt`` and ``τ_O = 100/T · ∫ [s > d] dt``
    - instability, in per cent: ``υ = 100/(T - t₁) · Σ min(|sgn Δs - sgn Δd|, 1) Δt`` from the second point ``t₁`` on,
      the share of the time in which one rises or falls and the other does not

    All are best at 0. Where a demand of 0 would divide, it counts as 1. Sources: N. Herbst et al., Ready for Rain? A
    View from SPEC Research on the Future of Cloud Metrics, SPEC RG Cloud technical report SPEC-RG-2016-01, 2016;
    N. Herbst et al., Quantifying Cloud Performance and Dependability: Taxonomy, Metric Design, and Emerging Challenges,
    ACM ToMPECS 3(4), 2018. ``docs/guides/measures.md`` says which formulas were checked against published programs.

    >>> from headgate.core.course import rows
    >>> edges_s, needed = np.array([0.0, 60.0, 120.0]), np.array([4.0, 2.0])
    >>> found = elasticity(rows([(0, 60, 2, 2), (60, 120, 4, 4)], 4), edges_s, needed)
    >>> found.under_accuracy_pct, found.over_accuracy_pct, found.under_time_pct, found.over_time_pct
    (25.0, 50.0, 50.0, 50.0)
    """
    from_s, to_s = edges_s[0], edges_s[-1]
    begins_s = np.union1d(edges_s[:-1], sizes[:, 0])
    begins_s = begins_s[(begins_s >= from_s) & (begins_s < to_s)]
    weights = np.diff(begins_s, append=to_s) / (to_s - from_s)
    supply, demand = _supply(sizes, begins_s), _demand(edges_s, needed, begins_s)
    missing, divisor = demand - supply, np.maximum(demand, 1.0)
    return Elasticity(
        under_accuracy_pct=100 * float((weights * np.maximum(missing, 0.0) / divisor).sum()),
        over_accuracy_pct=100 * float((weights * np.maximum(-missing, 0.0) / divisor).sum()),
        under_time_pct=100 * float(weights[missing > 0].sum()),
        over_time_pct=100 * float(weights[missing < 0].sum()),
        instability_pct=_instability_pct(sizes, edges_s, needed, instability_step_s),
    )


def _instability_pct(sizes: Rows, edges_s: FloatArray, needed: FloatArray, step_s: float) -> float | None:
    at_s = np.arange(edges_s[0], edges_s[-1], step_s)
    if len(at_s) < 2:
        return None
    change = np.sign(np.diff(_supply(sizes, at_s)))
    wanted_change = np.sign(np.diff(_demand(edges_s, needed, at_s)))
    return 100 * float(np.mean(change != wanted_change))


def _supply(sizes: Rows, at_s: FloatArray) -> FloatArray:
    """Ready instances at some times."""
    place = np.clip(np.searchsorted(sizes[:, 0], at_s, side="right") - 1, 0, len(sizes) - 1)
    return np.asarray(sizes[place, 2])


def _demand(edges_s: FloatArray, needed: FloatArray, at_s: FloatArray) -> FloatArray:
    place = np.clip(np.searchsorted(edges_s, at_s, side="right") - 1, 0, len(needed) - 1)
    return np.asarray(needed[place])


CALM_S = 60.0


@dataclass(frozen=True, slots=True)
class Recovery:
    violations: int
    median_s: float | None
    """``None`` where nothing was violated."""
    worst_s: float | None
    is_violated_at_end: bool


def recovery(violated: Rows, from_s: float, to_s: float, calm_s: float = CALM_S) -> Recovery:
    """Return how long each violation lasted, from parts of the time (from, to), which may overlap.

    A violation ends when the objective is met again for ``calm_s``, which does not count. One that lasts at the end of
    the run counts up to there.

    >>> from headgate.core.course import rows
    >>> recovery(rows([(10, 40), (30, 60), (70, 80), (500, 510)], 2), 0.0, 600.0)
    Recovery(violations=2, median_s=40.0, worst_s=70.0, is_violated_at_end=False)
    """
    parts = np.clip(violated, from_s, to_s)
    parts = parts[parts[:, 1] > parts[:, 0]]
    if not len(parts):
        return Recovery(0, None, None, is_violated_at_end=False)
    parts = parts[np.argsort(parts[:, 0], kind="stable")]
    reached_s = np.maximum.accumulate(parts[:, 1])
    is_first = np.append(True, parts[1:, 0] - reached_s[:-1] > calm_s)
    begins_s = parts[is_first, 0]
    ends_s = reached_s[np.append(is_first[1:], True)]
    lasting_s = ends_s - begins_s
    return Recovery(
        len(lasting_s), float(np.median(lasting_s)), float(lasting_s.max()), is_violated_at_end=bool(ends_s[-1] >= to_s)
    )


def step_rates_per_s(workload: Workload, seconds: float, step_s: float) -> FloatArray:
    """Return the mean rate of each step; the last step may be shorter.

    Rates are cached, because many policies are measured on one load.
    """
    return _cached_rates(SameWorkload(workload), seconds, step_s)


def step_edges_s(seconds: float, step_s: float) -> FloatArray:
    """Return where steps begin, and where the last one ends."""
    count = max(1, int(np.ceil(seconds / step_s - 1e-9)))
    return np.append(np.arange(count) * step_s, seconds)


@lru_cache(maxsize=16)
def _cached_rates(load: SameWorkload, seconds: float, step_s: float) -> FloatArray:
    edges_s = step_edges_s(seconds, step_s)
    arrived = np.array([load.workload.arrivals(0.0, edge_s) for edge_s in edges_s.tolist()])
    rates: FloatArray = np.diff(arrived) / np.diff(edges_s)
    rates.flags.writeable = False
    return rates


STEP_S = 5.0
_DIGITS = 6


@dataclass(frozen=True, slots=True)
class RunMeasures:
    """Flat figures with units in their names; ``None`` where the run does not tell."""

    records_in_objective_pct: float | None
    """Share of the records in time; only with a latency objective."""
    time_in_objective_pct: float | None
    latency_p50_s: float | None
    latency_p95_s: float | None
    latency_p99_s: float | None
    instance_hours: float
    cost: float | None
    """In the unit of the price."""
    mean_instances: float
    """Ready instances."""
    rescales_per_day: float
    worst_backlog_records: float | None
    violations: int | None
    recovery_median_s: float | None
    recovery_worst_s: float | None
    violated_at_end: bool | None
    under_accuracy_pct: float
    """θ_U"""
    over_accuracy_pct: float
    """θ_O"""
    under_time_pct: float
    """τ_U"""
    over_time_pct: float
    """τ_O"""
    instability_pct: float | None
    """υ"""
    clairvoyant_instance_hours: float
    regret_pct: float | None
    """Extra instance time over the clairvoyant; below 0 where a run saved some at the cost of late records."""

    def to_json(self) -> dict[str, JSON]:
        return {name: _rounded(value) for name, value in dataclasses.asdict(self).items()}


def measures_of(
    result: SimulationResult,
    workload: Workload,
    *,
    objective: Objective,
    service_rate_per_s: float,
    model: Model = "queue",
    startup_s: float = 0.0,
    work: Workload | None = None,
    step_s: float = STEP_S,
) -> RunMeasures:
    """Measure a run; the other arguments are those of :func:`~headgate.runtime.simulate.simulate`.

    Demand and the clairvoyant are computed in steps of ``step_s``; all other figures are exact.
    """
    if not 0 < step_s < math.inf:
        raise InputError(f"step_s {step_s} is not allowed; it must be finite and above 0.")
    course, operator = result.record.truth, result.record.operator
    if course is None:
        raise InputError("a run without its true course cannot be measured; only simulated runs have one.")
    summary, seconds = result.summary, course.to_s - course.from_s
    slo = objective.slo_of(operator)
    edges_s = step_edges_s(seconds, step_s)
    needed = needed_instances(
        step_rates_per_s(work or workload, seconds, step_s),
        step_s,
        service_rate_per_s=service_rate_per_s,
        job=None if model == "queue" else micro_batch(model),
        bound_s=slo.bound_s if isinstance(slo, LatencySlo) else None,
        bounds=(objective.min_instances, objective.max_instances),
    )
    # Not a scalar product: numpy spreads one over threads, and their number changes the rounding.
    clairvoyant_s = float((paid_instances(needed, step_s, startup_s) * (edges_s[1:] - edges_s[:-1])).sum())
    followed = elasticity(course.sizes, edges_s, needed)
    parts = violated_parts(course, objective, operator)
    recovered = None if parts is None else recovery(parts, course.from_s, course.to_s)
    late_pct, violated_pct = summary.late_records_pct, summary.slo_violation_pct
    return RunMeasures(
        records_in_objective_pct=None if late_pct is None else 100 - late_pct,
        time_in_objective_pct=None if violated_pct is None else 100 - violated_pct,
        latency_p50_s=summary.latency_p50_s,
        latency_p95_s=summary.latency_p95_s,
        latency_p99_s=summary.latency_p99_s,
        instance_hours=summary.instance_seconds / HOUR_S,
        cost=summary.cost,
        mean_instances=summary.mean_instances,
        rescales_per_day=summary.rescales * DAY_S / seconds,
        worst_backlog_records=summary.max_backlog,
        violations=None if recovered is None else recovered.violations,
        recovery_median_s=None if recovered is None else recovered.median_s,
        recovery_worst_s=None if recovered is None else recovered.worst_s,
        violated_at_end=None if recovered is None else recovered.is_violated_at_end,
        under_accuracy_pct=followed.under_accuracy_pct,
        over_accuracy_pct=followed.over_accuracy_pct,
        under_time_pct=followed.under_time_pct,
        over_time_pct=followed.over_time_pct,
        instability_pct=followed.instability_pct,
        clairvoyant_instance_hours=clairvoyant_s / HOUR_S,
        regret_pct=100 * (summary.instance_seconds / clairvoyant_s - 1) if clairvoyant_s else None,
    )


def _rounded(value: JSON) -> JSON:
    """Return a number that JSON can represent."""
    if not isinstance(value, float):
        return value
    return round(value, _DIGITS) if math.isfinite(value) else None


CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over repeats, with its confidence interval."""

    mean: float
    stddev: float | None
    """``None`` for a single run."""
    count: int
    confidence: float = CONFIDENCE

    @property
    def half_width(self) -> float | None:
        """Half the width of the interval; ``None``, like ``low`` and ``high``, for a single run."""
        if self.stddev is None:
            return None
        return t_quantile(self.count - 1, self.confidence) * self.stddev / math.sqrt(self.count)

    @property
    def low(self) -> float | None:
        return None if self.half_width is None else self.mean - self.half_width

    @property
    def high(self) -> float | None:
        return None if self.half_width is None else self.mean + self.half_width

    def to_json(self) -> dict[str, JSON]:
        return {"mean": self.mean, "low": self.low, "high": self.high, "count": self.count}


def estimate(values: Iterable[float], confidence: float = CONFIDENCE) -> Estimate:
    """Return the mean of values with its confidence interval; their order makes no difference."""
    found = list(values)
    if not found:
        raise InputError("there are no values to average; at least one is needed.")
    if not all(math.isfinite(value) for value in found):
        raise InputError(f"values {found} cannot be averaged; they must be finite.")
    if not 0 < confidence < 1:
        raise InputError(f"confidence {confidence} is not allowed; it must lie between 0 and 1.")
    count = len(found)
    mean = math.fsum(found) / count
    if count == 1:
        return Estimate(mean, None, 1, confidence)
    stddev = math.sqrt(math.fsum((value - mean) ** 2 for value in found) / (count - 1))
    return Estimate(mean, stddev, count, confidence)


@lru_cache(maxsize=256)
def t_quantile(freedom: float, confidence: float = CONFIDENCE) -> float:
    """Return how many standard errors an interval extends to either side."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + confidence) / 2))


Key = TypeVar("Key")
_HAIR = 1e-12
"""Values that differ by less than this share are equal."""


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """The mean of ours minus theirs over pairs, with its interval."""

    mean: float
    low: float | None
    high: float | None
    pairs: int
    unpaired: int
    """Values without a partner, or whose partner is unknown."""

    def to_json(self) -> dict[str, JSON]:
        return {
            "mean": self.mean,
            "low": self.low,
            "high": self.high,
            "pairs": self.pairs,
            "unpaired": self.unpaired,
            "is_noise": is_noise(self),
        }


def paired_difference(
    ours: Mapping[Key, float | None], theirs: Mapping[Key, float | None], confidence: float = CONFIDENCE
) -> PairedDifference:
    """Return ours minus theirs, for values keyed by what they were measured on, such as the load and the seed.

    The effect of a load on both policies cancels out in a pair, so that far fewer repeats are needed.

    >>> ours, theirs = {"a": 10.0, "b": 20.0, "c": 31.0}, {"a": 11.0, "b": 21.5, "c": 32.2}
    >>> found = paired_difference(ours, theirs)
    >>> is_noise(found), difference_in_words(found, "h")
    (False, '1.23 h less (0.608 to 1.86 h, 3 pairs)')
    >>> difference_in_words(paired_difference({"a": 1.0, "b": 3.0}, {"a": 2.0, "b": 2.5}), "h")
    'no difference seen (-9.78 to +9.28 h, 2 pairs)'
    """
    known = {key: value for key, value in ours.items() if value is not None}
    their_known = {key: value for key, value in theirs.items() if value is not None}
    common = [key for key in known if key in their_known]
    if not common:
        raise InputError(f"{len(known)} values and {len(their_known)} have nothing in common; pairs are needed.")
    found = estimate((_difference(known[key], their_known[key]) for key in common), confidence)
    unpaired = len(ours.keys() | theirs.keys()) - len(common)
    return PairedDifference(found.mean, found.low, found.high, found.count, unpaired)


def _difference(our: float, their: float) -> float:
    difference = our - their
    return 0.0 if abs(difference) <= _HAIR * max(abs(our), abs(their)) else difference


def is_noise(difference: PairedDifference) -> bool:
    """Return whether a difference may be chance: its interval contains 0, or there is only one pair."""
    if difference.low is None or difference.high is None:
        return True
    return difference.low <= 0 <= difference.high


def difference_in_words(difference: PairedDifference, unit: str = "") -> str:
    """Return a difference as text: how much more or less, or that none was seen."""
    end = f" {unit}" if unit else ""
    mean, low, high = difference.mean, difference.low, difference.high
    if low is None or high is None:
        return f"no difference seen ({mean:+.3g}{end}, one pair only)"
    if is_noise(difference):
        return f"no difference seen ({low:+.3g} to {high:+.3g}{end}, {difference.pairs} pairs)"
    least, most = sorted((abs(low), abs(high)))
    side = "more" if mean > 0 else "less"
    return f"{abs(mean):.3g}{end} {side} ({least:.3g} to {most:.3g}{end}, {difference.pairs} pairs)"

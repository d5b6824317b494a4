"""Predicts what every size of one operator would cost in the next minutes, and chooses the cheapest.

``look_ahead`` turns the learned state of an operator into a :class:`Lookahead`: scenarios of the load and a rollout
that simulates sizes in them. The other functions weigh the cost of instances against the price of late records.
All costs are in instance-seconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headgate.core.types import Instances, Sample
from headgate.core.window import Window
from headgate.forecast.base import FloatArray
from headgate.forecast.clock_patterns import ExpectedBurst
from headgate.forecast.compiled import has_compiler
from headgate.policies.pilot.batch_time import BatchTimeModel
from headgate.policies.pilot.calibration import quantiles
from headgate.policies.pilot.load import BIN_S
from headgate.policies.pilot.load_scenarios import (
    FORECASTS,
    HORIZON_BINS,
    base_forecasts,
    combined_forecast,
    seasonal_forecast,
    updated_forecast_errors,
    with_bursts,
)
from headgate.policies.pilot.operator_model import OperatorModel
from headgate.policies.pilot.rollout import BatchTimeParameters, JobState, PossibleFutures, Rollout, RolloutResult

WINDOW_S = 30.0
"""Instances are paid for at least this long. Twice as long would pay for rises that can still be met later."""
DOWNTIMES, LONGEST_WINDOW_S = 10.0, 240.0
"""Extension of that time by multiples of the downtime, up to the horizon in which loads are predictable."""
SPACING = 1.2
"""Factor on the time between scale-ins of a job that stops for them: they may use most of the allowed lateness. With
less than half of it, 8 instead of 11 of 12 contests of the league were met, on days other than its own, for 7 % fewer
instances."""
HYSTERESIS = 1.5
"""Factor on the price of late records when scaling in, so that no scale-out follows at once."""
SIZES_AT_ONCE = 4
"""Sizes that are simulated together."""


def window_s(downtime_s: float) -> float:
    """Return how long instances are paid for at least, by the downtime of a change.

    >>> window_s(0.0), window_s(5.0), window_s(60.0)
    (30.0, 80.0, 240.0)
    """
    return min(LONGEST_WINDOW_S, WINDOW_S + DOWNTIMES * downtime_s)


class SizeCost(NamedTuple):
    """What was found for one of the sizes that were compared."""

    instances: int
    instance_s: float
    late_s: float
    """Price of its late records, in instance-seconds."""
    late: float
    """Records that it makes late."""
    deviation: float
    """Standard deviation of these over the scenarios."""


@dataclass(frozen=True, slots=True)
class SizeChoice:
    size: int
    """The cheapest size."""
    scale_in_size: int
    """The cheapest size if late records cost ``HYSTERESIS`` times as much; the limit for scale-in."""
    size_without_downtime: int
    """The cheapest size if a change caused no downtime; where it is larger, the downtime is unavoidable."""
    costs: Sequence[SizeCost] = ()
    """Of the sizes that were compared, ascending."""


def cheapest_size(
    sizes: FloatArray,
    roll: Callable[[FloatArray], RolloutResult],
    weights: FloatArray,
    price: float,
    *,
    planned: int,
    startup_s: float,
    paid_s: float = WINDOW_S,
) -> SizeChoice:
    """Return the cheapest of ``sizes``, which ascend; all are tried, since costs have several minima with a backlog.

    Instances are paid for ``paid_s``. Instances beyond the ``planned`` ones are also paid for while they start.
    """
    best = [(math.inf, 0), (math.inf, 0), (math.inf, 0)]
    compared = []
    for first in range(0, len(sizes), SIZES_AT_ONCE):
        some = sizes[first : first + SIZES_AT_ONCE]
        # If instances alone cost more than the best sizes so far, no larger size can be cheaper.
        if some[0] * paid_s >= max(cost for cost, _ in best):
            break
        rolled = roll(some)
        late = (rolled.late @ weights).tolist()
        squares = (rolled.late**2 @ weights).tolist()
        steady_late = late if rolled.steady_late is rolled.late else (rolled.steady_late @ weights).tolist()
        for size, changed_late, unchanged_late, square in zip(some.tolist(), late, steady_late, squares, strict=True):
            # Plain numbers: arrays are slower for this few.
            begun_s = size * paid_s + startup_s * max(0.0, size - planned)
            costs = (
                begun_s + price * changed_late,
                size * paid_s + HYSTERESIS * price * unchanged_late,
                begun_s + price * unchanged_late,
            )
            best = [min(cheapest, (cost, int(size))) for cheapest, cost in zip(best, costs, strict=True)]
            deviation = math.sqrt(max(0.0, square - changed_late * changed_late))
            compared.append(SizeCost(int(size), begun_s, price * changed_late, changed_late, deviation))
    return SizeChoice(best[0][1], best[1][1], best[2][1], compared)


def round_trip_cost_s(
    downtime_late: float, price: float, *, rate_per_s: float, allowed_share: float, downtime_s: float, planned: int
) -> float:
    """Return the cost of a scale-in and the scale-out that takes it back.

    Each makes ``downtime_late`` records late and leaves ``planned`` instances idle. The cost is at least an instance
    for the time whose allowed lateness they use up: otherwise changes alone would violate the objective.
    """
    priced_s = price * downtime_late + downtime_s * planned
    return 2 * max(priced_s, downtime_late / rate_per_s / allowed_share)


def scale_in_spacing_s(late_s: float, allowed_share: float, used: float) -> float:
    """Return the least time between scale-ins if each, and the scale-out that follows, stops the job.

    One change makes the arrivals of ``late_s`` late. The more of the allowed lateness is ``used`` already, the longer
    the time.

    >>> [round(scale_in_spacing_s(45.0, 0.05, used=used)) for used in (0.0, 0.5, 1.0, 2.0)]
    [0, 1080, 2160, 8640]
    """
    return SPACING * 2 * late_s / allowed_share * max(used, used**2)


def instances_for_rise(change_s: float, rises_per_s: float) -> int:
    """Return the extra instances to add at once while the need rises and every change costs ``change_s``.

    Steps of k instances happen every k / rises_per_s and leave k / 2 idle on average; this k minimises the total cost.

    >>> [instances_for_rise(cost_s, rise) for cost_s, rise in ((0.0, 0.01), (1200.0, 0.0), (1200.0, 1 / 300))]
    [0, 0, 2]
    """
    return math.floor(math.sqrt(change_s * max(0.0, rises_per_s)) + 1e-9)


def is_scale_to_zero_worthwhile(
    counts: FloatArray, weights: FloatArray, price: float, *, startup_s: float, bound_s: float
) -> bool:
    """Whether an idle job should release its last instance although the next record has to start one again.

    Arrivals during that start are late if it takes longer than the bound.
    """
    bins = max(1, math.ceil((startup_s + WINDOW_S) / BIN_S))
    arrivals = counts[:, :bins].sum(axis=1)
    late = arrivals if startup_s > bound_s else np.zeros_like(arrivals)
    wakes = np.where(arrivals >= 1, startup_s, 0.0)
    return float((wakes + price * late) @ weights) < WINDOW_S


UNKNOWN_STARTUP_S = 60.0
"""Assumed startup time of an instance before one was observed."""
STARTUPS_USED = 30
RATIO_COLUMNS = 8
USUAL_RATIOS = (0.9, 1.0, 1.0, 1.0, 1.05, 1.1, 1.3)
"""Assumed ratios of actual to predicted batch times before enough are known."""


@dataclass(frozen=True, slots=True)
class Lookahead:
    """Scenarios for one operator and what is needed to weigh sizes in them."""

    rollout: Rollout
    counts: FloatArray
    """Arrivals in each future bin, one row per scenario."""
    weights: FloatArray
    """Of the scenarios; add up to 1."""
    rate_per_s: float
    """Expected arrival rate."""
    late_price: float
    """Price of a late record in instance-seconds."""
    startup_s: float
    paid_s: float = WINDOW_S
    """How long instances are paid for at least."""
    downtime_s: float = 0.0
    """Expected downtime of a change of size."""
    bursts: Sequence[ExpectedBurst] = ()
    """Bursts that are expected by the clock within the scenarios, the next one first."""

    def peak_per_s(self, within_s: float = math.inf) -> float:
        """Return the peak of the mean arrival rate over the scenarios."""
        bins = HORIZON_BINS if math.isinf(within_s) else math.ceil(within_s / BIN_S)
        return max(self.rate_per_s, float(np.maximum.reduce(self.weights @ self.counts[:, :bins])) / BIN_S)


def look_ahead(
    model: OperatorModel, window: Window, operator: str, instances: Instances, sample: Sample, bound_s: float
) -> Lookahead:
    """Return the lookahead for one operator, given the bound on its latency."""
    startups_s = window.startup_times(operator).registered_s.values_s[-STARTUPS_USED:] or (UNKNOWN_STARTUP_S,)
    usual_s, long_s = _startups(startups_s)
    downtime_s = model.downtime.usual_s
    until_s = long_s + window_s(downtime_s)
    first, last = math.ceil(usual_s / BIN_S), math.ceil(until_s / BIN_S)
    model.forecaster.span_bins = (max(1, min(first, HORIZON_BINS - 2)), max(2, min(last, HORIZON_BINS - 1)))
    scenarios = model.forecaster.scenarios(model.steady_load)
    bursts = model.expected_bursts(sample.at_s, window.epoch_s(sample.at_s), HORIZON_BINS * BIN_S)
    if bursts:
        excess_per_s = model.load.recent_per_s(1) - model.patterns.level_per_s
        scenarios = with_bursts(scenarios, bursts, sample.at_s, excess_per_s)
    rate = max(1e-9, float(scenarios.forecast[0]) / BIN_S)
    fixed_s, each_s = model.coefficients
    batch_time = model.batch_time
    batch_times = BatchTimeParameters(fixed_s, each_s, batch_time.gamma, batch_time.warm_factor, batch_time.divided)
    count = len(scenarios.counts)
    future = PossibleFutures(scenarios.counts, _spread(batch_time.ratios(), count), _in_turn(startups_s, count))
    now = _now(model, window, operator, instances, sample, bound_s, usual_s)
    need = model.instances_for(rate, max(sample.trigger_interval_s or 0.0, bound_s / 2))
    return Lookahead(
        rollout=Rollout(now, batch_times, future, until_s),
        counts=scenarios.counts,
        weights=scenarios.weights,
        rate_per_s=rate,
        late_price=model.price.per_record(need, rate, is_young=model.is_young),
        startup_s=usual_s,
        paid_s=window_s(downtime_s),
        downtime_s=downtime_s,
        bursts=bursts,
    )


def _now(
    model: OperatorModel,
    window: Window,
    operator: str,
    instances: Instances,
    sample: Sample,
    bound_s: float,
    startup_s: float,
) -> JobState:
    """Return the present state of the job."""
    backlog, running_s = sample.backlog or 0.0, sample.running_s
    past = model.load.recent(max(12, math.ceil((bound_s + (sample.latency_s or 0.0)) / BIN_S) + 3))
    waiting, batch = backlog, 0.0
    if running_s is not None:
        # Arrivals since the running batch was planned wait for the next one.
        bins = max(1, math.ceil(running_s / BIN_S))
        waiting = min(backlog, float(past[-bins:].sum()) * running_s / (BIN_S * bins))
        batch = backlog - waiting
    trigger_s = sample.trigger_interval_s or 0.0
    since_s = 0.0 if sample.batch_ended_s is None else sample.at_s - sample.batch_ended_s
    change = window.last_scale_out(operator)
    return JobState(
        arrived=past,
        waiting=waiting,
        batch_records=batch,
        batch_started_s=-(running_s or 0.0),
        ready=instances.ready,
        planned=instances.planned,
        pending_s=startup_s if change is None else max(5.0, startup_s - (sample.at_s - change.at_s)),
        trigger_s=trigger_s,
        next_trigger_s=trigger_s - since_s % trigger_s if trigger_s else 0.1,
        bound_s=bound_s,
        downtime_s=model.downtime.usual_s,
        remaining_s=model.downtime.remaining_s(sample.at_s),
    )


@lru_cache(maxsize=64)  # Needed at every decision, while new startups are rare.
def _startups(known_s: tuple[float, ...]) -> tuple[float, float]:
    """Return the median and the 80 % quantile of startup times."""
    usual_s, long_s = np.quantile(known_s, (0.5, 0.8))
    return float(usual_s), float(long_s)


@lru_cache(maxsize=64)
def _in_turn(known: tuple[float, ...], scenarios: int) -> FloatArray:
    """Return the known values repeated to one per scenario."""
    return np.resize(known, scenarios)


def _spread(ratios: FloatArray, scenarios: int) -> FloatArray:
    """Return a row of ratios per scenario, spread evenly over the known ones."""
    known = ratios if len(ratios) >= 10 else np.append(ratios, USUAL_RATIOS)
    return np.asarray(known[_places(scenarios, len(known))])


@lru_cache(maxsize=64)
def _places(scenarios: int, known: int) -> NDArray[np.int64]:
    """Return the indices of the known ratios that each scenario uses."""
    place = (np.arange(scenarios)[:, None] * RATIO_COLUMNS + np.arange(RATIO_COLUMNS)[None, :]) * 7
    return np.asarray(place % known)


@cache
def compile_loops() -> None:
    """Compile all loops once per process, so that the first decision does not wait for it."""
    if not has_compiler():
        return
    now = JobState(np.ones(2), 1.0, 0.0, 0.0, 1, 1, 1.0, 1.0, 1.0, 1.0)
    future = PossibleFutures(np.ones((1, 2)), np.ones((1, 1)), np.ones(1))
    Rollout(now, BatchTimeParameters(1.0, 1.0, 1.0, 1.0), future, 1.0).roll(np.ones(1))
    combined_forecast(base_forecasts(np.ones(2)), np.ones(FORECASTS))
    updated_forecast_errors(np.ones(FORECASTS), np.ones(FORECASTS), 1.0, 0.5)
    seasonal_forecast(np.ones(2), 1, 6, 1.0)
    quantiles(np.ones(2), np.ones(2))
    quantiles(np.ones((2, 2))[:, 0], np.ones(2))
    model = BatchTimeModel()
    for records in (1.0, 2.0):
        model.learn(records, 1, 1.0)

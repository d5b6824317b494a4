"""What may happen to one operator from now on, and what any size of it would come to."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from headgate.core.types import Instances, Sample
from headgate.core.window import Window
from headgate.forecast.base import FloatArray
from headgate.forecast.compiled import has_compiler
from headgate.policies.pilot.batch_time import ServiceModel
from headgate.policies.pilot.calibration import quantiles
from headgate.policies.pilot.load import BIN_S
from headgate.policies.pilot.load_scenarios import EXPERTS, HORIZON_BINS, combined, extrapolated, followed, last_season
from headgate.policies.pilot.operator_model import Learned
from headgate.policies.pilot.rollout import Future, Now, Rolled, Rollout, Service

WINDOW_S = 30.0
"""What is decided now is paid for at least so long. What comes later can be met later: looking twice as far ahead makes
it pay for rises that it could still have waited for."""
STANDSTILLS, LONGEST_WINDOW_S = 10.0, 240.0
"""Longer by so many times what the job stands still for a change, but not beyond what can be foretold of the load."""
SPACED = 1.2
"""Changes of a job that stands still for them may use up most of what may be late. With less than half of this spacing
8 instead of 11 of 12 contests of the league were kept, on days other than its own, for 7 % fewer instances."""
HYSTERESIS = 1.5
"""By how much dearer late records are taken to be when it shrinks, so that it does not grow again at once."""
AT_ONCE = 4
"""Sizes that are rolled forward together."""


def window_s(standstill_s: float) -> float:
    """For how long what is decided now is paid for at least, where the job stands still for it.

    >>> window_s(0.0), window_s(5.0), window_s(60.0)
    (30.0, 80.0, 240.0)
    """
    return min(LONGEST_WINDOW_S, WINDOW_S + STANDSTILLS * standstill_s)


@dataclass(frozen=True, slots=True)
class Choice:
    size: int
    """The size that costs the least."""
    safe: int
    """The size that would if late records cost ``HYSTERESIS`` times as much: none below it is shrunk to."""
    due: int
    """The size that would if the job stood still for none: where that is larger, the standstill is due in any case."""


def cheapest(
    sizes: FloatArray,
    roll: Callable[[FloatArray], Rolled],
    weights: FloatArray,
    price: float,
    *,
    planned: int,
    startup_s: float,
    paid_s: float = WINDOW_S,
) -> Choice:
    """The size with the least cost, looked for from the smallest upwards: with a backlog, costs have many valleys.

    Instances are paid for ``paid_s``. More than the ``planned`` ones must pay for the time in which they only start,
    too, and for the standstill it takes; whether to shrink is worth that is another question.
    """
    best = [(math.inf, 0), (math.inf, 0), (math.inf, 0)]
    for first in range(0, len(sizes), AT_ONCE):
        some = sizes[first : first + AT_ONCE]
        # Instances alone cost more than the best so far: no larger size can be better.
        if some[0] * paid_s >= max(cost for cost, _ in best):
            break
        rolled = roll(some)
        late = (rolled.late @ weights).tolist()
        lasting = late if rolled.lasting is rolled.late else (rolled.lasting @ weights).tolist()
        for size, late_now, late_lasting in zip(some.tolist(), late, lasting, strict=True):
            # As numbers and not as arrays, which are slower for so few.
            begun_s = size * paid_s + startup_s * max(0.0, size - planned)
            costs = (
                begun_s + price * late_now,
                size * paid_s + HYSTERESIS * price * late_lasting,
                begun_s + price * late_lasting,
            )
            best = [min(one, (cost, int(size))) for one, cost in zip(best, costs, strict=True)]
    return Choice(best[0][1], best[1][1], best[2][1])


def there_and_back_s(
    stood: float, price: float, *, rate_per_s: float, allowed_share: float, standstill_s: float, planned: int
) -> float:
    """What a step down and the one that takes it back cost, in seconds of an instance.

    Both make ``stood`` records late, and let ``planned`` instances stand idle. At the least they are worth an instance
    for as long as all that may be late is used up by them: else the changes alone would break what is asked.
    """
    priced_s = price * stood + standstill_s * planned
    return 2 * max(priced_s, stood / rate_per_s / allowed_share)


def spacing_s(stood_s: float, allowed_share: float, used: float) -> float:
    """How far apart steps down must be, each of which is taken back one day, where both stop a job for a while.

    What one of them makes late is as much as arrives in ``stood_s``. The more of what may be late is ``used`` already,
    the less is left for changes.

    >>> [round(spacing_s(45.0, 0.05, used=used)) for used in (0.0, 0.5, 1.0, 2.0)]
    [0, 1080, 2160, 8640]
    """
    return SPACED * 2 * stood_s / allowed_share * max(used, used**2)


def for_the_rise(change_s: float, rises_per_s: float) -> int:
    """How many more to take at once while more are needed all the time, where a change and its way back cost so much.

    Steps of k come every k / rises_per_s and leave k / 2 idle on average; this is where the sum of both costs least.

    >>> for_the_rise(0.0, 0.01), for_the_rise(1200.0, 0.0), for_the_rise(1200.0, 1 / 300)
    (0, 0, 2)
    """
    return math.floor(math.sqrt(change_s * max(0.0, rises_per_s)) + 1e-9)


def is_worth_waking(counts: FloatArray, weights: FloatArray, price: float, *, startup_s: float, bound_s: float) -> bool:
    """Whether an idle job may be without any instance, so that the first record that comes has to wake it.

    That costs the start of an instance, and all that comes until it is there is late, unless it is there in time.
    """
    bins = max(1, math.ceil((startup_s + WINDOW_S) / BIN_S))
    come = counts[:, :bins].sum(axis=1)
    late = come if startup_s > bound_s else np.zeros_like(come)
    wakes = np.where(come >= 1, startup_s, 0.0)
    return float((wakes + price * late) @ weights) < WINDOW_S


UNKNOWN_STARTUP_S = 60.0
"""Taken for what an instance takes to start before one was seen to."""
STARTUPS_KEPT = 30
RATIO_COLUMNS = 8
USUAL_RATIOS = (0.9, 1.0, 1.0, 1.0, 1.05, 1.1, 1.3)
"""How far batches are from what was foretold, before that is known."""


@dataclass(frozen=True, slots=True)
class Prospect:
    rollout: Rollout
    """Rolls sizes forward."""
    counts: FloatArray
    """Records that may arrive in each bin, one row per scenario."""
    weights: FloatArray
    rate_per_s: float
    """What is expected to arrive."""
    late_price: float
    """Of a late record, in seconds of an instance."""
    startup_s: float
    paid_s: float = WINDOW_S
    """For how long what is decided now is paid for at least."""
    standstill_s: float = 0.0
    """For how long nothing is done when the size changes."""

    def peak_per_s(self, within_s: float = math.inf) -> float:
        """The most that is expected to arrive, on average over the scenarios."""
        bins = HORIZON_BINS if math.isinf(within_s) else math.ceil(within_s / BIN_S)
        return max(self.rate_per_s, float(np.maximum.reduce(self.weights @ self.counts[:, :bins])) / BIN_S)


def look_ahead(
    learned: Learned, window: Window, operator: str, instances: Instances, sample: Sample, bound_s: float
) -> Prospect:
    """What may happen, as far as it is known what the load and batches do."""
    startups_s = window.startup_times(operator).registered_s.values_s[-STARTUPS_KEPT:] or (UNKNOWN_STARTUP_S,)
    usual_s, long_s = _startups(startups_s)
    standstill_s = learned.standstill.usual_s
    until_s = long_s + window_s(standstill_s)
    first, last = math.ceil(usual_s / BIN_S), math.ceil(until_s / BIN_S)
    learned.outlook.span_bins = (max(1, min(first, HORIZON_BINS - 2)), max(2, min(last, HORIZON_BINS - 1)))
    scenarios = learned.outlook.scenarios(learned.load)
    rate = max(1e-9, float(scenarios.forecast[0]) / BIN_S)
    model = learned.service
    fixed_s, each_s = learned.coefficients
    service = Service(fixed_s, each_s, learned.service.gamma, learned.service.warm_factor, learned.service.divided)
    count = len(scenarios.counts)
    courses = Future(scenarios.counts, _spread(model.ratios(), count), _in_turn(startups_s, count))
    now = _now(learned, window, operator, instances, sample, bound_s, usual_s)
    need = learned.instances_for(rate, max(sample.trigger_interval_s or 0.0, bound_s / 2))
    return Prospect(
        rollout=Rollout(now, service, courses, until_s),
        counts=scenarios.counts,
        weights=scenarios.weights,
        rate_per_s=rate,
        late_price=learned.price.of_record(need, rate, is_young=learned.is_young),
        startup_s=usual_s,
        paid_s=window_s(standstill_s),
        standstill_s=standstill_s,
    )


def _now(
    learned: Learned,
    window: Window,
    operator: str,
    instances: Instances,
    sample: Sample,
    bound_s: float,
    startup_s: float,
) -> Now:
    """Where the job stands."""
    backlog, running_s = sample.backlog or 0.0, sample.running_s
    past = learned.load.recent(max(12, math.ceil((bound_s + (sample.latency_s or 0.0)) / BIN_S) + 3))
    waiting, batch = backlog, 0.0
    if running_s is not None:
        # What has come since the running batch was planned waits for the next one.
        bins = max(1, math.ceil(running_s / BIN_S))
        waiting = min(backlog, float(past[-bins:].sum()) * running_s / (BIN_S * bins))
        batch = backlog - waiting
    trigger_s = sample.trigger_interval_s or 0.0
    since_s = 0.0 if sample.batch_ended_s is None else sample.at_s - sample.batch_ended_s
    change = window.last_scale_out(operator)
    return Now(
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
        standstill_s=learned.standstill.usual_s,
        left_s=learned.standstill.left_s(sample.at_s),
    )


@lru_cache(maxsize=64)  # New ones come seldom, and this is asked for at every decision.
def _startups(known_s: tuple[float, ...]) -> tuple[float, float]:
    """What instances take to start, usually, and of five of them the slowest."""
    usual_s, long_s = np.quantile(known_s, (0.5, 0.8))
    return float(usual_s), float(long_s)


@lru_cache(maxsize=64)
def _in_turn(known: tuple[float, ...], scenarios: int) -> FloatArray:
    """One for each scenario, so that all of them are used."""
    return np.resize(known, scenarios)


def _spread(ratios: FloatArray, scenarios: int) -> FloatArray:
    """Rows of ratios for each scenario, so that all of them are used."""
    known = ratios if len(ratios) >= 10 else np.append(ratios, USUAL_RATIOS)
    return np.asarray(known[_places(scenarios, len(known))])


@lru_cache(maxsize=64)
def _places(scenarios: int, known: int) -> NDArray[np.int64]:
    """Which of the ratios that are known are those of each scenario."""
    place = (np.arange(scenarios)[:, None] * RATIO_COLUMNS + np.arange(RATIO_COLUMNS)[None, :]) * 7
    return np.asarray(place % known)


@cache
def compile_loops() -> None:
    """Have all loops compiled now, once per process: the first decision is not the time for it."""
    if not has_compiler():
        return
    now = Now(np.ones(2), 1.0, 0.0, 0.0, 1, 1, 1.0, 1.0, 1.0, 1.0)
    future = Future(np.ones((1, 2)), np.ones((1, 1)), np.ones(1))
    Rollout(now, Service(1.0, 1.0, 1.0, 1.0), future, 1.0).rolled(np.ones(1))
    combined(extrapolated(np.ones(2)), np.ones(EXPERTS))
    followed(np.ones(EXPERTS), np.ones(EXPERTS), 1.0, 0.5)
    last_season(np.ones(2), 1, 6, 1.0)
    quantiles(np.ones(2), np.ones(2))
    quantiles(np.ones((2, 2))[:, 0], np.ones(2))
    service = ServiceModel()
    for records in (1.0, 2.0):
        service.learn(records, 1, 1.0)

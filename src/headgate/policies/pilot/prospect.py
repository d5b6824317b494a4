"""What may happen to one operator from now on, and what any size of it would come to."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from headgate.core.types import Instances, Sample
from headgate.core.window import Window
from headgate.forecast.contract import FloatArray
from headgate.policies.pilot.choosing import WINDOW_S, window_s
from headgate.policies.pilot.experts import HORIZON_BINS
from headgate.policies.pilot.learned import Learned
from headgate.policies.pilot.load import BIN_S
from headgate.policies.pilot.rollout import Future, Now, Rollout, Service

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

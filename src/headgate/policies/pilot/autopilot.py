"""autopilot: an objective and bounds, nothing else; the asked share of records is in time, at the least cost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from headgate.core.objective import LatencySlo, Slo, SlowShareSlo, ThroughputSlo
from headgate.core.startup import StartupTimes
from headgate.core.types import JSON, Instances, Instant, Number, Sample, Target
from headgate.core.units import format_duration
from headgate.core.window import Window
from headgate.forecast.contract import FloatArray
from headgate.policies.frame.base import Context, OperatorPolicy, hold
from headgate.policies.frame.readings import plain
from headgate.policies.frame.settings import Settings
from headgate.policies.frame.stabilisers import GuardSettings
from headgate.policies.pilot.grades import AHEAD_S
from headgate.policies.pilot.learned import Learned
from headgate.policies.pilot.load import BIN_S
from headgate.policies.pilot.price import LatePrice
from headgate.policies.pilot.rollout import Future, Now, Rolled, Rollout, Service
from headgate.policies.pilot.service import instances_for

WINDOW_S = 60.0
"""What is decided now is paid for at least so long."""
SHRINK_AFTER_S = 300.0
"""A smaller size must have been enough for so long."""
UNKNOWN_STARTUP_S = 60.0
STARTUPS_KEPT = 30
PRICE = 0.02
"""The price of a late record to begin with, in what a record costs over the share that may be late."""
MOST_SIZES = 16
LONGEST_SPAN_BINS = 29
THROUGHPUT_BOUND_S = 60.0
"""Who asks for throughput asks that nothing waits for long: for longer than this."""
SLOW_BOUND_S = 1.0
"""Of one second's records a share may still wait: those that wait longer are slow."""
RATIO_COLUMNS = 8
USUAL_RATIOS = (0.9, 1.0, 1.0, 1.0, 1.05, 1.1, 1.3)
"""How far batches are from what was foretold, before that is known."""


class AutopilotSettings(Settings):
    """None: the objective and the bounds are all it needs."""


@dataclass(frozen=True, slots=True)
class _Choice:
    sizes: FloatArray
    late: FloatArray
    """Records expected to be late, by size."""
    rolled: Rolled
    weights: FloatArray
    rate_per_s: float
    price: float
    best: int

    @property
    def size(self) -> int:
        return int(self.sizes[self.best])

    def row(self, instances: int) -> int:
        """The row of a size, or of the one next to it."""
        return int(np.argmin(np.abs(self.sizes - instances)))


class Autopilot(OperatorPolicy[AutopilotSettings]):
    """Rolls the batches to come forward, for every size and many courses of the load, and takes the cheapest size.

    A size costs what its instances cost for a minute, and what the records cost that it makes late. The price of a late
    record is moved until the share of late records is the one that was asked for: more in time would be money wasted.
    It grows at once and by several; it shrinks to the largest size that was right within the last five minutes.

    It is not offered as a policy yet: on bursty load it does not keep what it promises.
    """

    name = "autopilot"
    summary = "Keeps the asked share of records in time at the least cost; needs only an objective."
    Settings = AutopilotSettings
    guards = GuardSettings(pending_timeout_s=0, recovery_timeout_s=0)

    def __init__(self, settings: AutopilotSettings, context: Context) -> None:
        super().__init__(settings, context)
        self._learned: dict[str, Learned] = {}

    def size(self, now: Instant, window: Window, operator: str, instances: Instances, sample: Sample) -> Target:
        learned = self._learned.get(operator)
        if learned is None:
            learned = self._learned[operator] = Learned(LatePrice(self._allowed(operator)))
        learned.take_in(sample, window.batches(operator, learned.seen_s))
        if not learned.service.is_known or len(learned.load) < 2:
            return self._cautious(operator, instances, sample)
        return self._act(now, learned, instances, self._choose(learned, window, operator, instances, sample))

    def _allowed(self, operator: str) -> float:
        return asked(self.objective.slo_of(operator))[1]

    # ------------------------------------------------------------------------------------------------------ choosing

    def _choose(self, learned: Learned, window: Window, operator: str, instances: Instances, sample: Sample) -> _Choice:
        bound_s, allowed = asked(self.objective.slo_of(operator))
        startups_s = _startups(window.startup_times(operator))
        usual_s, long_s = (float(value) for value in np.quantile(startups_s, (0.5, 0.8)))
        first, last = math.ceil(usual_s / BIN_S), math.ceil((long_s + WINDOW_S) / BIN_S)
        learned.outlook.span_bins = (max(1, min(first, LONGEST_SPAN_BINS - 1)), max(2, min(last, LONGEST_SPAN_BINS)))
        scenarios = learned.outlook.scenarios(learned.load)
        rate = max(1e-9, float(scenarios.forecast[0]) / BIN_S)
        peak = max(rate, float(scenarios.forecast.max()) / BIN_S)
        sizes = self._sizes(operator, instances, sample, instances_for(peak, learned.service, bound_s / 2))
        fixed_s, each_s = learned.service.coefficients
        service = Service(fixed_s, each_s, learned.service.gamma, learned.service.warm_factor)
        count = len(scenarios.counts)
        future = Future(scenarios.counts, _spread(learned.service.ratios(), count), np.resize(startups_s, count))
        stand = _stand(learned, window, operator, instances, sample, bound_s, usual_s)
        rolled = Rollout(stand, service, future, sizes).until(long_s + WINDOW_S)
        late = np.asarray(rolled.late @ scenarios.weights)
        need = instances_for(rate, learned.service, max(sample.trigger_interval_s or 0.0, bound_s / 2))
        price = PRICE * max(0.05, need) / rate / allowed * learned.price.factor
        best = int(np.argmin(sizes * WINDOW_S + price * late))
        return _Choice(sizes, late, rolled, scenarios.weights, rate, price, best)

    def _sizes(self, operator: str, instances: Instances, sample: Sample, need: float) -> FloatArray:
        """The sizes that are looked at: all of them, or a ladder around what is needed."""
        lowest, highest = self.objective.bounds_of(operator, self.topology)
        lowest = max(1, lowest)
        if sample.useful_instances is not None:
            highest = max(lowest, min(highest, sample.useful_instances))
        if highest - lowest < MOST_SIZES:
            return np.arange(lowest, highest + 1, dtype=np.float64)
        ladder = np.round(np.geomspace(max(1.0, 0.5 * need), max(2.0, 4 * need), MOST_SIZES))
        return np.unique(np.clip(np.append(ladder, instances.planned), lowest, highest))

    # -------------------------------------------------------------------------------------------------------- acting

    def _act(self, now: Instant, learned: Learned, instances: Instances, choice: _Choice) -> Target:
        learned.choices.append((now, choice.size))
        while learned.choices[0][0] <= now - SHRINK_AFTER_S:
            learned.choices.popleft()
        highest = max(size for _, size in learned.choices)
        told = f"{plain(choice.rate_per_s)} records/s expected"
        if choice.size > instances.planned:
            target, code = choice.size, "needed"
            why = f"{told}: {_count(target)} keep what is asked at the least cost"
        elif highest < instances.planned:
            target, code = highest, "enough"
            why = f"{told}: {_count(target)} were enough throughout {format_duration(SHRINK_AFTER_S)}"
        else:
            target, code = instances.planned, "steady"
            why = f"{told}: {_count(target)} are right"
        return Target(target, code, why, self._numbers(now, learned, choice, target))

    @staticmethod
    def _numbers(now: Instant, learned: Learned, choice: _Choice, target: int) -> dict[str, Number]:
        """What it expects of the size it wants, and what led to that."""
        row = choice.row(target)
        low, middle, high = _quantiles(choice.rolled.ahead[row], choice.weights, (0.05, 0.5, 0.95))
        stated = learned.grades.expect(now, low, middle, high)
        return {
            "rate_per_s": choice.rate_per_s,
            "chosen": choice.size,
            "expected_late": float(choice.late[row]),
            "expected_backlog": stated.middle,
            "expected_backlog_low": stated.low,
            "expected_backlog_high": stated.high,
            "expected_after_s": AHEAD_S,
            "late_share": learned.price.share,
            "late_price": choice.price,
            "batch_fixed_s": learned.service.coefficients[0],
            "batch_each_s": learned.service.coefficients[1],
            "batch_gamma": learned.service.gamma,
        }

    def _cautious(self, operator: str, instances: Instances, sample: Sample) -> Target:
        """Before anything is known: grow when records are about to be late."""
        bound_s, _ = asked(self.objective.slo_of(operator))
        latency_s = sample.worst_latency_s
        numbers: dict[str, Number] = {"latency_s": latency_s, "bound_s": bound_s}
        if latency_s is not None and latency_s > bound_s / 2:
            told = f"records wait {plain(latency_s)} s already, and no batch has told yet how long work takes: one more"
            return Target(instances.planned + 1, "cautious", told, numbers)
        return hold(instances, "learning", "no batch has told yet how long work takes: holding", numbers)

    def _state(self) -> dict[str, JSON]:
        return {"operators": {name: one.to_json() for name, one in self._learned.items()}}

    def _restore_state(self, state: Mapping[str, JSON]) -> None:
        self._learned = {
            str(name): Learned.from_json(saved, self._allowed(name)) for name, saved in state["operators"].items()
        }


def asked(slo: Slo) -> tuple[float, float]:
    """The bound on latency in seconds, and the share of records that may be later."""
    match slo:
        case LatencySlo(bound_s=bound_s, percentile=percentile):
            return bound_s, max(1e-4, 1 - percentile / 100)
        case SlowShareSlo(share=share):
            return SLOW_BOUND_S, share
        case ThroughputSlo(probability=probability):
            return THROUGHPUT_BOUND_S, 1 - probability


def _stand(
    learned: Learned,
    window: Window,
    operator: str,
    instances: Instances,
    sample: Sample,
    bound_s: float,
    startup_s: float,
) -> Now:
    """Where the job stands now."""
    backlog, running_s = sample.backlog or 0.0, sample.running_s
    past = learned.load.counts(max(12, math.ceil((bound_s + (sample.latency_s or 0.0)) / BIN_S) + 3))
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
        ready=max(1, instances.ready),
        planned=instances.planned,
        pending_s=startup_s if change is None else max(5.0, startup_s - (sample.at_s - change.at_s)),
        trigger_s=trigger_s,
        next_trigger_s=trigger_s - since_s % trigger_s if trigger_s else 0.1,
        bound_s=bound_s,
    )


def _startups(times: StartupTimes) -> FloatArray:
    values = [*times.registered_s.values_s[-STARTUPS_KEPT:]]
    return np.array(values if len(values) >= 3 else [*values, UNKNOWN_STARTUP_S])


def _spread(ratios: FloatArray, scenarios: int) -> FloatArray:
    """Rows of ratios for each scenario, so that all of them are used."""
    known = ratios if len(ratios) >= 10 else np.append(ratios, USUAL_RATIOS)
    place = (np.arange(scenarios)[:, None] * RATIO_COLUMNS + np.arange(RATIO_COLUMNS)[None, :]) * 7
    return np.asarray(known[place % len(known)])


def _quantiles(values: FloatArray, weights: FloatArray, levels: tuple[float, ...]) -> list[float]:
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    index = np.minimum(np.searchsorted(reached, np.array(levels) * reached[-1]), len(values) - 1)
    return [float(value) for value in values[order][index]]


def _count(instances: int) -> str:
    return "1 instance" if instances == 1 else f"{instances} instances"

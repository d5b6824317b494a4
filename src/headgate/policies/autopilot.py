"""autopilot: an objective and bounds, nothing else; the asked share of records is in time, at the least cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from headgate.core.objective import LatencySlo, Slo, SlowShareSlo, ThroughputSlo
from headgate.core.startup import StartupTimes
from headgate.core.types import JSON, Instances, Instant, Number, Sample, Target
from headgate.core.units import format_duration
from headgate.core.window import Window
from headgate.forecast.contract import FloatArray
from headgate.policies.frame.base import Context, OperatorPolicy, hold, register
from headgate.policies.frame.readings import plain
from headgate.policies.frame.settings import PositiveSeconds, Settings
from headgate.policies.frame.stabilisers import GuardSettings
from headgate.policies.pilot.choosing import WINDOW_S, Choice, cheapest, is_worth_waking
from headgate.policies.pilot.grades import AHEAD_S
from headgate.policies.pilot.learned import Learned
from headgate.policies.pilot.load import BIN_S
from headgate.policies.pilot.patience import SHORTEST_S, Patience
from headgate.policies.pilot.price import LatePrice
from headgate.policies.pilot.rollout import Future, Now, Rolled, Rollout, Service, compile_loops
from headgate.policies.pilot.service import instances_for

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
YOUNG_DEARER = 4.0
"""By how much dearer a late record is while little is known of the load: it is as safe as ``reactive`` then."""
CAUGHT_UP_S = 300.0
"""Within this time at most what waits too long is worked off."""
IDLE_BINS = 6
"""Without a record for so many bins a job is idle."""
NO_HELP_GAMMA = 0.25
"""Instances that add up to so little do not help."""


class AutopilotSettings(Settings):
    """Nothing has to be set: the objective and the bounds are all it needs."""

    scale_in_window_s: PositiveSeconds = SHORTEST_S
    """The shortest time that a smaller size must have been enough; it takes longer after steps that it had to undo."""


@dataclass(frozen=True, slots=True)
class _Future:
    """What may happen, and what it would come to."""

    roll: Callable[[FloatArray], Rolled]
    """Rolls sizes forward."""
    counts: FloatArray
    """Records that may arrive in each bin, one row per scenario."""
    weights: FloatArray
    rate_per_s: float
    price: float
    """Of a late record, in seconds of an instance."""
    startup_s: float
    highest: int
    """The largest size that is allowed and of use."""
    useful: int | None
    """More than this cannot help."""


@register
class Autopilot(OperatorPolicy[AutopilotSettings]):
    """Rolls the batches to come forward, for every size and many courses of the load, and takes the cheapest size.

    A size costs what its instances cost for a minute, and what the records cost that it makes late. The price of a late
    record is moved until the share of late records is the one that was asked for: more in time would be money wasted.
    It grows at once and by several; it shrinks to the largest size that was right lately. Where the bounds allow none
    at all, an idle job holds no instance, and the first record that waits wakes it.

    >>> from headgate.core.objective import parse_objective
    >>> from headgate.core.topology import Topology
    >>> from headgate.core.types import Instances, Observation, Sample
    >>> from headgate.core.window import History
    >>> from headgate.policies.frame.base import Context, make_policy
    >>> job = Topology.single()
    >>> policy = make_policy("autopilot", Context(parse_objective("latency p95 < 10s"), job))
    >>> history = History(job)
    >>> history.observe(Observation(0, {"job": Sample("job", 0, latency_s=8)}, {"job": Instances(2, 2, 2)}))
    >>> target = policy.decide(0, history).targets["job"]
    >>> target.instances, target.reason
    (3, 'records wait 8 s already, and nothing has told yet how long work takes: one more')
    """

    name = "autopilot"
    summary = "Keeps the asked share of records in time at the least cost; needs only an objective."
    wakes = True
    Settings = AutopilotSettings
    # It knows of instances that are still to come, and waits for nothing when it has to grow.
    guards = GuardSettings(pending_timeout_s=0, recovery_timeout_s=0)

    def __init__(self, settings: AutopilotSettings, context: Context) -> None:
        super().__init__(settings, context)
        self._learned: dict[str, Learned] = {}
        compile_loops()

    def size(self, now: Instant, window: Window, operator: str, instances: Instances, sample: Sample) -> Target:
        learned = self._learned.get(operator)
        if learned is None:
            learned = self._learned[operator] = self._nothing_learned(operator)
        # A clock that went back hides no batches.
        since_s = learned.seen_s if learned.seen_s <= sample.at_s else -math.inf
        learned.take_in(sample, window.batches(operator, since_s), instances)
        if not learned.service.is_known or len(learned.load) < 1:
            return self._cautious(operator, instances, sample)
        future = self._future(learned, window, operator, instances, sample)
        return self._act(now, learned, operator, instances, sample, future)

    def _nothing_learned(self, operator: str) -> Learned:
        _, allowed = asked(self.objective.slo_of(operator))
        return Learned(LatePrice(allowed), patience=Patience(self.settings.scale_in_window_s))

    # ------------------------------------------------------------------------------------------------------ choosing

    def _future(self, learned: Learned, window: Window, operator: str, instances: Instances, sample: Sample) -> _Future:
        bound_s, allowed = asked(self.objective.slo_of(operator))
        startups_s = _startups(window.startup_times(operator))
        usual_s, long_s = (float(value) for value in np.quantile(startups_s, (0.5, 0.8)))
        first, last = math.ceil(usual_s / BIN_S), math.ceil((long_s + WINDOW_S) / BIN_S)
        learned.outlook.span_bins = (max(1, min(first, LONGEST_SPAN_BINS - 1)), max(2, min(last, LONGEST_SPAN_BINS)))
        scenarios = learned.outlook.scenarios(learned.load)
        rate = max(1e-9, float(scenarios.forecast[0]) / BIN_S)
        fixed_s, each_s = learned.service.coefficients
        service = Service(fixed_s, each_s, learned.service.gamma, learned.service.warm_factor)
        count = len(scenarios.counts)
        courses = Future(scenarios.counts, _spread(learned.service.ratios(), count), np.resize(startups_s, count))
        stand = _stand(learned, window, operator, instances, sample, bound_s, usual_s)
        need = instances_for(rate, learned.service, max(sample.trigger_interval_s or 0.0, bound_s / 2))
        lowest, highest = self.objective.bounds_of(operator, self.topology)
        useful = sample.useful_instances
        return _Future(
            roll=lambda sizes: Rollout(stand, service, courses, sizes, long_s + WINDOW_S).rolled(),
            counts=scenarios.counts,
            weights=scenarios.weights,
            rate_per_s=rate,
            price=PRICE
            * (YOUNG_DEARER if learned.is_young else 1.0)
            * max(0.05, need)
            / rate
            / allowed
            * learned.price.factor,
            startup_s=usual_s,
            highest=highest if useful is None else max(1, lowest, min(highest, useful)),
            useful=useful,
        )

    def _choose(self, learned: Learned, operator: str, instances: Instances, sample: Sample, future: _Future) -> Choice:
        bound_s, _ = asked(self.objective.slo_of(operator))
        lowest, _ = self.objective.bounds_of(operator, self.topology)
        peak = max(future.rate_per_s, float((future.counts * future.weights[:, None]).sum(axis=0).max()) / BIN_S)
        need = instances_for(peak, learned.service, bound_s / 2)
        floor = max(1, lowest)
        if (sample.latency_s or 0.0) > (bound_s / 2 if learned.is_young else bound_s):
            # Records that are late already must not become ever later because that is cheap for now.
            floor = max(floor, min(future.highest, _catching_up(learned, sample, future, bound_s)))
        chosen = cheapest(
            _ladder(floor, future.highest, need, instances.planned),
            future.roll,
            future.weights,
            future.price,
            planned=instances.planned,
            startup_s=future.startup_s,
        )
        is_idle = (sample.backlog or 0.0) < 1 and learned.load.counts(IDLE_BINS).sum() < 1
        if lowest > 0 or not is_idle:
            return chosen
        costs = {"startup_s": future.startup_s, "bound_s": bound_s}
        return Choice(0, 0) if is_worth_waking(future.counts, future.weights, future.price, **costs) else chosen

    # -------------------------------------------------------------------------------------------------------- acting

    def _act(
        self,
        now: Instant,
        learned: Learned,
        operator: str,
        instances: Instances,
        sample: Sample,
        future: _Future,
    ) -> Target:
        choice = self._choose(learned, operator, instances, sample, future)
        bound_s, _ = asked(self.objective.slo_of(operator))
        highest = learned.patience.highest(now, choice.safe, future.startup_s)
        planned, told = instances.planned, f"{plain(future.rate_per_s)} records/s expected"
        if choice.size > planned:
            learned.patience.grows(now, future.rate_per_s)
            target, code = choice.size, "needed"
            why = f"{told}: {_count(target)} {'keeps' if target == 1 else 'keep'} what is asked at the least cost"
        elif highest >= planned:
            target, code = planned, "steady"
            why = f"{told}: {_count(target)} {'are' if target > 1 else 'is'} right"
        elif (sample.latency_s or 0.0) > bound_s:
            target, code, why = planned, "catching-up", "what waits is worked off first: holding"
        elif learned.patience.is_paused(now):
            target, code, why = planned, "steady", "the size was reduced just now: holding"
        else:
            learned.patience.shrinks(now, future.rate_per_s)
            target, code = highest, "enough"
            lately = format_duration(learned.patience.window_s)
            why = f"{told}: {_count(target)} {'were' if target > 1 else 'was'} enough throughout {lately}"
        numbers = _numbers(now, learned, future, choice, target)
        is_late = (sample.latency_s or 0.0) > bound_s or _expected_late(numbers) > future.rate_per_s * WINDOW_S / 2
        if target >= future.highest and is_late:
            why += _no_more(learned, future)
        return Target(target, code, why, numbers)

    def _cautious(self, operator: str, instances: Instances, sample: Sample) -> Target:
        """Before anything is known: grow when records are about to be late."""
        bound_s, _ = asked(self.objective.slo_of(operator))
        latency_s = sample.worst_latency_s
        numbers: dict[str, Number] = {"latency_s": latency_s, "bound_s": bound_s}
        untold = "nothing has told yet how long work takes"
        backlog = sample.backlog or 0.0
        if instances.planned < 1 and backlog >= 1:
            return Target(1, "cautious", f"{plain(backlog)} records wait, and there is no instance: one", numbers)
        if latency_s is None:
            return hold(instances, "no-data", f"{untold}, nor how long records wait: holding", numbers)
        if latency_s > bound_s / 2:
            told = f"records wait {plain(latency_s)} s already, and {untold}: one more"
            return Target(instances.planned + 1, "cautious", told, numbers)
        return hold(instances, "learning", f"{untold}: holding", numbers)

    def _state(self) -> dict[str, JSON]:
        return {"operators": {name: one.to_json() for name, one in self._learned.items()}}

    def _restore_state(self, state: Mapping[str, JSON]) -> None:
        learned = {str(name): self._nothing_learned(name) for name in state["operators"]}
        for name, one in learned.items():
            one.restore(state["operators"][name])
        self._learned = learned


def asked(slo: Slo) -> tuple[float, float]:
    """The bound on latency in seconds, and the share of records that may be later."""
    match slo:
        case LatencySlo(bound_s=bound_s, percentile=percentile):
            return bound_s, max(1e-4, 1 - percentile / 100)
        case SlowShareSlo(share=share):
            return SLOW_BOUND_S, share
        case ThroughputSlo(probability=probability):
            return THROUGHPUT_BOUND_S, max(1e-4, 1 - probability)


def _numbers(now: Instant, learned: Learned, future: _Future, choice: Choice, target: int) -> dict[str, Number]:
    """What it expects of the size it wants, each with an interval, and what led to that."""
    rolled = future.roll(np.array([float(max(1, target))]))
    numbers: dict[str, Number] = {
        "rate_per_s": future.rate_per_s,
        "chosen": choice.size,
        "expected_after_s": AHEAD_S,
        "expected_late": float(rolled.late[0] @ future.weights),
    }
    spread = {
        "backlog": _quantiles(rolled.ahead[0], future.weights),
        "latency_s": _quantiles(rolled.latency_s[0], future.weights),
        "instances": (target, target, target),
    }
    for name, (low, middle, high) in spread.items():
        stated = learned.grades[name].expect(now, low, middle, high)
        numbers |= {
            f"expected_{name}": stated.middle,
            f"expected_{name}_low": stated.low,
            f"expected_{name}_high": stated.high,
        }
    fixed_s, each_s = learned.service.coefficients
    return numbers | {
        "late_share": learned.price.share,
        "late_price": future.price,
        "batch_fixed_s": fixed_s,
        "batch_each_s": each_s,
        "batch_gamma": learned.service.gamma,
        "patience_s": learned.patience.window_s,
    }


def _expected_late(numbers: Mapping[str, Number]) -> float:
    late = numbers["expected_late"]
    return late if isinstance(late, float) else 0.0


def _catching_up(learned: Learned, sample: Sample, future: _Future, bound_s: float) -> int:
    """The size that works off what waits within ``CAUGHT_UP_S``, beside what arrives."""
    arriving = float(learned.load.recent(1).sum()) / BIN_S
    rate_per_s = max(arriving, future.rate_per_s) + (sample.backlog or 0.0) / CAUGHT_UP_S
    return math.ceil(instances_for(rate_per_s, learned.service, bound_s))


def _no_more(learned: Learned, future: _Future) -> str:
    """Why it does not grow though records are late."""
    if learned.service.gamma <= NO_HELP_GAMMA:
        return "; batches do not become faster with more instances, so none are added"
    if future.useful is not None and future.useful <= future.highest:
        return f"; more than {_count(future.useful)} cannot help: there is no more work to be done side by side"
    return "; more are not allowed"


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
    )


def _ladder(lowest: int, highest: int, need: float, planned: int) -> FloatArray:
    """The sizes that are looked at: all of them, or a ladder around what is needed."""
    if highest - lowest < MOST_SIZES:
        return np.arange(lowest, highest + 1, dtype=np.float64)
    rungs = np.round(np.geomspace(max(1.0, 0.5 * need), max(2.0, 4 * need), MOST_SIZES))
    return np.unique(np.clip(np.append(rungs, planned), lowest, highest))


def _startups(times: StartupTimes) -> FloatArray:
    values = [*times.registered_s.values_s[-STARTUPS_KEPT:]]
    return np.array(values if len(values) >= 3 else [*values, UNKNOWN_STARTUP_S])


def _spread(ratios: FloatArray, scenarios: int) -> FloatArray:
    """Rows of ratios for each scenario, so that all of them are used."""
    known = ratios if len(ratios) >= 10 else np.append(ratios, USUAL_RATIOS)
    place = (np.arange(scenarios)[:, None] * RATIO_COLUMNS + np.arange(RATIO_COLUMNS)[None, :]) * 7
    return np.asarray(known[place % len(known)])


def _quantiles(values: FloatArray, weights: FloatArray) -> tuple[float, float, float]:
    """The middle, and what lies below and above nine tenths."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    index = np.minimum(np.searchsorted(reached, np.array((0.05, 0.5, 0.95)) * reached[-1]), len(values) - 1)
    low, middle, high = values[order][index]
    return float(low), float(middle), float(high)


def _count(instances: int) -> str:
    return {0: "no instance", 1: "1 instance"}.get(instances, f"{instances} instances")

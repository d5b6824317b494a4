"""online-parameter-optimization: thresholds that are found again whenever the load changes (azimi §6.1, exp. 9).

After Heinze et al. (FUGU), as Kielbowicz brought it to Spark Streaming: an adaptive window watches the load; when it
reports a change, the recent history is replayed with other thresholds, and the cheapest ones are taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Self

import numpy as np
from pydantic import Field, model_validator

from headgate.core.extras import needing
from headgate.core.objective import LatencySlo
from headgate.core.types import JSON, Instances, Instant, Number, Sample, Target
from headgate.core.units import format_duration
from headgate.core.window import DEFAULT_RETENTION_S, Window
from headgate.policies.frame.base import Context, OperatorPolicy, register
from headgate.policies.frame.readings import startup_s
from headgate.policies.frame.settings import PositiveSeconds, Seconds, Settings
from headgate.policies.threshold import Threshold, ThresholdSettings
from headgate.policies.tuning.random_search import Point, recursive_random_search

MOST_LATE = 10.0
"""A second so many times over the bound costs as much as any later one."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Scale out when the busy share stays above ``upper`` for a time, in when it stays below ``lower`` for another."""

    upper: float
    lower: float
    upper_for_s: float
    lower_for_s: float


@dataclass(frozen=True, slots=True)
class LoadStretch:
    """A stretch of time in which the job was given enough work for ``demand`` instances."""

    seconds: float
    demand: float


@dataclass(frozen=True, slots=True)
class Recorded:
    """A stretch of the past to be lived through again."""

    loads: Sequence[LoadStretch]
    instances: int
    """What the job had when it began."""
    waiting_s: float = 0.0
    """The work that waited then, in seconds of one instance."""


@dataclass(frozen=True, slots=True)
class ReplayTerms:
    """What a replay is judged by, and what it has to reckon with."""

    min_instances: int
    max_instances: int
    trigger_interval_s: float
    """What a batch waits for; 0 where there are no batches."""
    latency_bound_s: float
    violation_price: float
    """What a second at the bound costs, in seconds of an instance."""
    startup_s: float = 0.0
    """How long a requested instance is paid for before it helps."""
    grace_period_s: float = 0.0
    """How long nothing is done after a change of size."""


def recorded(window: Window, operator: str, since_s: float) -> Recorded | None:
    """The load of an operator as its readings tell it: arrivals over what one instance got through when busy.

    ``None`` as long as they do not tell what that is.
    """
    loads: list[LoadStretch] = []
    began: tuple[int, float] | None = None
    before_s: float | None = None
    capacity_per_s: float | None = None
    for observation in window.observations:
        sample, instances = observation.samples.get(operator), observation.instances.get(operator)
        if sample is None or instances is None or sample.at_s < since_s or sample.at_s == before_s:
            continue
        if sample.processed_rate_per_s and instances.ready:
            capacity_per_s = float(sample.processed_rate_per_s) / instances.ready
        if before_s is not None and capacity_per_s and sample.input_rate_per_s is not None:
            loads.append(LoadStretch(float(sample.at_s - before_s), float(sample.input_rate_per_s) / capacity_per_s))
        if began is None and capacity_per_s:
            began = instances.planned, float(sample.backlog or 0.0) / capacity_per_s
        before_s = sample.at_s
    return None if began is None or not loads else Recorded(loads, *began)


def replay_cost(past: Recorded, thresholds: Thresholds, terms: ReplayTerms) -> float:
    """Seconds of instances that were paid for, plus the price of the time over the latency bound.

    A second costs the more the further it is over the bound: else, where all is late anyway, the fewest instances would
    be best. Work that still waits in the end is late for as long as it would take to get through it.

    >>> terms = ReplayTerms(1, 4, trigger_interval_s=10, latency_bound_s=30, violation_price=10)
    >>> replay_cost(Recorded([LoadStretch(10, 1.0)] * 6, instances=2), Thresholds(0.9, 0.1, 20, 60), terms)
    120.0
    """
    planned = ready = max(terms.min_instances, min(terms.max_instances, past.instances))
    cost = above_s = below_s = now_s = 0.0
    arrives_s = blind_until_s = 0.0
    waiting_s = past.waiting_s
    latency_s = 0.0
    for load in past.loads:
        if now_s >= arrives_s:
            ready = planned
        # Instances that have a queue are busy all the time, however little arrives.
        busy_share = max(load.demand / ready, 1.0) if waiting_s > 0 else load.demand / ready
        latency_s = waiting_s / ready + load.demand / ready * terms.trigger_interval_s
        late = min(MOST_LATE, latency_s / terms.latency_bound_s) if latency_s > terms.latency_bound_s > 0 else 0.0
        cost += load.seconds * (max(planned, ready) + terms.violation_price * late)
        waiting_s = max(0.0, waiting_s + (load.demand - ready) * load.seconds)
        now_s += load.seconds
        if now_s <= blind_until_s:
            continue
        above_s = above_s + load.seconds if busy_share > thresholds.upper else 0.0
        below_s = below_s + load.seconds if busy_share < thresholds.lower else 0.0
        change = 0
        if above_s >= thresholds.upper_for_s and above_s > 0 and planned < terms.max_instances:
            change = 1
        elif below_s >= thresholds.lower_for_s and below_s > 0 and planned > terms.min_instances:
            change = -1
        if change:
            planned += change
            above_s = below_s = 0.0
            arrives_s = now_s + (terms.startup_s if change > 0 else 0.0)
            blind_until_s = max(arrives_s, now_s + terms.grace_period_s)
    late_s = waiting_s / ready if latency_s > terms.latency_bound_s else 0.0
    return cost + terms.violation_price * late_s


CAUTION = 0.05
"""What being a little more reckless costs, as a share: enough to choose where the past does not tell a difference."""
MOST_WATCHED = 2000
"""Readings after which the adaptive window begins anew, so that its state stays small."""
UPPER_RANGE = (0.5, 0.95)
LOWER_RANGE = (0.05, 0.5)
"""Within these shares the two bounds are searched. Many jobs are never seen busier than all the time, so that an upper
bound of 1 would be none."""


class OnlineParameterOptimizationSettings(Settings):
    upper: Annotated[float, Field(gt=0)] = 0.8
    """The busy share above which it scales out, before anything was optimised."""
    lower: Annotated[float, Field(gt=0)] = 0.3
    """The busy share below which it scales in, before anything was optimised."""
    upper_for_s: Seconds = 20.0
    """How long the upper bound must be exceeded, before anything was optimised."""
    lower_for_s: Seconds = 120.0
    """How long the lower bound must be undercut, before anything was optimised."""
    shortest_s: Seconds = 20.0
    """The shortest time that a bound may have to be exceeded: 2 batches of 10 s in the document."""
    longest_s: Seconds = 1280.0
    """The longest such time: 128 batches in the document."""
    step_s: PositiveSeconds = 40.0
    """The steps between the two: 4 batches in the document."""
    history_s: PositiveSeconds = 1800.0
    """The history that is replayed."""
    delta: Annotated[float, Field(gt=0, lt=1)] = 0.002
    """The significance at which the adaptive window reports a change; a smaller one reports fewer."""
    evaluations: Annotated[int, Field(ge=1, le=10_000)] = 150
    """Replays that one optimisation may take."""
    violation_price: Annotated[float, Field(ge=0)] = 10.0
    """What a second over the objective costs, in seconds of an instance; one that is twice over it costs twice that."""
    grace_period_s: Seconds = 30.0
    """How long to do nothing after a change of size."""
    startup_s: Seconds = 30.0
    """How long an instance takes to start, by which thresholds are judged until that was measured."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if not self.lower < self.upper:
            raise ValueError(f"lower {self.lower:g} must be below upper {self.upper:g}")
        if not self.shortest_s <= self.longest_s:
            raise ValueError(f"shortest_s {self.shortest_s:g} must not be above longest_s {self.longest_s:g}")
        return self


@dataclass(slots=True)
class TunedOperator:
    """What is known of one operator."""

    thresholds: Thresholds
    random: np.random.Generator
    watched: list[float] = field(default_factory=list)
    """The loads that the adaptive window has seen since it last reported a change."""
    seen_s: Instant | None = None
    optimised_s: Instant | None = None
    optimised: int = 0


@register
class OnlineParameterOptimization(OperatorPolicy[OnlineParameterOptimizationSettings]):
    """The threshold policy on the busy share, with bounds and durations that follow the load.

    Needs the package river for its adaptive window (ADWIN).

    >>> from headgate.core.objective import parse_objective
    >>> from headgate.core.topology import Topology
    >>> from headgate.policies import Context, make_policy
    >>> context = Context(parse_objective("latency < 30s"), Topology.single())
    >>> make_policy("online-parameter-optimization", context).settings.evaluations
    150
    """

    name = "online-parameter-optimization"
    summary = "Thresholds that are searched again on the recent history whenever the load changes."
    Settings = OnlineParameterOptimizationSettings

    def __init__(self, settings: OnlineParameterOptimizationSettings, context: Context) -> None:
        super().__init__(settings, context)
        self._context = context
        self.lookback_s = max(DEFAULT_RETENTION_S, settings.history_s, 2 * settings.longest_s)
        self._tuned: dict[str, TunedOperator] = {}
        self._detectors: dict[str, Any] = {}
        self._new_detector()  # A missing package is reported before the job is touched.

    def size(self, now: Instant, window: Window, operator: str, instances: Instances, sample: Sample) -> Target:
        tuned = self._tuned_for(operator)
        if tuned.seen_s != sample.at_s and sample.input_rate_per_s is not None:
            tuned.seen_s = sample.at_s
            if self._changed(operator, tuned, sample.input_rate_per_s):
                self._optimise(now, window, operator, instances, sample)
        target = self._threshold(tuned.thresholds).size(now, window, operator, instances, sample)
        numbers: dict[str, Number] = {
            **target.numbers,
            "upper_for_s": tuned.thresholds.upper_for_s,
            "lower_for_s": tuned.thresholds.lower_for_s,
            "optimised": tuned.optimised,
        }
        # State that was saved on another clock may lie ahead of this one.
        if tuned.optimised_s is None or tuned.optimised_s > now:
            return replace(target, numbers=numbers)
        found = f"bounds found {format_duration(now - tuned.optimised_s)} ago, when the load had changed"
        return replace(target, reason=f"{target.reason}; {found}", numbers=numbers)

    def _tuned_for(self, operator: str) -> TunedOperator:
        if operator not in self._tuned:
            given = self.settings
            first = Thresholds(given.upper, given.lower, given.upper_for_s, given.lower_for_s)
            seed = [self.seed, self.topology.operators.index(operator)]
            self._tuned[operator] = TunedOperator(first, np.random.default_rng(seed))
        return self._tuned[operator]

    def _threshold(self, bounds: Thresholds) -> Threshold:
        settings = ThresholdSettings(
            upper=bounds.upper,
            lower=bounds.lower,
            upper_for_s=bounds.upper_for_s,
            lower_for_s=bounds.lower_for_s,
            grace_period_s=self.settings.grace_period_s,
        )
        return Threshold(settings, self._context)

    def _new_detector(self) -> Any:
        with needing(f"policy {self.name}"):
            from river.drift import ADWIN
        adwin: Any = ADWIN  # Its methods carry no types.
        return adwin(delta=self.settings.delta, clock=1)

    def _changed(self, operator: str, tuned: TunedOperator, rate_per_s: float) -> bool:
        """Show a load to the adaptive window; whether it reports a change."""
        if operator not in self._detectors or len(tuned.watched) >= MOST_WATCHED:
            tuned.watched = tuned.watched[-MOST_WATCHED // 2 :]
            self._detectors[operator] = self._new_detector()
            for seen_per_s in tuned.watched:
                self._detectors[operator].update(seen_per_s)
        self._detectors[operator].update(rate_per_s)
        tuned.watched.append(rate_per_s)
        if not self._detectors[operator].drift_detected:
            return False
        # It forgets all it has seen when it reports a change.
        tuned.watched.clear()
        del self._detectors[operator]
        return True

    def _optimise(self, now: Instant, window: Window, operator: str, instances: Instances, sample: Sample) -> None:
        past = recorded(window, operator, now - self.settings.history_s)
        if past is None:
            return
        tuned, terms = self._tuned_for(operator), self._terms(window, operator, sample)

        def cost(bounds: Thresholds) -> float:
            return replay_cost(past, bounds, terms) * (1 + CAUTION * self._recklessness(bounds))

        point, least = recursive_random_search(
            lambda point: cost(self._at(point)), 4, tuned.random, evaluations=self.settings.evaluations
        )
        if least < cost(tuned.thresholds):
            tuned.thresholds = self._at(point)
        tuned.optimised_s, tuned.optimised = now, tuned.optimised + 1

    def _terms(self, window: Window, operator: str, sample: Sample) -> ReplayTerms:
        slo = self.objective.slo_of(operator)
        lowest, highest = self.objective.bounds_of(operator, self.topology)
        trigger_interval_s = float(sample.trigger_interval_s or 0.0)
        return ReplayTerms(
            max(1, lowest),
            max(1, highest),
            trigger_interval_s,
            slo.bound_s if isinstance(slo, LatencySlo) else trigger_interval_s,
            self.settings.violation_price,
            startup_s(window, operator, self.settings.startup_s),
            self.settings.grace_period_s,
        )

    def _at(self, point: Point) -> Thresholds:
        """The thresholds at a point of the unit cube."""
        upper, lower, upper_for, lower_for = (float(share) for share in point)
        return Thresholds(
            round(UPPER_RANGE[0] + upper * (UPPER_RANGE[1] - UPPER_RANGE[0]), 3),
            round(LOWER_RANGE[0] + lower * (LOWER_RANGE[1] - LOWER_RANGE[0]) - 0.001, 3),
            self._duration_s(upper_for),
            self._duration_s(lower_for),
        )

    def _recklessness(self, bounds: Thresholds) -> float:
        """How late it would grow and how soon it would shrink, from -1 to 3.

        A past in which the load only fell says nothing about growing, and any bounds would do.
        """
        waits = (bounds.upper_for_s - bounds.lower_for_s) / max(1.0, self.settings.longest_s)
        return bounds.upper + bounds.lower + waits

    def _duration_s(self, share: float) -> float:
        settings = self.settings
        steps = int((settings.longest_s - settings.shortest_s) // settings.step_s)
        return settings.shortest_s + min(steps, int(share * (steps + 1))) * settings.step_s

    def _state(self) -> dict[str, JSON]:
        return {"tuned": {name: _saved(tuned) for name, tuned in self._tuned.items()}}

    def _restore_state(self, state: Mapping[str, JSON]) -> None:
        self._tuned = {str(name): _restored(saved) for name, saved in state["tuned"].items()}
        self._detectors = {}


def _saved(tuned: TunedOperator) -> dict[str, JSON]:
    bounds = tuned.thresholds
    return {
        "thresholds": [bounds.upper, bounds.lower, bounds.upper_for_s, bounds.lower_for_s],
        "random": tuned.random.bit_generator.state,
        "watched": list(tuned.watched),
        "seen_s": tuned.seen_s,
        "optimised_s": tuned.optimised_s,
        "optimised": tuned.optimised,
    }


def _restored(saved: Mapping[str, Any]) -> TunedOperator:
    random = np.random.default_rng()
    random.bit_generator.state = saved["random"]
    return TunedOperator(
        Thresholds(*(float(value) for value in saved["thresholds"])),
        random,
        [float(value) for value in saved["watched"]],
        None if saved["seen_s"] is None else float(saved["seen_s"]),
        None if saved["optimised_s"] is None else float(saved["optimised_s"]),
        int(saved["optimised"]),
    )

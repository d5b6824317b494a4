"""flink-autoscaler: what the autoscaler of Flink's Kubernetes operator does, for any engine.

Source: the module ``flink-autoscaler`` of apache/flink-kubernetes-operator and its options (``job.autoscaler.…``),
whose defaults are those below. It builds on the true rates of ``ds2``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

from headgate.core.types import JSON, Instances, Instant, Number, Proposal, Sample, Target
from headgate.core.units import format_duration, plain
from headgate.core.window import DEFAULT_RETENTION_S, SizeChange, Window
from headgate.policies.frame.base import Context, PolicyBase, hold, register
from headgate.policies.frame.readings import Flow, carried_on, caught_up_rate_per_s, flow_over
from headgate.policies.frame.recommendations import ScaleInDelay
from headgate.policies.frame.settings import PositiveSeconds, Seconds, Settings, Share

STALE_AFTER_S = 300.0
"""A newest reading older than this counts as none."""
Count = Annotated[int, Field(ge=1)]


class FlinkAutoscalerSettings(Settings):
    metrics_window_s: PositiveSeconds = 900.0
    """The time that rates are averaged over; nothing is decided before it is full (``metrics.window``)."""
    stabilization_interval_s: Seconds = 300.0
    """How long what is measured after a rescale does not count (``stabilization.interval``)."""
    utilization_target: Annotated[float, Field(gt=0, le=1)] = 0.7
    """How busy operators should be (``utilization.target``)."""
    utilization_boundary: Share = 0.3
    """Nothing is done while they are busy within this of the target (``target.utilization.boundary``)."""
    catch_up_duration_s: Seconds = 1800.0
    """Within this time what waits, and what comes during a rescale, is to be worked off; 0 leaves it out
    (``catch-up.duration``)."""
    restart_time_s: Seconds = 300.0
    """How long a rescale is expected to stop the job (``restart.time``)."""
    backlog_lag_threshold_s: Seconds = 300.0
    """From this much backlog on, in seconds of load, the job is catching up and nothing is removed
    (``backlog-processing.lag-threshold``)."""
    observe_lag_threshold_s: Seconds = 30.0
    """From this much backlog on, what gets done shows how fast instances are
    (``observed-true-processing-rate.lag-threshold``)."""
    observe_switch_threshold: Annotated[float, Field(ge=0)] = 0.15
    """That is taken instead of the rate by busy time where the latter is larger by more than this share
    (``….switch-threshold``)."""
    observe_least_readings: Count = 2
    """Readings without which it is not (``….min-observations``)."""
    scale_in_interval_s: Seconds = 3600.0
    """Fewer must have been enough for this long; then it goes to the largest size found in that time
    (``scale-down.interval``)."""
    scale_in_max_share: Share = 0.6
    """Share of the instances that may be removed at once (``scale-down.max-factor``)."""
    scale_out_max_share: Annotated[float, Field(gt=0)] = 100000.0
    """Share of the instances that may be added at once (``scale-up.max-factor``)."""
    observed_scalability: bool = False
    """Count on less than proportional gain where earlier rescales brought less (``observed-scalability.enabled``)."""
    scalability_least_observations: Count = 3
    """Rescales without which that is not judged (``….min-observations``)."""
    scalability_least: Annotated[float, Field(gt=0, le=1)] = 0.5
    """The least gain that is counted on (``….coefficient-min``)."""
    block_ineffective: bool = False
    """Grow no further when the last growth brought too little (``scaling.effectiveness.detection.enabled``)."""
    effectiveness_threshold: Share = 0.1
    """The share of the expected gain that is too little (``scaling.effectiveness.threshold``)."""
    history_count: Count = 3
    """Rescales that are remembered (``history.max.count``)."""
    history_age_s: Seconds = 86400.0
    """For how long they are (``history.max.age``)."""


@dataclass(frozen=True, slots=True)
class Rescale:
    """A change of size, with the total true rate before it (``JobVertexScaler``, ``AutoScalerUtils``)."""

    at_s: Instant
    before: int
    after: int
    true_per_s: float

    @property
    def expected_gain_per_s(self) -> float:
        """The gain if the rate had grown in proportion to the size."""
        return self.true_per_s * (self.after / self.before - 1)

    def effect(self, true_per_s: float) -> float | None:
        """Return the share of the expected gain that was reached; ``None`` if none was expected."""
        gain = self.expected_gain_per_s
        return (true_per_s - self.true_per_s) / gain if gain > 0 else None


class RescaleHistory:
    """The newest rescales of one operator."""

    def __init__(self, rescales: Sequence[Rescale] = ()) -> None:
        self._rescales = list(rescales)
        self._proposed: tuple[Instant, float] | None = None

    @property
    def newest(self) -> Rescale | None:
        return self._rescales[-1] if self._rescales else None

    def propose(self, at_s: Instant, true_per_s: float) -> None:
        """Remember the rate behind a proposal; whether it is carried out is known later."""
        self._proposed = at_s, true_per_s

    def follow(self, now: Instant, change: SizeChange | None, *, most: int, for_s: float) -> bool:
        """Record a proposal that was carried out, drop old rescales, and return whether there is a new one."""
        # State saved on another clock may lie in the future.
        self._rescales = [rescale for rescale in self._rescales if now - for_s <= rescale.at_s <= now]
        if self._proposed is None or change is None or change.at_s != self._proposed[0]:
            return False
        verdict, (at_s, true_per_s) = change.verdict, self._proposed
        self._proposed = None
        if verdict.current >= 1:
            self._rescales.append(Rescale(at_s, verdict.current, verdict.target, true_per_s))
        self._rescales = self._rescales[-most:]
        return True

    def scalability(self, least_observations: int, least: float) -> float:
        """Return the share of its expected rate that an additional instance brings, from ``least`` to 1.

        Fitted by least squares: observed rates against size times the rate per instance at the smallest size.
        """
        if len(self._rescales) < least_observations:
            return 1.0
        # Of several at the smallest size, the newest.
        smallest = min(reversed(self._rescales), key=lambda rescale: rescale.before)
        baseline_per_s = smallest.true_per_s / smallest.before
        squares = math.fsum(rescale.before * rescale.before for rescale in self._rescales)
        products = math.fsum(rescale.before * rescale.true_per_s for rescale in self._rescales)
        if not baseline_per_s > 0:
            return 1.0
        share = max(least, min(1.0, products / (squares * baseline_per_s)))
        return math.ceil(round(100 * share, 9)) / 100

    def to_json(self) -> JSON:
        rescales = [[rescale.at_s, rescale.before, rescale.after, rescale.true_per_s] for rescale in self._rescales]
        return [rescales, None if self._proposed is None else list(self._proposed)]

    @classmethod
    def from_json(cls, saved: JSON) -> RescaleHistory:
        rescales, proposed = saved
        made = cls(
            [
                Rescale(float(at_s), int(before), int(after), float(true_per_s))
                for at_s, before, after, true_per_s in rescales
            ]
        )
        made._proposed = None if proposed is None else (float(proposed[0]), float(proposed[1]))
        return made


@dataclass(slots=True)
class _Vertex:
    """What is remembered of one operator."""

    history: RescaleHistory = field(default_factory=RescaleHistory)
    delay: ScaleInDelay = field(default_factory=ScaleInDelay)


@dataclass(frozen=True, slots=True)
class _VertexTarget:
    """What the metrics say about one operator: the size it should have, and whether it is busy within its limits."""

    target: Target
    is_outside: bool = False
    true_per_s: float | None = None


@register
class FlinkAutoscaler(PolicyBase[FlinkAutoscalerSettings]):
    """Keeps operators busy for a target share of the time, with enough to spare to catch up, by averages of long times.

    - The capacity that an operator needs is its target rate over ``utilization_target``, plus what waits and what comes
      during a restart, each over ``catch_up_duration_s``; the target rate follows the graph as in ``ds2``.
    - Nothing is done while every operator that would change is busy within the limits; if one is not, all change.
    - After a start or a rescale it waits for ``stabilization_interval_s`` and then for a full metrics window. Instances
      are removed when fewer have been enough for ``scale_in_interval_s``.

    >>> from headgate.policies import Sample
    >>> from headgate.testing import last_target
    >>> readings = [
    ...     Sample("job", at_s, input_rate_per_s=410, processed_rate_per_s=176, backlog=234 * at_s)
    ...     for at_s in range(0, 1201, 60)
    ... ]
    >>> target = last_target("flink-autoscaler", "latency < 10s", 2, *readings)
    >>> target.instances, target.reason.split("; ")[0]
    (10, '410 records/s at 70%, 68.3/s for a restart and 156/s to catch up need 810/s of 88/s each')
    """

    name = "flink-autoscaler"
    summary = "Flink's own autoscaler: a target utilization and catch-up, by long averages."
    Settings = FlinkAutoscalerSettings

    def __init__(self, settings: FlinkAutoscalerSettings, context: Context) -> None:
        super().__init__(settings, context)
        self.lookback_s = max(DEFAULT_RETENTION_S, 2 * (settings.metrics_window_s + settings.stabilization_interval_s))
        self._vertices: dict[str, _Vertex] = {}

    def decide(self, now: Instant, window: Window) -> Proposal:
        known = {name: instances for name in window.operators if (instances := window.instances(name)) is not None}
        for name in known:
            vertex = self._vertices.setdefault(name, _Vertex())
            change, settings = window.last_change(name), self.settings
            vertex.history.follow(now, change, most=settings.history_count, for_s=settings.history_age_s)
        waiting = {name: self._waiting(now, window, name, instances) for name, instances in known.items()}
        flows = {name: self._flow(now, window, name, instances) for name, instances in known.items()}
        rates, catch_up = self._wanted_rates(window, flows)
        is_catching_up = self._is_catching_up(window, flows)
        found = {
            name: _VertexTarget(target)
            if (target := waiting[name]) is not None
            else self._size(now, name, instances, flows[name], (rates[name], catch_up[name]), is_catching_up)
            for name, instances in known.items()
        }
        return Proposal(self._together(now, window, known, found))

    # -------------------------------------------------------------------------------------------------------- metrics

    def _waiting(self, now: Instant, window: Window, operator: str, instances: Instances) -> Target | None:
        """A hold, as long as there is not yet a full window of readings from after the last rescale."""
        newest = _fresh(now, window, operator)
        if newest is None:
            return hold(instances, "no-data", "no fresh reading of what arrives: holding")
        group, settings = window.topology.rescaled_with(operator), self.settings
        changed_s = [at_s for name in group if (at_s := window.settled_since_s(name)) is not None]
        stable_s = max(changed_s, default=window.observations[0].at_s) + settings.stabilization_interval_s
        if now < stable_s:
            self._vertices[operator].delay.clear()
            left = format_duration(stable_s - now)
            return hold(instances, "stabilising", f"started or rescaled lately; what is measured counts in {left}")
        first = window.first_sample(operator, stable_s) or newest
        full_s = first.at_s + settings.metrics_window_s
        if now < full_s:
            reason = f"rates are averaged over {format_duration(settings.metrics_window_s)}"
            return hold(instances, "collecting", f"{reason}, which are full in {format_duration(full_s - now)}")
        return None

    def _flow(self, now: Instant, window: Window, operator: str, instances: Instances) -> Flow:
        if _fresh(now, window, operator) is None:
            return Flow()
        settings = self.settings
        since_s = now - settings.metrics_window_s
        flow = flow_over(window, operator, instances, since_s)
        observed = caught_up_rate_per_s(
            window.samples(operator, since_s),
            lag_s=settings.observe_lag_threshold_s,
            least_readings=settings.observe_least_readings,
        )
        return flow.slowed_to(observed, instances.ready, tolerance=settings.observe_switch_threshold)

    def _wanted_rates(
        self, window: Window, flows: Mapping[str, Flow]
    ) -> tuple[dict[str, float | None], dict[str, float | None]]:
        """What each operator has to take in, and how much more to catch up."""
        sources, duration_s = window.topology.sources, self.settings.catch_up_duration_s
        rates = carried_on(window.topology, flows, {name: flows.get(name, Flow()).arrived_per_s for name in sources})
        own = {name: (flow.backlog or 0.0) / duration_s if duration_s else 0.0 for name, flow in flows.items()}
        return rates, carried_on(window.topology, flows, own)

    def _is_catching_up(self, window: Window, flows: Mapping[str, Flow]) -> bool:
        """Whether so much waits that it takes long at the rate at which sources are read.

        What waits before an operator in the middle has been read by its sources and counts for them: an engine may say
        where a backlog comes from, and the original knows only that it waits at the source.
        """
        for name in window.topology.sources:
            done_per_s = flows.get(name, Flow()).done_per_s
            group = window.topology.rescaled_with(name)
            waiting = sum(flows[other].backlog or 0.0 for other in group if other in flows)
            if done_per_s is not None and waiting > done_per_s * self.settings.backlog_lag_threshold_s:
                return True
        return False

    # ---------------------------------------------------------------------------------------------------------- sizes

    def _size(
        self,
        now: Instant,
        operator: str,
        instances: Instances,
        flow: Flow,
        rates: tuple[float | None, float | None],
        is_catching_up: bool,
    ) -> _VertexTarget:
        rate, catch_up = rates
        numbers: dict[str, Number] = {
            "rate_per_s": rate,
            "catch_up_per_s": catch_up,
            "true_rate_per_s": flow.true_per_s,
        }
        if rate is None or catch_up is None or (flow.true_per_s is None and rate + catch_up > 0):
            reason = "what has to be taken in, or how fast instances are, is not known: holding"
            return _VertexTarget(hold(instances, "no-data", reason, numbers))
        settings = self.settings
        true = flow.true_per_s or math.inf
        needed = self._capacity(rate, catch_up, settings.utilization_target, with_restart=True)
        exact = needed / true / self._scalability(operator)
        fewest = instances.planned * (1 - settings.scale_in_max_share)
        most = instances.planned * (1 + settings.scale_out_max_share)
        wanted = max(1, math.ceil(round(min(most, max(fewest, exact)), 9)))
        numbers |= {"capacity_per_s": needed, "needed": wanted}
        reason = self._reason(rate, catch_up, needed, flow.true_per_s)
        vertex, total = self._vertices[operator], true * max(1, instances.ready)
        if wanted >= instances.planned:
            vertex.delay.clear()
        if wanted == instances.planned:
            return _VertexTarget(hold(instances, "as-planned", reason, numbers))
        is_outside = self._is_outside(total, rate, catch_up, is_catching_up=is_catching_up)
        if wanted > instances.planned:
            if (blocked := self._blocked(operator, instances, total, reason, numbers)) is not None:
                return _VertexTarget(blocked)
            return _VertexTarget(Target(wanted, "needs-more", reason, numbers), is_outside, total)
        return self._delayed(
            now, operator, instances, Target(wanted, "needs-fewer", reason, numbers), is_outside, total
        )

    def _capacity(self, rate: float, catch_up: float, utilization: float, *, with_restart: bool) -> float:
        """Records per second that an operator must be able to get through to be so busy."""
        settings = self.settings
        if utilization <= 0:
            return math.inf
        restart = 0.0
        if with_restart and settings.catch_up_duration_s:
            restart = rate * settings.restart_time_s / settings.catch_up_duration_s
        return catch_up + restart + rate / min(1.0, utilization)

    def _is_outside(self, true_per_s: float, rate: float, catch_up: float, *, is_catching_up: bool) -> bool:
        target, boundary = self.settings.utilization_target, self.settings.utilization_boundary
        # While a backlog is worked off, being busy all the time is right, and nothing is removed.
        upper, lower = (1.0, 0.0) if is_catching_up else (target + boundary, max(0.0, target - boundary))
        too_slow = true_per_s < self._capacity(rate, catch_up, upper, with_restart=False)
        return too_slow or true_per_s > self._capacity(rate, catch_up, lower, with_restart=True)

    def _scalability(self, operator: str) -> float:
        settings = self.settings
        if not settings.observed_scalability:
            return 1.0
        history = self._vertices[operator].history
        return history.scalability(settings.scalability_least_observations, settings.scalability_least)

    def _blocked(
        self, operator: str, instances: Instances, true_per_s: float, reason: str, numbers: dict[str, Number]
    ) -> Target | None:
        """A hold, where the last growth was to this size and has brought too little."""
        last = self._vertices[operator].history.newest
        if not self.settings.block_ineffective or last is None or last.after != instances.planned:
            return None
        effect = last.effect(true_per_s)
        if effect is None or effect >= self.settings.effectiveness_threshold:
            return None
        brought = f"going from {last.before} to {last.after} brought {plain(100 * effect)}% of what was expected"
        return hold(
            instances, "ineffective", f"{reason}; but {brought}: growing no further", {**numbers, "effect": effect}
        )

    def _delayed(
        self, now: Instant, operator: str, instances: Instances, fewer: Target, is_outside: bool, true_per_s: float
    ) -> _VertexTarget:
        """What is left of a smaller size after the wait that each has."""
        delay, interval_s = self._vertices[operator].delay, self.settings.scale_in_interval_s
        allowed = delay.allowed(now, interval_s, fewer.instances, is_outside)
        if allowed is None:
            waited, interval = format_duration(delay.waited_s(now)), format_duration(interval_s)
            reason = f"{fewer.reason}; fewer have been enough for {waited} of {interval}"
            return _VertexTarget(hold(instances, "waiting", reason, fewer.numbers))
        # Whether the limits were exceeded counts as of when the largest size was found.
        largest, is_outside = allowed
        if largest > fewer.instances:
            reason = f"{fewer.reason}; {largest} were needed within the last {format_duration(interval_s)}"
            fewer = Target(largest, fewer.code, reason, fewer.numbers)
        # An idle job has no rate to remember: anything is fast enough for nothing.
        return _VertexTarget(fewer, is_outside, true_per_s if math.isfinite(true_per_s) else None)

    def _reason(self, rate: float, catch_up: float, needed: float, true: float | None) -> str:
        restart = needed - catch_up - rate / self.settings.utilization_target
        if true is None:
            return "nothing arrives and nothing waits"
        at = f"{plain(rate)} records/s at {plain(100 * self.settings.utilization_target)}%"
        return (
            f"{at}, {plain(restart)}/s for a restart and {plain(catch_up)}/s to catch up need {plain(needed)}/s of "
            f"{plain(true)}/s each"
        )

    def _together(
        self, now: Instant, window: Window, known: Mapping[str, Instances], found: Mapping[str, _VertexTarget]
    ) -> dict[str, Target]:
        """All changes of operators that are rescaled together, if one of them is called for; else none."""
        targets: dict[str, Target] = {}
        for name, vertex in found.items():
            planned = known[name].planned
            group = [found[other] for other in window.topology.rescaled_with(name) if other in found]
            if vertex.target.instances == planned:
                targets[name] = vertex.target
                continue
            if not any(other.is_outside for other in group):
                reason = f"{vertex.target.reason}; it is busy within the limits, so that can wait"
                targets[name] = hold(known[name], "within-limits", reason, vertex.target.numbers)
                continue
            targets[name] = vertex.target
            if vertex.true_per_s is not None:
                self._vertices[name].history.propose(now, vertex.true_per_s)
        return targets

    # ---------------------------------------------------------------------------------------------------- saved state

    def _state(self) -> dict[str, JSON]:
        return {
            "vertices": {
                name: [vertex.history.to_json(), vertex.delay.to_json()] for name, vertex in self._vertices.items()
            }
        }

    def _restore_state(self, state: Mapping[str, JSON]) -> None:
        self._vertices = {
            str(name): _Vertex(RescaleHistory.from_json(history), ScaleInDelay.from_json(delay))
            for name, (history, delay) in state["vertices"].items()
        }


def _fresh(now: Instant, window: Window, operator: str) -> Sample | None:
    """The newest reading, if it is not old and tells what arrives."""
    newest = window.sample(operator)
    if newest is None or newest.input_rate_per_s is None or now - newest.at_s > STALE_AFTER_S:
        return None
    return newest

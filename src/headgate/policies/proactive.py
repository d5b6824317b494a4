"""proactive: learn how load and size make the objective, then size for the load to come (giannakopoulos §3.3)."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from statistics import NormalDist
from typing import Annotated

import numpy as np
from pydantic import Field

from headgate.core.types import JSON, Event, Instances, Instant, Number, Sample, Target
from headgate.core.units import format_duration, plain
from headgate.core.window import Window
from headgate.forecast.base import AnyForecaster, EvenGrid, FloatArray, make_forecaster
from headgate.policies.capacity.change_detection import ChangeDetector
from headgate.policies.capacity.performance import PerformanceModel, Point, fit_performance
from headgate.policies.capacity.stability import check_stability
from headgate.policies.frame.base import Context, GuardSettings, OperatorPolicy, hold, register
from headgate.policies.frame.readings import is_queueing, is_steady, objective_status, startup_s, work_pressure
from headgate.policies.frame.recommendations import Recommendations
from headgate.policies.frame.settings import Seconds
from headgate.policies.reactive import Reactive, ReactiveSettings

Level = Annotated[float, Field(gt=0, lt=1)]
Pressure = Annotated[float, Field(gt=0)]
Period = Annotated[Seconds, Field(gt=0)]

_SCATTER = 3.0
"""A single reading within this many errors of the model proves nothing."""


_MOST_READINGS = 3000
_LONGEST_AHEAD = 4
"""Late readings need a longer forecast, up to this multiple of the horizon."""


class SizedBy(StrEnum):
    """What the sizes of optimal control are made from."""

    BOTH = "both"
    CAPACITY = "capacity"
    MODEL = "model"


class ControlMode(StrEnum):
    EXPLORATION = "exploration"
    OPTIMAL_CONTROL = "optimal-control"


@dataclass(slots=True)
class Explored:
    """Learned state of one operator; with a model it is in optimal control, without one in exploration."""

    grid: EvenGrid
    forecaster: AnyForecaster
    checked_s: Instant
    """When stability was last checked, or exploration began."""
    seen_s: Instant | None = None
    """Time of the newest reading learned from."""
    learned_s: Instant | None = None
    """Time of the newest measurement learned from; a batch may appear in many readings."""
    needed: Recommendations = field(default_factory=Recommendations)
    """Sizes that were needed recently."""
    points: deque[Point] = field(default_factory=lambda: deque(maxlen=_MOST_READINGS))
    violated: bool = False
    """Whether the objective was violated in this exploration, so that the capacity of an instance is known."""
    busiest: float = 0.0
    """The highest utilisation of this exploration."""
    model: PerformanceModel | None = None
    detector: ChangeDetector | None = None

    @property
    def mode(self) -> ControlMode:
        return ControlMode.EXPLORATION if self.model is None else ControlMode.OPTIMAL_CONTROL

    def loads_ahead(self, now: Instant, horizon_s: float, certainty: float) -> FloatArray:
        """Return the predicted loads up to a horizon; empty while too little is known."""
        step_s, completed = self.grid.step_s, self.grid.completed
        if completed is None:
            return np.empty(0)
        passed = max(0, round((now - completed * step_s) / step_s))
        ahead = math.ceil(horizon_s / step_s)
        forecast = self.forecaster.forecast(min(passed, _LONGEST_AHEAD * ahead) + ahead)
        if forecast is None:
            return np.empty(0)
        loads: FloatArray = np.maximum(0.0, forecast.quantile(certainty)[-ahead:])
        return loads

    def to_json(self) -> dict[str, JSON]:
        return {
            "grid": self.grid.snapshot(),
            "forecaster": dict(self.forecaster.snapshot()),
            "checked_s": self.checked_s,
            "seen_s": self.seen_s,
            "learned_s": self.learned_s,
            "needed": self.needed.to_json(),
            "points": [list(point) for point in self.points],
            "violated": self.violated,
            "busiest": self.busiest,
            "model": None if self.model is None else self.model.to_json(),
            "detector": None if self.detector is None else self.detector.snapshot(),
        }

    def restore(self, saved: Mapping[str, JSON], detector: Callable[[PerformanceModel], ChangeDetector]) -> None:
        """Restore saved state; ``detector`` makes the change detector of a model."""
        self.grid.restore(saved["grid"])
        self.forecaster.restore(saved["forecaster"])
        self.checked_s = float(saved["checked_s"])
        self.seen_s = None if saved["seen_s"] is None else float(saved["seen_s"])
        self.learned_s = None if saved["learned_s"] is None else float(saved["learned_s"])
        self.needed = Recommendations.from_json(saved["needed"])
        self.points.extend(Point(float(rate), int(size), float(pressure)) for rate, size, pressure in saved["points"])
        self.violated, self.busiest = bool(saved["violated"]), float(saved.get("busiest", 0.0))
        if saved["model"] is not None:
            self.model = PerformanceModel.from_json(saved["model"])
            self.detector = detector(self.model)
            self.detector.restore(saved["detector"])


class ProactiveSettings(ReactiveSettings):
    check_every_s: Period = 600.0
    """How often exploration tries whether what it has learned is enough."""
    least_readings: Annotated[int, Field(ge=10)] = 60
    """Steady readings without which that is not tried."""
    resamples: Annotated[int, Field(ge=10)] = 250
    """Refits of the model by which its stability is judged (the document's k)."""
    stability_threshold: Level = 0.5
    """Largest spread of predictions that counts as stable, as a share of the objective's bound (the document's λ: 0.05
    of slow records where 0.1 are allowed). Predictions reach twice the bound at most, so no spread is above 1."""
    least_utilization: Level | None = None
    """Exploration also ends without a violation once instances were this busy, as that shows what one can carry;
    without it a violation is needed, as in the document."""
    sizes_by: SizedBy = SizedBy.BOTH
    """In optimal control: the performance model and the capacity of an instance, or only one of them."""
    forecaster: str = "linear-trend"
    """Who predicts the load; with a setting of its own as ``linear-trend:window=20``."""
    horizon_s: Period = 60.0
    """How far ahead the load is predicted; further where instances were seen to take longer than that to start."""
    forecast_step_s: Period = 5.0
    """Time between two predicted loads."""
    certainty: Level = 0.98
    """The probability with which a size must hold, by the spread of the forecast and by the error of the model; the
    document takes the middle, 0.5."""
    abrupt_threshold: Pressure = 0.8
    """A prediction that is off by more than this share of the bound shows a sudden change (the document's 0.08 of
    0.1)."""
    gradual_threshold: Pressure = 30.0
    """How far predictions may be off in sum, in errors of the model, before that shows a slow change."""
    scale_in_window_s: Seconds = 300.0
    """In optimal control it shrinks to the largest size that was needed within this time; 0, as in the document, to the
    newest."""
    standby: Annotated[int, Field(ge=0)] = 0
    """Instances beyond the fewest that hold, as a reserve that is already warm."""


@register
class Proactive(OperatorPolicy[ProactiveSettings]):
    """Explores as ``reactive`` does until it knows the job, then acts ahead of the load while what it knows holds.

    - Exploration: every steady reading is stored. Now and then a performance model is fitted; when its predictions are
      stable, at the readings and up to what the present size can carry, optimal control begins.
    - Optimal control: the fewest instances whose predicted pressure, with the model's error on top, stays within the
      objective for the present load and every predicted one, and that carry these loads with what has piled up. A
      violation that is more than scatter, or that the model tells too, is answered as ``reactive`` would. Nothing is
      removed while a queue is being worked off, or that was needed within ``scale_in_window_s``.
    - A prediction that is suddenly far off, or has come to be off a little all the time, means that the job has
      changed: back to exploration, with a fresh data set.

    The document compares the measured pressure with that of the *predicted* load, so that a bad forecast counts as a
    change of the job; here with that of the load that came. Readings are discarded after a change of size until the job
    has recovered, which is detected (see ``readings.is_steady``), where the document waits four minutes.

    >>> from headgate.core.objective import parse_objective
    >>> from headgate.core.topology import Topology
    >>> from headgate.policies import make_policy
    >>> policy = make_policy("proactive", Context(parse_objective("slow records < 10%"), Topology.single()))
    >>> policy.mode("job")
    <ControlMode.EXPLORATION: 'exploration'>
    """

    name = "proactive"
    summary = "Learns how load and size make the objective, then sizes ahead of the load."
    Settings = ProactiveSettings
    state_version = 2
    # The gains are the document's α and β; it plans once a minute, so it removes no more often than that.
    guards = GuardSettings(gain_out=0.9, gain_in=0.4, in_after_out_s=60.0, in_after_in_s=60.0)

    def __init__(self, settings: ProactiveSettings, context: Context) -> None:
        super().__init__(settings, context)
        self._reactive = Reactive(settings, context)
        self.lookback_s = self._reactive.lookback_s
        self._operators: dict[str, Explored] = {}
        self._events: list[Event] = []
        self._margins = NormalDist().inv_cdf(settings.certainty)
        make_forecaster(settings.forecaster)  # An unknown name is reported at once.

    def mode(self, operator: str) -> ControlMode:
        known = self._operators.get(operator)
        return ControlMode.EXPLORATION if known is None else known.mode

    def model(self, operator: str) -> PerformanceModel | None:
        """The performance model in use, in optimal control."""
        known = self._operators.get(operator)
        return None if known is None else known.model

    def take_events(self) -> Sequence[Event]:
        taken, self._events = self._events, []
        return taken

    def size(self, now: Instant, window: Window, operator: str, instances: Instances, sample: Sample) -> Target:
        known = self._known(operator, now)
        if known.seen_s is None or sample.at_s > known.seen_s:
            known.seen_s = sample.at_s
            self._take_in(now, window, operator, instances, sample)
        if known.model is None and now - known.checked_s >= self.settings.check_every_s:
            self._check(now, operator, instances, sample)
        target = (
            self._reactive.size(now, window, operator, instances, sample)
            if known.model is None
            else self._control(now, window, operator, instances, sample)
        )
        return replace(target, numbers={**target.numbers, "mode": known.mode.value})

    # ------------------------------------------------------------------------------------------------------- readings

    def _known(self, operator: str, now: Instant) -> Explored:
        known = self._operators.get(operator)
        if known is None:
            known = self._operators[operator] = Explored(*self._fresh_forecaster(), checked_s=now)
        elif max(known.checked_s, known.seen_s or now) > now:
            # What was learned comes from a run with another clock: the past of its load is not the past of this one.
            known.grid, known.forecaster = self._fresh_forecaster()
            known.checked_s, known.seen_s, known.learned_s = now, None, None
        return known

    def _fresh_forecaster(self) -> tuple[EvenGrid, AnyForecaster]:
        return EvenGrid(self.settings.forecast_step_s), make_forecaster(self.settings.forecaster)

    def _take_in(self, now: Instant, window: Window, operator: str, instances: Instances, sample: Sample) -> None:
        known, rate = self._operators[operator], sample.input_rate_per_s
        if rate is None:
            return
        for value in known.grid.add(sample.at_s, rate):
            known.forecaster.observe(value)
        pressure = work_pressure(self.objective.slo, sample)
        if pressure is None or not math.isfinite(pressure) or rate <= 0 or instances.ready < 1:
            return
        if sample.measured_s == known.learned_s or not is_steady(window, operator, sample):
            return
        known.learned_s = sample.measured_s
        if known.model is None:
            known.points.append(Point(rate, instances.ready, pressure))
            known.violated = known.violated or pressure >= 1
            known.busiest = max(known.busiest, sample.utilization or 0.0)
        else:
            point = Point(rate, instances.ready, pressure)
            self._judge(now, operator, known.model, point, queueing=is_queueing(sample))

    # ---------------------------------------------------------------------------------------------------- exploration

    def _check(self, now: Instant, operator: str, instances: Instances, sample: Sample) -> None:
        """Switch to optimal control if a model of the readings can be relied on (Alg. 3 to 5)."""
        known, settings = self._operators[operator], self.settings
        known.checked_s = now
        capacity, rate = self._reactive.capacity(operator), sample.input_rate_per_s
        if len(known.points) < settings.least_readings:
            missing = f"{len(known.points)} steady readings, {settings.least_readings} are needed"
        elif capacity is None or not (known.violated or self._was_busy(known)):
            missing = "the objective was not violated yet, so what an instance can carry is not known"
        elif rate is None or instances.ready < 1:
            missing = "the present load is not known"
        else:
            model, points = fit_performance(list(known.points), capacity.rate_per_s)
            stability = check_stability(
                model,
                points,
                rate,
                instances.ready,
                threshold=settings.stability_threshold,
                resamples=settings.resamples,
                seed=self.seed,
            )
            numbers: dict[str, Number] = {
                "readings": model.readings,
                "outliers": model.outliers,
                "degree": model.polynomial.degree,
                "error": model.error,
                "spread_at_readings": stability.at_readings,
                "spread_up_to_capacity": stability.up_to_capacity,
            }
            text = (
                f"a model of degree {model.polynomial.degree} from {model.readings} readings spreads by "
                f"{plain(stability.at_readings)} at them and by {plain(stability.up_to_capacity)} up to what "
                f"{instances.ready} can carry, where {plain(settings.stability_threshold)} is allowed"
            )
            if stability.is_stable:
                known.model, known.detector = model, self._detector(model)
                known.points.clear()
                self._tell(now, "mode-switched", f"{operator}: exploration → optimal control; {text}", numbers)
            else:
                self._tell(now, "stability-check", f"{operator}: exploration goes on; {text}", numbers)
            return
        self._tell(now, "stability-check", f"{operator}: exploration goes on; {missing}", {})

    def _was_busy(self, known: Explored) -> bool:
        least = self.settings.least_utilization
        return least is not None and known.busiest >= least

    def _detector(self, model: PerformanceModel) -> ChangeDetector:
        return ChangeDetector(self.settings.abrupt_threshold, self.settings.gradual_threshold, model.error)

    def _tell(self, now: Instant, kind: str, detail: str, numbers: Mapping[str, Number]) -> None:
        self._events.append(Event(now, kind, detail, numbers))

    # ------------------------------------------------------------------------------------------------ optimal control

    def _judge(self, now: Instant, operator: str, model: PerformanceModel, point: Point, *, queueing: bool) -> None:
        """Back to exploration if the model no longer tells what is measured."""
        known = self._operators[operator]
        predicted = float(model.predict([point.rate_per_s], point.instances)[0])
        if point.pressure <= predicted and not model.knows(point.rate_per_s, point.instances):
            return  # Away from its readings the model gives a bound, which was met.
        if predicted >= 1 and point.pressure >= 1:
            return  # As predicted; by how much a bound is missed depends on how long the queue has grown.
        at_the_edge = point.rate_per_s >= self.settings.headroom * point.instances * model.capacity_per_s
        if queueing and at_the_edge:
            return  # There a queue may or may not build up: that is no news about the job.
        assert known.detector is not None
        kind = known.detector.update(point.pressure - predicted)
        if kind is None:
            return
        known.model = known.detector = None
        known.points.clear()
        known.violated, known.busiest = False, 0.0
        known.checked_s = now
        self._reactive.forget(operator)
        numbers: dict[str, Number] = {
            "change": kind,
            "measured": point.pressure,
            "predicted": predicted,
            "rate_per_s": point.rate_per_s,
            "instances": point.instances,
        }
        text = (
            f"{kind} change: at {plain(point.rate_per_s)} records/s and {point.instances} instances "
            f"{plain(100 * point.pressure)}% of the bound are used up, {plain(100 * predicted)}% were predicted"
        )
        self._tell(now, "mode-switched", f"{operator}: optimal control → exploration; {text}", numbers)

    def _control(self, now: Instant, window: Window, operator: str, instances: Instances, sample: Sample) -> Target:
        """The fewest instances that hold for the load now and to come (Alg. 6)."""
        known, settings, rate = self._operators[operator], self.settings, sample.input_rate_per_s
        assert known.model is not None
        text, numbers = objective_status(self.objective.slo, sample)
        violated = self.objective.slo.violated_by(sample)
        if rate is None or violated is None:
            return hold(instances, "no-data", f"{text}, or the rate of arrivals is not: holding", numbers)
        horizon_s = max(settings.horizon_s, startup_s(window, operator, 0.0) + settings.forecast_step_s)
        ahead = known.loads_ahead(now, horizon_s, settings.certainty)
        loads = np.append(ahead, rate)
        queued_per_s = self._queued_per_s(sample)
        fewest = self._fewest(operator, known.model, loads, queued_per_s)
        target = fewest + settings.standby
        expected = float(known.model.predict(loads, fewest).max())
        numbers |= {
            "rate_per_s": rate,
            "highest_rate_ahead_per_s": float(ahead.max()) if len(ahead) else None,
            "queued_per_s": queued_per_s,
            "needed": fewest,
            "predicted_pressure": expected,
            "residual": None if known.detector is None else known.detector.last,
        }
        queue = f" and {plain(queued_per_s)}/s of a queue" if queued_per_s else ""
        reason = (
            f"up to {plain(float(loads.max()))} records/s within {format_duration(horizon_s)}{queue} need {fewest}, "
            f"which would use up {plain(100 * expected)}% of the objective"
        )
        if settings.standby:
            reason = f"{reason}, and {settings.standby} stand by"
        lately = known.needed.largest(now, settings.scale_in_window_s, target, instances.planned)
        if violated and self._is_to_be_answered(known.model, instances, sample):
            answer = self._reactive.size(now, window, operator, instances, sample)
            if answer.instances > target:
                return replace(answer, reason=f"{answer.reason}; {reason}", numbers={**numbers, **answer.numbers})
        if target == instances.planned:
            return hold(instances, "as-planned", reason, numbers)
        if target > instances.planned:
            return Target(target, "ahead-of-load", reason, numbers)
        if violated or not is_steady(window, operator, sample):
            return hold(instances, "recovering", f"{reason}; none is removed before the job has recovered", numbers)
        if lately > target:
            reason = f"{reason}; {lately} were needed within the last {format_duration(settings.scale_in_window_s)}"
        if lately >= instances.planned:
            return hold(instances, "needed-lately", reason, numbers)
        return Target(lately, "fewer-hold", reason, numbers)

    def _is_to_be_answered(self, model: PerformanceModel, instances: Instances, sample: Sample) -> bool:
        """Whether a violation is more than scatter about a load that this size keeps, by what the model says of it."""
        pressure, rate = work_pressure(self.objective.slo, sample), sample.input_rate_per_s
        if pressure is None or rate is None or instances.ready < 1:
            return True
        predicted = float(model.predict([rate], instances.ready)[0])
        return predicted >= 1 or pressure - predicted > _SCATTER * model.error

    def _queued_per_s(self, sample: Sample) -> float:
        """What has to be got through on top to work off a queue in time; what its batch would hold anyway is none."""
        if not self.settings.drain_within_s or not sample.backlog or sample.input_rate_per_s is None:
            return 0.0
        in_batches_s = (sample.trigger_interval_s or 0.0) + (sample.processing_time_s or 0.0)
        queue = sample.backlog - sample.input_rate_per_s * in_batches_s
        return max(0.0, float(queue)) / self.settings.drain_within_s

    def _fewest(self, operator: str, model: PerformanceModel, loads: FloatArray, queued_per_s: float) -> int:
        """The least size that keeps the objective, by the model, and carries all there is, by what an instance does."""
        allowed = 1 - self._margins * model.error
        lowest, highest = self.objective.bounds_of(operator, self.topology)
        first = max(1, lowest)
        if self.settings.sizes_by is not SizedBy.MODEL:
            first = max(first, math.ceil(round((float(loads.max()) + queued_per_s) / model.capacity_per_s, 9)))
        for size in range(first, highest):
            if self.settings.sizes_by is SizedBy.CAPACITY or bool(np.all(model.predict(loads, size) < allowed)):
                return size
        return highest

    # ---------------------------------------------------------------------------------------------------- saved state

    def _state(self) -> dict[str, JSON]:
        return {
            "reactive": dict(self._reactive.snapshot()),
            "operators": {name: known.to_json() for name, known in self._operators.items()},
        }

    def _restore_state(self, state: Mapping[str, JSON]) -> None:
        operators = {}
        for name, saved in state["operators"].items():
            operators[str(name)] = Explored(*self._fresh_forecaster(), checked_s=0.0)
            operators[str(name)].restore(saved, self._detector)
        self._reactive.restore(state["reactive"])
        self._operators = operators

"""proactive: learn how load and size make the objective, then size for the load to come (giannakopoulos §3.3)."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from statistics import NormalDist
from typing import Annotated

import numpy as np
from pydantic import Field

from headgate.core.types import JSON, Event, Instances, Instant, Number, Sample, Target
from headgate.core.units import format_duration
from headgate.core.window import Window
from headgate.forecast.base import AnyForecaster, make_forecaster
from headgate.forecast.grid import EvenGrid
from headgate.policies.capacity.change_detection import ChangeDetector
from headgate.policies.capacity.performance import FloatArray, PerformanceModel, Point, fit_performance
from headgate.policies.capacity.stability import check_stability
from headgate.policies.frame.base import Context, OperatorPolicy, hold, register
from headgate.policies.frame.readings import is_queueing, is_steady, plain, told_by, work_pressure
from headgate.policies.frame.settings import Seconds
from headgate.policies.frame.stabilisers import GuardSettings
from headgate.policies.reactive import Reactive, ReactiveSettings

Level = Annotated[float, Field(gt=0, lt=1)]
Pressure = Annotated[float, Field(gt=0)]
Period = Annotated[Seconds, Field(gt=0)]

_MOST_READINGS = 3000
_SCATTER = 3.0
"""Errors of the model that a single reading may be off by without telling anything."""
_LONGEST_AHEAD = 4
"""A forecast from readings that are late reaches further, but at most so many times the horizon."""


class ProactiveSettings(ReactiveSettings):
    check_every_s: Period = 600.0
    """How often exploration tries whether what it has learned is enough."""
    least_readings: Annotated[int, Field(ge=10)] = 60
    """Steady readings without which that is not tried."""
    resamples: Annotated[int, Field(ge=10)] = 250
    """Refits of the model by which its stability is judged (the document's k)."""
    stability_threshold: Pressure = 0.5
    """Largest spread of predictions that counts as stable, as a share of the objective's bound (the document's λ: 0.05
    of slow records where 0.1 are allowed)."""
    forecaster: str = "linear-trend"
    """Who predicts the load."""
    horizon_s: Period = 60.0
    """How far ahead the load is predicted; not less than an instance takes to start."""
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
    standby: Annotated[int, Field(ge=0)] = 0
    """Instances beyond the fewest that hold, as a reserve that is already warm."""


class Mode(StrEnum):
    EXPLORATION = "exploration"
    OPTIMAL_CONTROL = "optimal-control"


@dataclass(slots=True)
class _Operator:
    """What is known about one operator; with a model it is in optimal control, without one in exploration."""

    grid: EvenGrid
    forecaster: AnyForecaster
    checked_s: Instant
    """When stability was last checked, or exploration began."""
    seen_s: Instant | None = None
    """The newest reading that was taken in."""
    learned_s: Instant | None = None
    """The newest measurement that was learned from: of a batch there may be many readings."""
    points: deque[Point] = field(default_factory=lambda: deque(maxlen=_MOST_READINGS))
    violated: bool = False
    """Whether the objective was violated in this exploration, so that what an instance carries is known."""
    model: PerformanceModel | None = None
    detector: ChangeDetector | None = None

    @property
    def mode(self) -> Mode:
        return Mode.EXPLORATION if self.model is None else Mode.OPTIMAL_CONTROL


@register
class Proactive(OperatorPolicy[ProactiveSettings]):
    """Explores as ``reactive`` does until it knows the job, then acts ahead of the load while what it knows holds.

    - Exploration: every steady reading is kept. Now and then a performance model is fitted; when its predictions are
      stable, at the readings and up to what the present size can carry, optimal control begins.
    - Optimal control: the fewest instances whose predicted pressure, with the model's error on top, stays within the
      objective for the present load and every predicted one. A violation that is more than scatter is answered as
      ``reactive`` would, and nothing is removed while a queue is being worked off.
    - A prediction that is suddenly far off, or has come to be off a little all the time, means that the job has
      changed: back to exploration, with a fresh data set.

    The document compares the measured pressure with that of the *predicted* load, so that a bad forecast counts as a
    change of the job; here with that of the load that came. Readings are discarded after a change of size until the job
    has recovered, which is detected (see ``readings.is_steady``), where the document waits four minutes.

    >>> from headgate.core.objective import parse_objective
    >>> from headgate.core.topology import Topology
    >>> from headgate.policies.frame.base import make_policy
    >>> policy = make_policy("proactive", Context(parse_objective("slow records < 10%"), Topology.single()))
    >>> policy.mode("job")
    <Mode.EXPLORATION: 'exploration'>
    """

    name = "proactive"
    summary = "Learns how load and size make the objective, then sizes ahead of the load."
    Settings = ProactiveSettings
    # The gains are the document's α and β; it plans once a minute, so it removes no more often than that.
    guards = GuardSettings(gain_out=0.9, gain_in=0.4, in_after_out_s=60.0, in_after_in_s=60.0)

    def __init__(self, settings: ProactiveSettings, context: Context) -> None:
        super().__init__(settings, context)
        self._reactive = Reactive(settings, context)
        self.lookback_s = self._reactive.lookback_s
        self._operators: dict[str, _Operator] = {}
        self._events: list[Event] = []
        self._margins = NormalDist().inv_cdf(settings.certainty)
        make_forecaster(settings.forecaster)  # A name that does not exist is told at once.

    def mode(self, operator: str) -> Mode:
        known = self._operators.get(operator)
        return Mode.EXPLORATION if known is None else known.mode

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

    def _known(self, operator: str, now: Instant) -> _Operator:
        known = self._operators.get(operator)
        if known is None:
            known = self._operators[operator] = _Operator(*self._fresh_forecaster(), checked_s=now)
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
        elif capacity is None or not known.violated:
            missing = "the objective was not violated yet, so what an instance can carry is not known"
        elif rate is None or instances.ready < 1:
            missing = "the present load is not known"
        else:
            model, kept = fit_performance(list(known.points), capacity.rate_per_s)
            stability = check_stability(
                model,
                kept,
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
            told = (
                f"a model of degree {model.polynomial.degree} from {model.readings} readings spreads by "
                f"{plain(stability.at_readings)} at them and by {plain(stability.up_to_capacity)} up to what "
                f"{instances.ready} can carry, where {plain(settings.stability_threshold)} is allowed"
            )
            if stability.is_stable:
                known.model, known.detector = model, self._detector(model)
                known.points.clear()
                self._tell(now, "mode-switched", f"{operator}: exploration → optimal control; {told}", numbers)
            else:
                self._tell(now, "stability-check", f"{operator}: exploration goes on; {told}", numbers)
            return
        self._tell(now, "stability-check", f"{operator}: exploration goes on; {missing}", {})

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
            return  # Away from its readings the model gives a bound, which was kept.
        if predicted >= 1 and point.pressure >= 1:
            return  # As foretold; by how much a bound is missed depends on how long the queue has grown.
        at_the_edge = point.rate_per_s >= self.settings.headroom * point.instances * model.capacity_per_s
        if queueing and at_the_edge:
            return  # There a queue may or may not build up: that is no news about the job.
        assert known.detector is not None
        kind = known.detector.update(point.pressure - predicted)
        if kind is None:
            return
        known.model = known.detector = None
        known.points.clear()
        known.violated = False
        known.checked_s = now
        self._reactive.forget(operator)
        numbers: dict[str, Number] = {
            "change": kind,
            "measured": point.pressure,
            "predicted": predicted,
            "rate_per_s": point.rate_per_s,
            "instances": point.instances,
        }
        told = (
            f"{kind} change: at {plain(point.rate_per_s)} records/s and {point.instances} instances "
            f"{plain(100 * point.pressure)}% of the bound are used up, {plain(100 * predicted)}% were predicted"
        )
        self._tell(now, "mode-switched", f"{operator}: optimal control → exploration; {told}", numbers)

    def _control(self, now: Instant, window: Window, operator: str, instances: Instances, sample: Sample) -> Target:
        """The fewest instances that hold for the load now and to come (Alg. 6)."""
        known, settings, rate = self._operators[operator], self.settings, sample.input_rate_per_s
        assert known.model is not None
        told, numbers = told_by(self.objective.slo, sample)
        violated = self.objective.slo.violated_by(sample)
        if rate is None or violated is None:
            return hold(instances, "no-data", f"{told}, or the rate of arrivals is not: holding", numbers)
        ahead = self._loads_ahead(now, known)
        loads = np.append(ahead, rate)
        fewest = self._fewest(known.model, loads)
        target = fewest + settings.standby
        expected = float(known.model.predict(loads, fewest).max())
        numbers |= {
            "rate_per_s": rate,
            "highest_rate_ahead_per_s": float(ahead.max()) if len(ahead) else None,
            "needed": fewest,
            "predicted_pressure": expected,
            "residual": None if known.detector is None else known.detector.last,
        }
        reason = (
            f"up to {plain(float(loads.max()))} records/s within {format_duration(settings.horizon_s)} need {fewest}, "
            f"which would use up {plain(100 * expected)}% of the objective"
        )
        if settings.standby:
            reason = f"{reason}, and {settings.standby} stand by"
        if violated and self._is_unforeseen(known.model, instances, sample):
            answer = self._reactive.size(now, window, operator, instances, sample)
            if answer.instances > target:
                return replace(answer, reason=f"{answer.reason}; {reason}", numbers={**numbers, **answer.numbers})
        if target < instances.planned and (violated or not is_steady(window, operator, sample)):
            return hold(instances, "recovering", f"{reason}; none is removed before the job has recovered", numbers)
        if target == instances.planned:
            return hold(instances, "as-planned", reason, numbers)
        return Target(target, "ahead-of-load" if target > instances.planned else "fewer-hold", reason, numbers)

    def _is_unforeseen(self, model: PerformanceModel, instances: Instances, sample: Sample) -> bool:
        """Whether a violation is more than the scatter about what the model says of this load and size."""
        pressure, rate = work_pressure(self.objective.slo, sample), sample.input_rate_per_s
        if pressure is None or rate is None or instances.ready < 1:
            return True
        return pressure - float(model.predict([rate], instances.ready)[0]) > _SCATTER * model.error

    def _loads_ahead(self, now: Instant, known: _Operator) -> FloatArray:
        """The loads from now on to the horizon; none as long as too little is known to predict any."""
        step_s, completed = self.settings.forecast_step_s, known.grid.completed
        if completed is None:
            return np.empty(0)
        passed = max(0, round((now - completed * step_s) / step_s))
        ahead = math.ceil(self.settings.horizon_s / step_s)
        forecast = known.forecaster.forecast(min(passed, _LONGEST_AHEAD * ahead) + ahead)
        if forecast is None:
            return np.empty(0)
        loads: FloatArray = np.maximum(0.0, forecast.quantile(self.settings.certainty)[-ahead:])
        return loads

    def _fewest(self, model: PerformanceModel, loads: FloatArray) -> int:
        allowed = 1 - self._margins * model.error
        for size in range(self.objective.min_instances, self.objective.max_instances):
            if bool(np.all(model.predict(loads, size) < allowed)):
                return size
        return self.objective.max_instances

    # ---------------------------------------------------------------------------------------------------- saved state

    def _state(self) -> dict[str, JSON]:
        return {
            "reactive": dict(self._reactive.snapshot()),
            "operators": {
                name: {
                    "grid": known.grid.snapshot(),
                    "forecaster": dict(known.forecaster.snapshot()),
                    "checked_s": known.checked_s,
                    "seen_s": known.seen_s,
                    "learned_s": known.learned_s,
                    "points": [list(point) for point in known.points],
                    "violated": known.violated,
                    "model": None if known.model is None else known.model.to_json(),
                    "detector": None if known.detector is None else known.detector.snapshot(),
                }
                for name, known in self._operators.items()
            },
        }

    def _restore_state(self, state: Mapping[str, JSON]) -> None:
        operators = {str(name): self._restored(part) for name, part in state["operators"].items()}
        self._reactive.restore(state["reactive"])
        self._operators = operators

    def _restored(self, state: Mapping[str, JSON]) -> _Operator:
        grid, forecaster = self._fresh_forecaster()
        grid.restore(state["grid"])
        forecaster.restore(state["forecaster"])
        known = _Operator(grid, forecaster, checked_s=float(state["checked_s"]))
        known.seen_s = None if state["seen_s"] is None else float(state["seen_s"])
        known.learned_s = None if state["learned_s"] is None else float(state["learned_s"])
        known.points.extend(Point(float(rate), int(size), float(pressure)) for rate, size, pressure in state["points"])
        known.violated = bool(state["violated"])
        if state["model"] is not None:
            known.model = PerformanceModel.from_json(state["model"])
            known.detector = self._detector(known.model)
            known.detector.restore(state["detector"])
        return known

"""What the planning policies share: time in slots, rates measured per slot, and a plan that is trusted bit by bit.

At the end of a slot the policy reads the rate that arrived in it, lets its planner learn from the slot and asks it for
the sizes of the next. Between slots it holds. Speeds of operators that are not set are measured; until all are known,
and at loads the planner has seen too rarely to be trusted with, a threshold policy acts (russo §5 suggests that).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Annotated, Literal, Self, TypeVar

from pydantic import Field, model_validator

from headgate.core.errors import InputError
from headgate.core.objective import LatencySlo
from headgate.core.types import JSON, Instances, Instant, Number, Proposal, Sample, Target
from headgate.core.units import format_duration, plain
from headgate.core.window import DEFAULT_RETENTION_S, Window
from headgate.policies.frame.base import Context, PolicyBase, hold
from headgate.policies.frame.settings import Seconds, Settings, Share
from headgate.policies.pilot.rescale_downtime import RescaleDowntime
from headgate.policies.planning.model import (
    ApplicationModel,
    Levels,
    Planner,
    RateGrid,
    SlotOutcome,
    Weights,
    longest_path_s,
)
from headgate.policies.threshold import Threshold, ThresholdSettings

Positive = Annotated[float, Field(gt=0)]
LearningRate = Annotated[float, Field(gt=0, le=1)]
Sweeps = Annotated[int, Field(ge=1, le=1000)]

_LEVELS_PER_INSTANCE = 10
"""The default quantum of rates is a tenth of what an instance of the slowest operator serves."""
_MEASURE_SLOTS = 3
"""Slots in which an operator's speed must have been measured before a plan is made with it."""
_MEASURE_WEIGHT = 0.2
_MOVED = 0.1
"""A measured speed that moved by more than this share makes the plan be made anew."""
_ROOM = 0.9
"""Share of what the largest sizes can serve that is planned for when records wait."""
_EARLY_S = 1e-6
_LEAST_RECONFIGURATION = 0.02
"""The least cost of a measured change of size, as a share of that of a violation."""


class SlottedSettings(Settings):
    slot_s: Annotated[Seconds, Field(gt=0)] = 60.0
    """Time between two decisions, over which rates are averaged."""
    service_rate_per_s: Positive | dict[str, Positive] | None = None
    """Records per second that one instance serves, for all operators or by name; measured where it is not given."""
    rate_quantum_per_s: Positive | None = None
    """Width of the levels that a rate is cut into; without it, a tenth of what the slowest instance serves."""
    discount: Annotated[float, Field(ge=0, lt=1)] = 0.99
    """How much a cost counts one slot later (γ)."""
    weight_resources: Share = 0.2
    """Weight of the instances in the cost."""
    weight_reconfiguration: Share = 0.4
    """Weight of a change of size, which pauses the application."""
    weight_violation: Share = 0.4
    """Weight of a slot that violates the objective."""
    reconfiguration: Literal["constant", "measured"] = "constant"
    """``constant``: a change of size costs its weight, as in the document; ``measured``: it costs the violation of that
    share of a slot for which the job stood still in its last changes, and its weight until one was measured."""
    drain_within_s: Seconds = 60.0
    """When records wait, plan for working them off within this time as well; 0 plans for arrivals alone, as the
    document does."""
    trusted_visits: Annotated[int, Field(ge=0)] = 5
    """How often a load must have been seen before the plan acts on it; a threshold policy acts until then."""

    @model_validator(mode="after")
    def _weights_are_whole(self) -> Self:
        try:
            self.weights()
        except InputError as error:
            raise ValueError(str(error)) from error
        return self

    def weights(self) -> Weights:
        return Weights(self.weight_resources, self.weight_reconfiguration, self.weight_violation)


S = TypeVar("S", bound=SlottedSettings)


@dataclass(frozen=True, slots=True)
class SlotReading:
    """What was read of one slot."""

    rates_per_s: Mapping[str, float]
    whole_per_s: float
    """The rate of the application: what all sources get."""
    waiting: Mapping[str, float]
    """Records that wait beyond those of a normal batch."""
    settled: bool
    """All instances were there all the time, so that what else was measured is typical of the sizes."""
    outcome: SlotOutcome


@dataclass(frozen=True, slots=True)
class _Measured:
    """A fading mean."""

    value: float
    count: int

    def joined(self, value: float) -> _Measured:
        weight = max(_MEASURE_WEIGHT, 1 / (self.count + 1))
        return _Measured(self.value + weight * (value - self.value), self.count + 1)


class SlottedPolicy(PolicyBase[S]):
    """A policy that plans in slots; a subclass says with which planner."""

    sees_graph = True

    def __init__(self, settings: S, context: Context) -> None:
        super().__init__(settings, context)
        self.lookback_s = max(DEFAULT_RETENTION_S, 2 * settings.slot_s)
        self._require_operators(settings)
        self._start_up = Threshold(ThresholdSettings(), context)
        self._due_s: Instant | None = None
        self._before: Levels | None = None
        self._behind = False
        """Records were waiting when the slot began, so that what is late in it may be late because of earlier slots."""
        self._speeds: dict[str, _Measured] = {}
        self._shares: dict[str, _Measured] = {}
        self._application: ApplicationModel | None = None
        self._grids: tuple[RateGrid, ...] = ()
        self._planner: Planner | None = None
        self._downtimes = {name: RescaleDowntime() for name in context.topology.operators}
        self._seen: dict[str, Sample] = {}
        """The newest reading of each operator, where downtimes are measured."""

    @abstractmethod
    def _make_planner(self, application: ApplicationModel, grids: tuple[RateGrid, ...]) -> Planner:
        """The planner of this policy; the grids are those that :meth:`_make_grids` gave."""

    def _prepare(self, planner: Planner, grids: tuple[RateGrid, ...], *, is_first: bool) -> None:
        """Called with a planner that is the first, or that took over what was learned because a speed has moved."""

    def _make_grids(self, application: ApplicationModel) -> tuple[RateGrid, ...]:
        """How the rates are cut into levels: here that of the application alone."""
        slowest = min(s / share for s, share in zip(application.service_rates_per_s, application.shares, strict=True))
        return (RateGrid.up_to(application.largest_rate_per_s, quantum_of(self.settings, slowest)),)

    def _rates_planned_on(self, slot: SlotReading) -> tuple[float, ...]:
        """The rates that the grids cut: here that of the application alone."""
        return (slot.whole_per_s,)

    def _draining_per_s(self, slot: SlotReading) -> tuple[float, ...]:
        """What has to be got through beyond the rates above for those who wait."""
        if not self.settings.drain_within_s:
            return (0.0,)
        needed = (waiting / self._share(name) for name, waiting in slot.waiting.items())
        return (max(needed, default=0.0) / self.settings.drain_within_s,)

    def decide(self, now: Instant, window: Window) -> Proposal:
        sizes = {name: size for name in window.operators if (size := window.instances(name)) is not None}
        if self.settings.reconfiguration == "measured":
            self._measure_downtimes(window, sizes)
        due_s = self._due_s
        # A clock that was set back, or the state of a run with another clock, must not stop the decisions.
        if due_s is not None and now < due_s - _EARLY_S and due_s - now <= self.settings.slot_s:
            text = f"sizes are planned once in {format_duration(self.settings.slot_s)}"
            return Proposal({name: hold(size, "between-slots", text) for name, size in sizes.items()})
        slot = self._read(now, window, sizes)
        if slot is None:
            # What comes later does not follow on from what was seen last.
            self._before = None
            text = "no reading of this slot tells the rate of every source: holding"
            return Proposal({name: hold(size, "no-data", text) for name, size in sizes.items()})
        self._due_s = now + self.settings.slot_s
        self._measure(window, slot, sizes)
        self._model()
        return self._plan(now, window, slot, sizes)

    def _plan(self, now: Instant, window: Window, slot: SlotReading, sizes: Mapping[str, Instances]) -> Proposal:
        planner = self._planner
        if planner is None:
            return self._start(now, window, "the speed of the operators is not known yet")
        planned = tuple(sizes[name].planned for name in window.operators)
        rates, draining = self._rates_planned_on(slot), self._draining_per_s(slot)
        levels = tuple(grid.level_of(rate) for grid, rate in zip(self._grids, rates, strict=True))
        if self._before is not None:
            planner.learn(self._before, planned, levels, self._outcome(slot))
        self._before = levels
        load_levels = self._load_levels(levels, rates, draining)
        self._behind = load_levels != levels
        visits = planner.visits(levels)
        if visits < self.settings.trusted_visits:
            text = f"this load was seen {visits} of {self.settings.trusted_visits} times"
            return self._start(now, window, f"{text} needed to trust the plan")
        chosen = planner.choose(load_levels, planned)
        targets = {
            name: self._target(name, slot, visits, planned[index], chosen[index])
            for index, name in enumerate(window.operators)
        }
        return Proposal(self._not_below(targets, now, window, sizes) if self._behind else targets)

    def _not_below(
        self, targets: Mapping[str, Target], now: Instant, window: Window, sizes: Mapping[str, Instances]
    ) -> dict[str, Target]:
        """While records wait nothing is removed, and the threshold policy may add where the plan does not."""
        held = {}
        for name, other in self._start(now, window, "records wait").targets.items():
            target, size = targets[name], sizes[name]
            if other.instances > max(size.planned, target.instances):
                held[name] = other
            elif target.instances < size.planned:
                held[name] = hold(size, "records-wait", f"{target.reason}, but records wait", target.numbers)
            else:
                held[name] = target
        return held

    def _load_levels(self, levels: Levels, rates: Sequence[float], draining: Sequence[float]) -> Levels:
        """The levels to plan for when records wait: what can be carried at most, if it were more.

        A plan gives up on loads that no size carries, since a slot that is lost anyway is cheapest with one instance.
        That is right only where nothing is carried over from one slot to the next.
        """
        if not any(draining):
            return levels
        most = self._largest_loads_per_s()
        loads = [min(rate + more, top) for rate, more, top in zip(rates, draining, most, strict=True)]
        return tuple(grid.level_of(load) for grid, load in zip(self._grids, loads, strict=True))

    def _largest_loads_per_s(self) -> tuple[float, ...]:
        """What the largest sizes carry with some room to spare, for each of the rates that are planned on."""
        return (_ROOM * self._application.largest_rate_per_s,) if self._application else (0.0,)

    def _outcome(self, slot: SlotReading) -> SlotOutcome:
        """What can be learned of the sizes that the slot had."""
        if not slot.settled:
            return SlotOutcome()
        return replace(slot.outcome, violated=None) if self._behind and slot.outcome.violated else slot.outcome

    def _target(self, name: str, slot: SlotReading, visits: int, size: int, chosen: int) -> Target:
        rate = slot.rates_per_s.get(name)
        numbers: dict[str, Number] = {
            "rate_per_s": rate,
            "application_rate_per_s": slot.whole_per_s,
            "waiting": slot.waiting.get(name, 0.0),
            "visits": visits,
            **self._reason(name),
        }
        code = "plan-out" if chosen > size else "plan-in" if chosen < size else "plan-stay"
        verb = "add" if chosen > size else "remove" if chosen < size else "keep"
        what = f"{verb} one" if chosen != size else f"keep {size}"
        text = f"at {plain(slot.whole_per_s)} records/s the cheapest plan is to {what}"
        return Target(chosen, code, text, numbers)

    def _reason(self, operator: str) -> Mapping[str, Number]:
        """Further numbers behind a target."""
        application = self._application
        if application is None:
            return {}
        return {"service_rate_per_s": application.service_rates_per_s[application.operators.index(operator)]}

    def _start(self, now: Instant, window: Window, why: str) -> Proposal:
        """What the threshold policy wants while the plan is not trusted."""
        wanted = self._start_up.decide(now, window).targets
        return Proposal(
            {
                name: replace(target, code="start-up", reason=f"{why}; until then by threshold: {target.reason}")
                for name, target in wanted.items()
            }
        )

    def _read(self, now: Instant, window: Window, sizes: Mapping[str, Instances]) -> SlotReading | None:
        """The slot that ends now; nothing if an operator's size or the rate of a source is not known."""
        if set(sizes) != set(window.operators):
            return None
        since_s = now - self.settings.slot_s + _EARLY_S
        samples = {name: window.samples(name, since_s) for name in window.operators}
        rates = {name: mean for name in samples if (mean := _mean(samples[name], "input_rate_per_s")) is not None}
        # A newest reading that does not tell the rate means that something is wrong now, whatever was read before it.
        if any(name not in rates or samples[name][-1].input_rate_per_s is None for name in self._needed()):
            return None
        settled = all(
            size.pending == 0 and not any(sample.warming for sample in samples[name]) for name, size in sizes.items()
        )
        busy = tuple(_mean(samples[name], "utilization") for name in window.operators)
        whole = sum(rates[name] for name in self.topology.sources)
        waiting = {name: excess for name in rates if (excess := _waiting(samples[name][-1], rates[name])) > 0}
        return SlotReading(rates, whole, waiting, settled, SlotOutcome(self._violated(samples), busy))

    def _needed(self) -> tuple[str, ...]:
        """The operators without whose rate nothing can be planned."""
        return self.topology.sources

    def _violated(self, samples: Mapping[str, Sequence[Sample]]) -> bool | None:
        slo = self.objective.slo
        if isinstance(slo, LatencySlo):
            times_s = {name: _mean(found, "latency_s") for name, found in samples.items()}
            known = {name: time_s for name, time_s in times_s.items() if time_s is not None}
            if len(known) < len(times_s):
                return None
            return float(longest_path_s(self.topology, known)) > slo.bound_s
        answers = [slo.violated_by(found[-1]) if found else None for found in samples.values()]
        return True if True in answers else None if None in answers else False

    def _measure(self, window: Window, slot: SlotReading, sizes: Mapping[str, Instances]) -> None:
        """Take in what one instance serves, and what share of the application's rate each operator sees."""
        if not slot.settled:
            return
        since_s = (self._due_s or 0.0) - 2 * self.settings.slot_s + _EARLY_S
        for name, size in sizes.items():
            speeds = [speed for sample in window.samples(name, since_s) if (speed := _speed(sample, size.ready))]
            if speeds:
                _join(self._speeds, name, sum(speeds) / len(speeds))
            if slot.whole_per_s > 0 and (rate := slot.rates_per_s.get(name)):
                _join(self._shares, name, rate / slot.whole_per_s)

    def _measure_downtimes(self, window: Window, sizes: Mapping[str, Instances]) -> None:
        """Take in the newest reading of each operator."""
        for name, size in sizes.items():
            sample, before, downtime = window.sample(name), self._seen.get(name), self._downtimes[name]
            if sample is None or (before is not None and sample.at_s == before.at_s):
                continue
            if before is not None and sample.at_s < before.at_s:
                downtime.reset_clock()
                before = None
            downtime.observe_size(sample.at_s, size)
            speed = self._service_rate_per_s(name)
            for batch in sample.batches:
                downtime.downtime_in_batch_s(batch, batch.records / (speed * max(1, size.ready)) if speed else None)
            downtime.conclude(before, sample)
            self._seen[name] = sample

    def _weights(self) -> Weights:
        """Return the weights of the settings, with the measured one of a reconfiguration."""
        weights = self.settings.weights()
        measured_s = [downtime.usual_s for downtime in self._downtimes.values() if downtime.to_json()]
        if not measured_s:
            return weights
        share = min(1.0, max(measured_s) / self.settings.slot_s)
        # A change that costs nothing would be made for nothing.
        reconfiguration = max(_LEAST_RECONFIGURATION, share) * weights.violation
        whole = weights.resources + reconfiguration + weights.violation
        return Weights(weights.resources / whole, reconfiguration / whole, weights.violation / whole)

    def _model(self) -> None:
        """Make the planner once speeds are known, and again with all it has learned when they have moved."""
        speeds = [self._service_rate_per_s(name) for name in self.topology.operators]
        known = tuple(speed for speed in speeds if speed is not None)
        if len(known) < len(speeds):
            return
        shares = tuple(self._share(name) for name in self.topology.operators)
        old = self._application
        if old is not None and not (
            _moved(old.service_rates_per_s, known)
            or _moved(old.shares, shares)
            or _moved((old.weights.reconfiguration,), (self._weights().reconfiguration,))
        ):
            return
        application = self._make_application(known, shares, self._weights())
        grids = self._grids or self._make_grids(application)
        planner = self._make_planner(application, grids)
        if self._planner is not None:
            planner.load(self._planner.to_json())
        self._prepare(planner, grids, is_first=self._planner is None)
        self._application, self._grids, self._planner = application, grids, planner

    def _make_application(
        self, service_rates_per_s: tuple[float, ...], shares: tuple[float, ...], weights: Weights
    ) -> ApplicationModel:
        slo = self.objective.slo
        return ApplicationModel(
            self.topology,
            service_rates_per_s,
            slo.bound_s if isinstance(slo, LatencySlo) else math.inf,
            self.objective.max_instances,
            self.objective.min_instances,
            shares,
            weights,
        )

    def _service_rate_per_s(self, operator: str) -> float | None:
        given = self.settings.service_rate_per_s
        if isinstance(given, Mapping):
            given = given.get(operator)
        if given is not None:
            return given
        measured = self._speeds.get(operator)
        return measured.value if measured is not None and measured.count >= _MEASURE_SLOTS else None

    def _share(self, operator: str) -> float:
        measured = self._shares.get(operator)
        return measured.value if measured is not None else 1.0

    def _require_operators(self, settings: S) -> None:
        given = settings.service_rate_per_s
        if isinstance(given, Mapping):
            for name in given:
                if name not in self.topology.operators:
                    known = ", ".join(self.topology.operators)
                    raise InputError(f"a service rate is given for {name!r}, which is no operator; allowed: {known}.")

    def _state(self) -> dict[str, JSON]:
        application = self._application
        return {
            "due_s": self._due_s,
            "behind": self._behind,
            "before": None if self._before is None else list(self._before),
            "speeds": {name: [measured.value, measured.count] for name, measured in self._speeds.items()},
            "shares": {name: [measured.value, measured.count] for name, measured in self._shares.items()},
            "model": None
            if application is None
            else {
                "service_rates_per_s": list(application.service_rates_per_s),
                "shares": list(application.shares),
                "weights": list(astuple(application.weights)),
                "grids": [[grid.quantum_per_s, grid.levels] for grid in self._grids],
            },
            "planner": None if self._planner is None else self._planner.to_json(),
            "downtimes": {name: downtime.to_json() for name, downtime in self._downtimes.items()},
        }

    def _restore_state(self, state: Mapping[str, JSON]) -> None:
        speeds, shares = (_restored(state[key]) for key in ("speeds", "shares"))
        due_s = None if state["due_s"] is None else float(state["due_s"])
        before = None if state["before"] is None else tuple(int(level) for level in state["before"])
        downtimes = {
            str(name): [float(downtime_s) for downtime_s in saved]
            for name, saved in state.get("downtimes", {}).items()
            if name in self._downtimes
        }
        application: ApplicationModel | None = None
        grids: tuple[RateGrid, ...] = ()
        planner: Planner | None = None
        if (model := state["model"]) is not None:
            try:
                application = self._make_application(
                    tuple(float(rate) for rate in model["service_rates_per_s"]),
                    tuple(float(share) for share in model["shares"]),
                    Weights(*map(float, model["weights"])) if "weights" in model else self.settings.weights(),
                )
                grids = tuple(RateGrid(float(quantum), int(levels)) for quantum, levels in model["grids"])
                planner = self._make_planner(application, grids)
            except InputError as error:
                raise ValueError(str(error)) from error
            planner.load(state["planner"])
        behind = bool(state["behind"])
        for name, saved in downtimes.items():
            self._downtimes[name].restore(saved)
        self._seen = {}
        self._speeds, self._shares, self._due_s, self._before = speeds, shares, due_s, before
        self._behind = behind
        self._application, self._grids, self._planner = application, grids, planner


def quantum_of(settings: SlottedSettings, speed_per_s: float) -> float:
    """The width of a level: as set, or fitting what one instance serves."""
    return settings.rate_quantum_per_s or speed_per_s / _LEVELS_PER_INSTANCE


def _mean(samples: Sequence[Sample], metric: str) -> float | None:
    values = [value for sample in samples if (value := sample.metric(metric)) is not None]
    return sum(values) / len(values) if values else None


def _waiting(sample: Sample, rate_per_s: float) -> float:
    """Records that wait, beyond those that come together for a batch in any case."""
    return max(0.0, (sample.backlog or 0.0) - rate_per_s * (sample.trigger_interval_s or 0.0))


def _speed(sample: Sample, ready: int) -> float | None:
    """What one instance serves, by what all of them got through while busy, or else by how busy they were."""
    if ready < 1:
        return None
    if sample.processed_rate_per_s:
        return sample.processed_rate_per_s / ready
    if sample.input_rate_per_s and sample.utilization and sample.utilization < 1:
        return sample.input_rate_per_s / (sample.utilization * ready)
    return None


def _join(means: dict[str, _Measured], name: str, value: float) -> None:
    known = means.get(name)
    means[name] = _Measured(value, 1) if known is None else known.joined(value)


def _moved(before: Sequence[float], now: Sequence[float]) -> bool:
    return any(abs(new - old) > _MOVED * old for old, new in zip(before, now, strict=True))


def _restored(state: Mapping[str, Sequence[float]]) -> dict[str, _Measured]:
    return {str(name): _Measured(float(value), int(count)) for name, (value, count) in state.items()}

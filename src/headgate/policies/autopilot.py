"""autopilot: needs only an objective and bounds, and keeps the requested share of records on time at the least cost.

An ``OperatorModel`` (``pilot/operator_model.py``) learns the load, batch times, downtimes and price of a late record of
each operator. For every decision ``look_ahead`` builds scenarios from it, ``cheapest_size`` simulates the sizes in
them, and this file turns the result into a target: it scales out at once, and in only as the ``ScaleInWindow`` allows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated

import numpy as np
from pydantic import Field, ValidationInfo, field_validator

from headgate.core.errors import InputError
from headgate.core.objective import DAY_S, LatencySlo, Slo, SlowShareSlo, ThroughputSlo
from headgate.core.types import JSON, Instances, Instant, Number, PricedSize, Proposal, Sample, Target
from headgate.core.units import format_duration, instances_in_words, plain
from headgate.core.window import Window
from headgate.forecast.base import FloatArray
from headgate.forecast.clock_patterns import ExpectedBurst
from headgate.policies.frame.base import Context, GuardSettings, OperatorPolicy, hold, register
from headgate.policies.frame.settings import PositiveSeconds, Settings
from headgate.policies.pilot.calendar_loads import CalendarLoads
from headgate.policies.pilot.calibration import AHEAD_S, quantiles
from headgate.policies.pilot.late_price import CONFIDENCE, LatePrice
from headgate.policies.pilot.load import BIN_S, RECENT_BINS
from headgate.policies.pilot.lookahead import (
    Lookahead,
    SizeChoice,
    cheapest_size,
    compile_loops,
    instances_for_rise,
    is_scale_to_zero_worthwhile,
    look_ahead,
    round_trip_cost_s,
    scale_in_spacing_s,
    window_s,
)
from headgate.policies.pilot.operator_model import OperatorModel
from headgate.policies.pilot.scale_in_window import SHORTEST_S, STARTUPS, ScaleInWindow
from headgate.policies.pilot.shared_bound import DivisionInput, SharedBound
from headgate.rules.schedule import time_zone

LEAST_SHARE = 1e-4
"""Least share of late records that is taken as allowed: p100 cannot be had at any price."""
MOST_SIZES = 16
_RUNGS = np.linspace(0.0, 1.0, MOST_SIZES)
THROUGHPUT_BOUND_S = 60.0
"""Latency bound used for throughput objectives: nothing may wait longer."""
SLOW_BOUND_S = 1.0
"""Latency above which a record counts as slow, for slow-record objectives."""
NEARLY_ALL = 0.05
"""If a smaller share of records may be late, autopilot aims below the bound: at the bound, the first burst would use up
the allowance of a day."""
LEAST_TRIGGERS = 5
"""Least latency to aim for, in trigger intervals: a record waits for at least one."""
KEEPS_UP_S = 120.0
"""A size is not scaled in to if it would be too small again within this time."""
CAUGHT_UP_S = 300.0
"""A backlog that violates the bound is worked off within this time."""
FAR_TOO_LATE = 2.0
"""Latency above this multiple of the bound overrides the protection against undoing a recent change."""
RATE_BINS = 3
"""The present arrival rate is the mean of this many bins."""
IDLE_BINS = 6
"""A job without a record for this many bins is idle."""
MOST_MORE = 0.25
"""Most instances added in advance of a rise, as a share of the size needed, for jobs that stop for a change."""
UNKNOWN_CYCLE_S = 0.5
"""Assumed interval of batches where there is no trigger, for what is chance in predictions: such a job may have nothing
waiting at any time."""
LIKELY = 0.5
"""If a period misses its objective with this probability, decisions say so before it is certain."""
NOTABLE_CHANGE = 0.2
"""A load that changes by this share within a minute is described by both rates."""
TENTATIVE_BATCHES = 3
"""Before so many batches, the size is doubled at most, and only when the instances requested before are there."""
COLD_S = 10.0
"""… unless a batch already runs for longer than a cold start explains."""
YOUNG_HEADROOM = 2.0
"""A young job is given at most this multiple of what its load of the last minute needs."""
DRAINED_S = 30.0
"""… and to work off its backlog within this time."""
FAR_TOO_LARGE = 1.5
"""A young job that was scaled out to this multiple of what it needed gives the rest back at once."""
NO_HELP_GAMMA = 0.25
"""With a scaling exponent γ up to this, more instances do not make batches faster: a sink or source is the limit."""


class AutopilotSettings(Settings):
    """Nothing has to be set: the objective and the bounds are all it needs."""

    scale_in_window_s: PositiveSeconds = SHORTEST_S
    """The shortest time that a smaller size must have been enough, or five times that where a change of size stops the
    job; longer after scale-ins that had to be undone."""
    confidence: Annotated[float, Field(ge=0.5, lt=1)] = CONFIDENCE
    """The share of periods in which no more records than allowed are to be late; more holds a larger reserve."""
    calendar: str = ""
    """Loads that come by the calendar, as minutes in the manner of cron with a factor or records/s:
    ``* 0-1 1 * * = x3; * 8-9 * * mon-fri = +200``."""
    time_zone: str = "UTC"
    """The time zone of ``calendar``, such as ``Europe/Berlin``."""

    @field_validator("calendar", "time_zone")
    @classmethod
    def _is_understood(cls, text: str, info: ValidationInfo) -> str:
        try:
            if info.field_name == "calendar":
                CalendarLoads(text)
            else:
                time_zone(text)
        except InputError as error:
            raise ValueError(str(error)) from error
        return text


@register
class Autopilot(OperatorPolicy[AutopilotSettings]):
    """Simulates the next batches for every size in many scenarios of the load, and takes the cheapest size.

    The cost of a size is that of its instances plus that of the records it makes late. The price of a late record is
    adjusted until the share of late records is the requested one. Scale-out happens at once and by several instances;
    scale-in goes to the largest size that was needed recently. If the bounds allow 0 instances, an idle job has none,
    and the first waiting record starts one.

    >>> from headgate.policies import Sample
    >>> from headgate.testing import last_target
    >>> target = last_target("autopilot", "latency p95 < 10s", 2, Sample("job", 0, latency_s=8))
    >>> target.instances, target.reason
    (3, 'records wait 8 s already, and it is not known yet how long work takes: one more')
    """

    name = "autopilot"
    summary = "Keeps the requested share of records on time at the least cost; needs only an objective."
    state_version = 4
    wakes = True
    sees_graph = True
    Settings = AutopilotSettings
    # It accounts for pending instances itself and must not wait when it has to scale out.
    guards = GuardSettings(pending_timeout_s=0, recovery_timeout_s=0)

    def __init__(self, settings: AutopilotSettings, context: Context) -> None:
        super().__init__(settings, context)
        self._models: dict[str, OperatorModel] = {}
        self._shared = self._shared_bound()
        self._price = self._new_price(self.objective.slo)
        """The price of a late record if all operators share one end-to-end objective."""
        compile_loops()

    def decide(self, now: Instant, window: Window) -> Proposal:
        if self._shared is not None and self._shared.is_due(now):
            self._divide(now, window, self._shared)
        return super().decide(now, window)

    def size(self, now: Instant, window: Window, operator: str, instances: Instances, sample: Sample) -> Target:
        model = self._models.get(operator)
        if model is None:
            model = self._models[operator] = self._new_model(operator)
        # After a clock went back, all batches count.
        since_s = model.last_sample_s if model.last_sample_s <= sample.at_s else -math.inf
        at_most_s = window_s(model.downtime.usual_s)
        stays_late = model.stays_late(sample, instances, self._bound_s(operator, sample), at_most_s)
        model.observe(sample, window.batches(operator, since_s), instances)
        if model.downtime.is_awaited(now):
            why = "nothing was done since the size changed, and it is not known yet whether that stops the job: holding"
            return hold(instances, "changing", why, {"latency_s": sample.worst_latency_s})
        if not model.batch_time.is_known or not len(model.load.recent(1)):
            return self._cautious(model, operator, instances, sample)
        ahead = look_ahead(model, window, operator, instances, sample, self._bound_s(operator, sample))
        if self._shared is not None:
            ahead = self._shared.priced(operator, ahead)
        return self._act(now, model, operator, instances, sample, ahead, stays_late=stays_late)

    def _new_model(self, operator: str) -> OperatorModel:
        slo = self.objective.slo_of(operator)
        price = self._new_price(slo) if self._shared is None else self._price
        settings = self.settings
        calendar = CalendarLoads(settings.calendar, time_zone(settings.time_zone))
        return OperatorModel(slo, price, scale_in=ScaleInWindow(settings.scale_in_window_s), calendar=calendar)

    def _new_price(self, slo: Slo) -> LatePrice:
        return LatePrice(bound_and_share(slo)[1], slo.period_s, self.settings.confidence)

    # ---------------------------------------------------------------------------------------- end-to-end bound

    def _shared_bound(self) -> SharedBound | None:
        """Return the end-to-end bound if several operators have no objectives of their own."""
        if len(self.topology.operators) < 2 or self.objective.operators:
            return None
        bound_s, _ = bound_and_share(self.objective.slo)
        return SharedBound(self.topology, bound_s, self.objective.prices(self.topology))

    def _bound_s(self, operator: str, sample: Sample) -> float:
        """Return the latency bound of an operator: its own, or its part of the end-to-end bound."""
        if self._shared is not None:
            return self._shared.bound_s(operator)
        return target_latency_s(self.objective.slo_of(operator), sample.trigger_interval_s or 0.0)

    def _divide(self, now: Instant, window: Window, shared: SharedBound) -> None:
        members = {name: self._member(window, name) for name in self.topology.operators}
        known = {name: member for name, member in members.items() if member is not None}
        if len(known) == len(members):
            shared.divide(now, known)

    def _member(self, window: Window, operator: str) -> DivisionInput | None:
        """Return what is needed to divide the bound; ``None`` while too little is known about the operator."""
        model, instances, sample = self._models.get(operator), window.instances(operator), window.sample(operator)
        if model is None or instances is None or sample is None:
            return None
        if not model.batch_time.is_known or not len(model.load.recent(1)):
            return None
        ahead = look_ahead(model, window, operator, instances, sample, self._bound_s(operator, sample))
        need = model.instances_for(
            ahead.rate_per_s, max(sample.trigger_interval_s or 0.0, self._bound_s(operator, sample) / 2)
        )
        lowest, highest = self._bounds(operator, sample)
        return DivisionInput(
            lambda bound_s: look_ahead(model, window, operator, instances, sample, bound_s),
            need,
            _ladder(max(1, lowest), highest, need, instances.planned),
        )

    # ------------------------------------------------------------------------------------------------------ choosing

    def _bounds(self, operator: str, sample: Sample) -> tuple[int, int]:
        """Return the fewest and the most instances that are allowed and useful."""
        lowest, highest = self.objective.bounds_of(operator, self.topology)
        useful = sample.useful_instances
        return lowest, highest if useful is None else max(1, lowest, min(highest, useful))

    def _choose(
        self, model: OperatorModel, operator: str, instances: Instances, sample: Sample, ahead: Lookahead
    ) -> SizeChoice:
        bound_s = self._bound_s(operator, sample)
        lowest, highest = self._bounds(operator, sample)
        floor = max(1, lowest)
        late_s = (bound_s / 2 if model.is_young else bound_s) + ahead.downtime_s
        if not _cannot_help(model) and (sample.latency_s or 0.0) > late_s:
            # Records that are late already must not become ever later because that is cheaper at the moment.
            floor = max(floor, min(highest, _catching_up(model, sample, ahead, bound_s)))
        chosen = cheapest_size(
            _ladder(floor, highest, model.instances_for(ahead.peak_per_s(), bound_s / 2), instances.planned),
            ahead.rollout.roll,
            ahead.weights,
            ahead.late_price,
            planned=instances.planned,
            startup_s=ahead.startup_s,
            paid_s=ahead.paid_s,
        )
        if lowest > 0 or not model.was_idle(sample, IDLE_BINS):
            return chosen
        costs = {"startup_s": ahead.startup_s, "bound_s": bound_s}
        return (
            SizeChoice(0, 0, 0, chosen.costs)
            if is_scale_to_zero_worthwhile(ahead.counts, ahead.weights, ahead.late_price, **costs)
            else chosen
        )

    # -------------------------------------------------------------------------------------------------------- acting

    def _act(
        self,
        now: Instant,
        model: OperatorModel,
        operator: str,
        instances: Instances,
        sample: Sample,
        ahead: Lookahead,
        *,
        stays_late: bool = False,
    ) -> Target:
        choice = self._choose(model, operator, instances, sample, ahead)
        bound_s = self._bound_s(operator, sample)
        highest = self._enough(now, model, instances, ahead, choice, sample, bound_s)
        planned = instances.planned
        is_late = (sample.latency_s or 0.0) > bound_s
        arriving_per_s = model.load.recent_per_s(RATE_BINS)
        expected = _load_in_words(sample, ahead, arriving_per_s, bound_s)
        later = _later_in_words(ahead)
        # Lateness caused by the downtime of a scale-in is no reason to take it back.
        is_far_too_late = (sample.latency_s or 0.0) > FAR_TOO_LATE * bound_s + ahead.downtime_s
        # While the backlog of a downtime is worked off, another downtime would only add to it.
        wanted = choice.size if is_late and not stays_late else max(choice.size, choice.size_without_downtime)
        wanted = _limited(model, instances, sample, ahead, wanted, bound_s)
        if wanted > planned and not is_far_too_late and model.scale_in.would_undo_scale_in(now, arriving_per_s):
            target, code = planned, "steady"
            why = "the size was reduced just now, and the load is the same: holding"
        elif wanted > planned:
            model.scale_in.record_scale_out(now, arriving_per_s)
            target, code = self._grown(now, model, operator, sample, ahead, choice, wanted), "needed"
            why = f"{expected}{later}: {_are(target)} the cheapest choice for the objective"
        elif highest >= planned:
            target, code = planned, "steady"
            right = "not enough" if is_late and planned >= self._bounds(operator, sample)[1] else "right"
            why = f"{expected}: {_are(target)} {right}"
        elif is_late:
            target, code, why = planned, "catching-up", "the backlog is worked off first: holding"
        elif model.scale_in.is_paused(now):
            target, code, why = planned, "steady", "the size was reduced just now: holding"
        elif model.scale_in.would_undo_scale_out(now, arriving_per_s):
            target, code = planned, "steady"
            why = "the size was raised just now, and the load has not collapsed: holding"
        else:
            model.scale_in.record_scale_in(now, arriving_per_s)
            target, code = highest, "enough"
            lately = format_duration(model.scale_in.watched_s)
            if ahead.downtime_s > 0:  # Several small steps would each cost a downtime.
                model.scale_in.restart_at(now, target)
            why = f"{expected}: {_are(target)} enough, as throughout {lately}"
        expected_late, numbers = _numbers(now, model, ahead, choice, target)
        if self._shared is not None:
            numbers["part_of_bound_s"] = bound_s
        if is_late or expected_late > ahead.rate_per_s * ahead.paid_s / 2:
            why += self._why_no_more(model, operator, sample, target, ahead)
        why += self._remarks(model, operator, sample, ahead)
        return Target(target, code, why, numbers, _alternatives(model, ahead, choice))

    def _remarks(self, model: OperatorModel, operator: str, sample: Sample, ahead: Lookahead) -> str:
        """Return the burst that the forecast relies on, and whether the objective can still be met."""
        remarks = [_burst_in_words(burst, sample.at_s) for burst in ahead.bursts[:1]]
        slo, least_share = self.objective.slo_of(operator), model.price.broken_share()
        chance = model.break_chances([(0.0, 0.0)], ahead.rate_per_s, ahead.paid_s)[0]
        if chance >= LIKELY:
            enough = math.ceil(model.instances_for(model.load.largest / BIN_S, self._bound_s(operator, sample) / 2))
            remarks.append(
                f"this period is likely to miss the objective ({100 * chance:.0f}%), by how bursts were late so far"
                if least_share is None
                else _broken_in_words(slo, min(1.0, least_share))
            )
            remarks.append(f"{_are(max(1, enough))} enough for the largest load so far")
        return "".join(f"; {remark}" for remark in remarks)

    def _enough(
        self,
        now: Instant,
        model: OperatorModel,
        instances: Instances,
        ahead: Lookahead,
        choice: SizeChoice,
        sample: Sample,
        bound_s: float,
    ) -> int:
        """Return the smallest size that was sufficient for long enough."""
        # A size that cannot keep up with the load would have to be taken back as soon as records are late.
        peak_per_s = ahead.peak_per_s(max(KEEPS_UP_S, ahead.paid_s))
        keeps_up = math.ceil(model.instances_for(peak_per_s, bound_s / 2))
        if ahead.downtime_s > 0:
            keeps_up = max(keeps_up, model.fewest_by(instances.planned, peak_per_s, bound_s / 2))
        right = max(choice.scale_in_size, min(keeps_up, instances.planned)) if choice.scale_in_size else 0
        calm_until_s = model.patterns.calm_until_s(now, SHORTEST_S)
        if calm_until_s is not None and calm_until_s - now > SHORTEST_S + STARTUPS * ahead.startup_s:
            model.scale_in.release(now, right)
        elif model.is_young and model.batch_time.batches >= TENTATIVE_BATCHES:
            hindsight = max(right, _needed_lately(model, sample, bound_s))
            if instances.planned >= FAR_TOO_LARGE * hindsight:
                model.scale_in.trim(now, hindsight)
        return model.scale_in.largest_needed(
            now,
            right,
            ahead.startup_s,
            planned=instances.planned,
            change_s=_change_s(model, ahead, right, instances.planned),
            least_s=_scale_in_spacing_s(model, ahead, right, instances.planned),
        )

    def _grown(
        self,
        now: Instant,
        model: OperatorModel,
        operator: str,
        sample: Sample,
        ahead: Lookahead,
        choice: SizeChoice,
        wanted: int,
    ) -> int:
        """Return the size to scale out to; jobs that stop for a change get some instances in advance of a rise."""
        if ahead.downtime_s <= 0:
            return wanted
        costs_s = _change_s(model, ahead, wanted, wanted)
        rises_per_s = model.rises_per_s(self._bound_s(operator, sample) / 2)
        more = min(instances_for_rise(costs_s, rises_per_s), math.ceil(MOST_MORE * wanted))
        target = min(max(wanted, choice.scale_in_size) + more, max(wanted, self._bounds(operator, sample)[1]))
        model.scale_in.restart_at(now, target)
        return target

    def _why_no_more(self, model: OperatorModel, operator: str, sample: Sample, target: int, ahead: Lookahead) -> str:
        """Return why it does not scale out although records are late; empty if it may."""
        if _cannot_help(model):
            return "; batches do not become faster with more instances, so none are added"
        _, highest = self._bounds(operator, sample)
        if target < highest:
            return ""
        if sample.useful_instances is not None and sample.useful_instances <= highest:
            useful = instances_in_words(sample.useful_instances)
            return f"; more than {useful} cannot help: there is no more work to be done side by side"
        needed = _catching_up(model, sample, ahead, self._bound_s(operator, sample))
        if needed <= highest:
            return "; more are not allowed"
        each_per_s = 1 / max(1e-9, model.instances_for(1.0, self._bound_s(operator, sample)))
        return (
            f"; an instance does {plain(each_per_s)}/s, so {needed} would be needed to catch up in "
            f"{format_duration(CAUGHT_UP_S)}, and at most {highest} are allowed"
        )

    def _cautious(self, model: OperatorModel, operator: str, instances: Instances, sample: Sample) -> Target:
        """Return the target before batch times are known: add an instance when records are about to be late."""
        bound_s = self._bound_s(operator, sample)
        latency_s = sample.worst_latency_s
        numbers: dict[str, Number] = {"latency_s": latency_s, "bound_s": bound_s}
        unknown = "it is not known yet how long work takes"
        backlog = sample.backlog or 0.0
        if instances.planned < 1 and backlog >= 1:
            return Target(1, "cautious", f"{plain(backlog)} records wait, and there is no instance: one", numbers)
        lowest, _ = self._bounds(operator, sample)
        watched_s = max(IDLE_BINS * BIN_S, self.settings.scale_in_window_s)
        bins = math.ceil(watched_s / BIN_S)
        if 0 == lowest < instances.planned and len(model.load) >= bins and model.was_idle(sample, bins):
            why = f"nothing has come for {format_duration(watched_s)}, and nothing waits: no instance is needed"
            return Target(0, "idle", why, numbers)
        if latency_s is None:
            return hold(instances, "no-data", f"{unknown}, nor how long records wait: holding", numbers)
        if latency_s > bound_s / 2:
            if instances.ready < instances.planned:
                return hold(
                    instances, "starting", f"{unknown}, and requested instances are still starting: holding", numbers
                )
            why = f"records wait {plain(latency_s)} s already, and {unknown}: one more"
            return Target(instances.planned + 1, "cautious", why, numbers)
        return hold(instances, "learning", f"{unknown}: holding", numbers)

    def _state(self) -> dict[str, JSON]:
        state: dict[str, JSON] = {"operators": {name: model.to_json() for name, model in self._models.items()}}
        return state if self._shared is None else state | {"shared": self._shared.to_json()}

    def _restore_state(self, state: Mapping[str, JSON]) -> None:
        models = {str(name): self._new_model(name) for name in state["operators"]}
        for name, model in models.items():
            model.restore(state["operators"][name])
        if self._shared is not None:
            self._shared.restore(state["shared"])
        self._models = models


def bound_and_share(slo: Slo) -> tuple[float, float]:
    """Return the latency bound in seconds and the share of records that may exceed it."""
    allowed = max(LEAST_SHARE, slo.allowed_share)
    match slo:
        case LatencySlo(bound_s=bound_s):
            return bound_s, allowed
        case SlowShareSlo():
            return SLOW_BOUND_S, allowed
        case ThroughputSlo():
            return THROUGHPUT_BOUND_S, allowed


def target_latency_s(slo: Slo, trigger_s: float) -> float:
    """Return the latency to aim for: the bound, or less if hardly any record may exceed it.

    >>> [round(target_latency_s(LatencySlo(bound_s=30, percentile=level), 2.0), 1) for level in (90, 95, 99, 99.9)]
    [30, 30, 20.1, 11.3]
    >>> target_latency_s(LatencySlo(bound_s=10.0, percentile=99.9), 2.0)
    10.0
    """
    bound_s, allowed = bound_and_share(slo)
    if not isinstance(slo, LatencySlo) or allowed >= NEARLY_ALL:
        return bound_s
    part: float = (allowed / NEARLY_ALL) ** 0.25
    return min(bound_s, max(bound_s * part, LEAST_TRIGGERS * trigger_s))


def _are(count: int) -> str:
    return f"{instances_in_words(count)} {'are' if count > 1 else 'is'}"


def _load_in_words(sample: Sample, ahead: Lookahead, arriving_per_s: float, bound_s: float) -> str:
    """Describe what a size is chosen for: the backlog where it decides, else the load."""
    backlog = sample.backlog or 0.0
    usual = max(arriving_per_s, ahead.rate_per_s) * max(bound_s, 2 * (sample.trigger_interval_s or 0.0))
    if backlog > usual and backlog >= 1:
        return f"{backlog:,.0f} records waiting and {plain(arriving_per_s)}/s arriving"
    return f"{plain(ahead.rate_per_s)} records/s expected"


def _later_in_words(ahead: Lookahead) -> str:
    """Return the load that is expected a minute ahead, where it differs from the present one."""
    at_bin = min(ahead.counts.shape[1], round(AHEAD_S / BIN_S)) - 1
    _, later, _ = quantiles(ahead.counts[:, at_bin], ahead.weights)
    later_per_s = later / BIN_S
    if abs(later_per_s - ahead.rate_per_s) <= NOTABLE_CHANGE * max(later_per_s, ahead.rate_per_s):
        return ""
    return f", {plain(later_per_s)}/s in {format_duration(AHEAD_S)}"


def _burst_in_words(burst: ExpectedBurst, now: Instant) -> str:
    """Return the burst that the forecast relies on, with its pattern."""
    left_s = round(burst.begins_s - now)
    when = f"is expected in {format_duration(left_s)}" if left_s > 0 and not burst.has_begun else "is due now"
    return f"a burst of {plain(burst.height_per_s)} records/s {when}: {burst.pattern}"


def _broken_in_words(slo: Slo, least_share: float) -> str:
    """Return that the objective is missed in this period whatever is done, and what can still be met."""
    period = "a day" if slo.period_s == DAY_S else format_duration(slo.period_s)
    return (
        f"the objective cannot be met in this period: at least {plain(100 * least_share)}% of {period} are late, and "
        f"{plain(100 * slo.allowed_share)}% may be; {plain(100 * (1 - least_share))}% on time can still be met"
    )


def _numbers(
    now: Instant, model: OperatorModel, ahead: Lookahead, choice: SizeChoice, target: int
) -> tuple[float, dict[str, Number]]:
    """Return the late records expected at the target size, and the numbers behind the decision."""
    expected_late = float(ahead.rollout.result_for(max(1, target)).late[0] @ ahead.weights)
    rolled = ahead.rollout.predicted(max(1, target))
    at_bin = min(ahead.counts.shape[1], round(AHEAD_S / BIN_S)) - 1
    numbers: dict[str, Number] = {
        "rate_per_s": ahead.rate_per_s,
        "chosen": choice.size,
        "expected_after_s": AHEAD_S,
        "expected_late": expected_late,
    }
    low, middle, high = quantiles(ahead.counts[:, at_bin], ahead.weights)
    spread = {
        "rate_per_s": (low / BIN_S, middle / BIN_S, high / BIN_S),
        "backlog": quantiles(rolled.backlog[0], ahead.weights),
        "latency_s": quantiles(rolled.latency_s[0], ahead.weights),
        "instances": (target, target, target),
    }
    # Backlog and latency grow between two batches; at which point of that cycle a minute from now lies is chance.
    cycle_s = (model.last_sample.trigger_interval_s if model.last_sample is not None else None) or UNKNOWN_CYCLE_S
    chance = {"backlog": ahead.rate_per_s * cycle_s, "latency_s": cycle_s}
    for name, (low, middle, high) in spread.items():
        stated = model.calibrators[name].predict(now, low, middle, high, chance.get(name, 0.0))
        numbers |= {
            f"expected_{name}": stated.middle,
            f"expected_{name}_low": stated.low,
            f"expected_{name}_high": stated.high,
        }
    if ahead.downtime_s > 0:
        numbers["standstill_s"] = ahead.downtime_s
    if ahead.bursts:
        burst = ahead.bursts[0]
        numbers |= {"burst_in_s": max(0.0, burst.begins_s - now), "burst_trust": burst.trust}
    fixed_s, each_s = model.batch_time.coefficients
    return expected_late, numbers | {
        "late_share": model.price.share,
        "late_share_aim": model.price.aim,
        "late_price": ahead.late_price,
        "batch_fixed_s": fixed_s,
        "batch_each_s": each_s,
        "batch_gamma": model.batch_time.gamma,
        "patience_s": model.scale_in.window_s,
    }


def _alternatives(model: OperatorModel, ahead: Lookahead, choice: SizeChoice) -> tuple[PricedSize, ...]:
    """Return the sizes that were compared, with what each is expected to cost and to make late."""
    arrivals = max(1e-9, ahead.rate_per_s * ahead.paid_s)
    outcomes = [(found.late, found.deviation) for found in choice.costs]
    chances = model.break_chances(outcomes, ahead.rate_per_s, ahead.paid_s)
    # Rounded, because every decision goes into the journal.
    return tuple(
        PricedSize(
            found.instances,
            round(found.instance_s, 1),
            round(found.late_s, 1),
            round(min(1.0, found.late / arrivals), 4),
            round(chance, 4),
        )
        for found, chance in zip(choice.costs, chances, strict=True)
    )


def _change_s(model: OperatorModel, ahead: Lookahead, right: int, planned: int) -> float:
    """Return the cost of scaling in to a size and back, in instance-seconds."""
    if ahead.downtime_s <= 0:
        return 0.0
    return round_trip_cost_s(
        float(ahead.rollout.result_for(max(1, min(right, planned))).downtime_late[0] @ ahead.weights),
        ahead.late_price,
        rate_per_s=ahead.rate_per_s,
        allowed_share=model.price.allowed_share,
        downtime_s=ahead.downtime_s,
        planned=max(1, planned),
    )


def _scale_in_spacing_s(model: OperatorModel, ahead: Lookahead, right: int, planned: int) -> float:
    """Return how long a smaller size must have been enough, so that changes alone do not violate the objective."""
    if ahead.downtime_s <= 0:
        return 0.0
    downtime_late = float(ahead.rollout.result_for(max(1, min(right, planned))).downtime_late[0] @ ahead.weights)
    return scale_in_spacing_s(downtime_late / ahead.rate_per_s, model.price.allowed_share, model.price.used)


def _cannot_help(model: OperatorModel) -> bool:
    """Whether more instances do not make batches faster, as with a slow sink or a throttled source."""
    return model.batch_time.gamma <= NO_HELP_GAMMA


def _catching_up(model: OperatorModel, sample: Sample, ahead: Lookahead, bound_s: float) -> int:
    """Return the size that processes arrivals and works off the backlog within ``CAUGHT_UP_S``."""
    arriving_per_s = model.load.recent_per_s(1)
    rate_per_s = max(arriving_per_s, ahead.rate_per_s) + (sample.backlog or 0.0) / CAUGHT_UP_S
    return math.ceil(model.instances_for(rate_per_s, bound_s))


def _limited(
    model: OperatorModel, instances: Instances, sample: Sample, ahead: Lookahead, wanted: int, bound_s: float
) -> int:
    """Return the size to scale out to while too little is known to trust a larger one."""
    # A burst that is expected is no reason for caution.
    if not model.is_young or wanted <= instances.planned or ahead.bursts:
        return wanted
    if model.batch_time.batches < TENTATIVE_BATCHES and (sample.running_s or 0.0) <= COLD_S:
        # The first batches load classes and start processes: their length says little about capacity.
        more = 0 if instances.pending > 0 else max(1, instances.planned)
        return min(wanted, instances.planned + more)
    return min(wanted, max(instances.planned, math.ceil(YOUNG_HEADROOM * _needed_lately(model, sample, bound_s))))


def _needed_lately(model: OperatorModel, sample: Sample, bound_s: float) -> int:
    """Return the size that keeps up with the highest load of the last minute and works off the backlog soon."""
    rates_per_s = model.load.recent(RECENT_BINS) / BIN_S
    peak_per_s = float(rates_per_s.max()) if len(rates_per_s) else 0.0
    queue = max(0.0, (sample.backlog or 0.0) - peak_per_s * bound_s / 2)
    return math.ceil(model.instances_for(peak_per_s + queue / DRAINED_S, bound_s / 2))


def _ladder(lowest: int, highest: int, need: float, planned: int) -> FloatArray:
    """Return the sizes to consider: all of them, or a geometric ladder around the need."""
    if highest - lowest < MOST_SIZES:
        return np.arange(lowest, highest + 1, dtype=np.float64)
    low, high = max(1.0, 0.5 * need), max(2.0, 4 * need)
    rungs = [*np.rint(low * (high / low) ** _RUNGS).tolist(), planned]
    return np.array(sorted({float(min(max(rung, lowest), highest)) for rung in rungs}))

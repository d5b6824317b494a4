"""What autopilot has learned about one operator: load, batch times, downtimes, price of lateness, forecast errors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headgate.core.objective import By, Slo
from headgate.core.types import JSON, Batch, Instances, Instant, Sample
from headgate.forecast.clock_patterns import ClockPattern, ClockPatterns, ExpectedBurst
from headgate.policies.pilot.batch_time import FEWEST, LEAST_GAMMA, BatchTimeModel
from headgate.policies.pilot.calendar_loads import CalendarLoads
from headgate.policies.pilot.calibration import IntervalCalibrator
from headgate.policies.pilot.late_price import LatePrice
from headgate.policies.pilot.load import BIN_S, LoadHistory
from headgate.policies.pilot.load_scenarios import ScenarioForecaster
from headgate.policies.pilot.rescale_downtime import RescaleDowntime
from headgate.policies.pilot.scale_in_window import ScaleInWindow

YOUNG_BINS = 90
"""A quarter of an hour."""
RISE_BINS = 60
STRAINS, MOST_STRAIN = 1.1, 1.5
"""Factor on the work per record for each time that a job stays late, and its limit."""
STRAIN_HALF_LIFE_S = 3600.0


FIRST_SIZES = 2.5
"""Factor on the intervals of sizes at first: a young job gives back what its first batches called for. With it and
``UNKNOWN_CYCLE_S``, 91.0 % of the latencies, 92.1 % of the backlogs and 91.9 % of the sizes of the first half hour of
60 jobs lie within their intervals; the two were chosen on these, and of 60 others it is 90.3 %, 91.6 % and 92.2 %."""


def _calibrators() -> dict[str, IntervalCalibrator]:
    # Sizes are whole numbers, so a deviation of one instance is normal.
    return {
        "rate_per_s": IntervalCalibrator(),
        "backlog": IntervalCalibrator(),
        "latency_s": IntervalCalibrator(),
        "instances": IntervalCalibrator(slack=1.0, first_factor=FIRST_SIZES),
    }


@dataclass(slots=True)
class OperatorModel:
    """Learns from every reading of one operator; everything here survives in the policy's snapshot."""

    slo: Slo
    price: LatePrice
    load: LoadHistory = field(default_factory=LoadHistory)
    patterns: ClockPatterns = field(default_factory=ClockPatterns)
    """Bursts that come by the clock."""
    steady_load: LoadHistory = field(default_factory=LoadHistory)
    """The load without those of them that were expected."""
    calendar: CalendarLoads = field(default_factory=CalendarLoads)
    """Loads that the user expects."""
    forecaster: ScenarioForecaster = field(default_factory=ScenarioForecaster)
    batch_time: BatchTimeModel = field(default_factory=BatchTimeModel)
    calibrators: Mapping[str, IntervalCalibrator] = field(default_factory=_calibrators)
    """Calibrates the stated prediction intervals, by quantity."""
    scale_in: ScaleInWindow = field(default_factory=ScaleInWindow)
    downtime: RescaleDowntime = field(default_factory=RescaleDowntime)
    strain: float = 1.0
    """Factor on the learned seconds per record; rises while a job stays late against expectation."""
    late_since_s: Instant | None = None
    """Since when records have been late at the present size; only for jobs that stop for a change of size."""
    last_sample: Sample | None = None
    last_sample_s: Instant = -math.inf
    _ready_before: int | None = None
    """Instances that were ready at the previous reading."""
    _counted: float = 0.0
    _is_counted: bool = False
    """Whether the engine counts what arrives."""
    _arrived_before: tuple[Instant, float] | None = None
    """Time and counter of arrivals of the previous reading."""
    _expected_before: float = 0.0
    """Records of all bursts so far that were expected."""

    @property
    def is_young(self) -> bool:
        """Whether too little is known of such a load to rely on its history."""
        return len(self.load) < YOUNG_BINS or self.load.is_unprecedented

    @property
    def coefficients(self) -> tuple[float, float]:
        """The fixed seconds of a batch and the seconds per record, on one instance, as used for planning."""
        fixed_s, each_s = self.batch_time.careful_coefficients if self.is_young else self.batch_time.coefficients
        return fixed_s, self.strain * each_s

    def expected_bursts(self, now: Instant, epoch_s: float, within_s: float) -> list[ExpectedBurst]:
        """Return the bursts that are expected by the clock and by the calendar, the next one first."""
        bursts = self.patterns.expected(now, within_s)
        if self.calendar.entries:
            level_per_s = self.patterns.level_per_s or self.load.recent_per_s(1)
            bursts += self.calendar.expected(epoch_s, within_s, level_per_s=level_per_s, now=now)
        return sorted(bursts, key=lambda burst: burst.begins_s)

    def instances_for(self, rate_per_s: float, cycle_s: float) -> float:
        """Return the (fractional) size at which a batch of one cycle's records takes exactly one cycle."""
        fixed_s, each_s = self.coefficients
        batch_time = self.batch_time
        spare_s = max(0.1 * cycle_s, cycle_s - fixed_s * (1 - batch_time.divided))
        work_s = each_s * rate_per_s * cycle_s + fixed_s * batch_time.divided
        return math.pow(max(1e-9, work_s / spare_s), 1 / max(LEAST_GAMMA, batch_time.gamma))

    def fewest_by(self, size: int, rate_per_s: float, cycle_s: float) -> int:
        """Return the fewest instances that keep up if throughput falls in proportion to the size.

        Even if additional instances hardly helped, fewer instances may not be enough.
        """
        fixed_s, each_s = self.coefficients
        batch_time = self.batch_time
        power = math.pow(max(1, size), batch_time.gamma)
        took_s = fixed_s * (1 - batch_time.divided + batch_time.divided / power) + each_s * rate_per_s * cycle_s / power
        return math.ceil(size * took_s / cycle_s)

    def stays_late(self, sample: Sample, instances: Instances, bound_s: float, for_s: float) -> bool:
        """Whether records have been late for ``for_s`` at a size that was predicted to be sufficient.

        Close to its capacity, a job stays late if the work per record is slightly underestimated. Where changes are
        cheap, the price of late records corrects that; a job that stops for a change would postpone it indefinitely.
        """
        before_s = sample.at_s if self.last_sample is None else self.last_sample.at_s
        if self.strain > 1:
            self.strain = 1 + (self.strain - 1) * 0.5 ** (max(0.0, sample.at_s - before_s) / STRAIN_HALF_LIFE_S)
        is_late = (sample.latency_s or 0.0) > bound_s
        if not is_late or instances.pending or self.downtime.usual_s <= 0:
            self.late_since_s = None
            return False
        if self.late_since_s is None or self.late_since_s > sample.at_s:
            self.late_since_s = sample.at_s
        if sample.at_s - self.late_since_s < for_s:
            return False
        self.late_since_s = sample.at_s
        self.strain = min(MOST_STRAIN, STRAINS * self.strain)
        return True

    def rises_per_s(self, cycle_s: float) -> float:
        """Return by how many instances the need grew per second over the last ten minutes."""
        rates_per_s = self.load.recent(RISE_BINS) / BIN_S
        third = len(rates_per_s) // 3
        if third < 1:
            return 0.0
        early, late = float(rates_per_s[:third].mean()), float(rates_per_s[-third:].mean())
        grown = self.instances_for(late, cycle_s) - self.instances_for(early, cycle_s)
        return grown / ((len(rates_per_s) - third) * BIN_S)

    def was_idle(self, sample: Sample, bins: int) -> bool:
        """Whether nothing waits and no record arrived in the newest ``bins``."""
        return (sample.backlog or 0.0) < 1 and float(self.load.counts(bins).sum()) < 1

    def observe(self, sample: Sample, batches: Sequence[Batch], instances: Instances) -> None:
        """Learn from a new reading and the batches that ended since the previous one."""
        if sample.at_s < self.last_sample_s:
            self.downtime.reset_clock()
        self.downtime.observe_size(sample.at_s, instances)
        for batch in batches:
            ready = instances.ready if batch.instances is None else batch.instances
            worked_s = batch.processing_time_s - self.downtime.downtime_in_batch_s(batch, self._expected_s(batch))
            self.batch_time.learn(batch.records, ready, worked_s, cold=batch.warming)
        if sample.at_s == self.last_sample_s:
            return
        if sample.at_s < self.last_sample_s:
            self._reset_clock()
        before = self.last_sample
        self.downtime.conclude(before, sample)
        if sample.batch_ended_s is None and before is not None:
            self._learn_from_counters(before, sample, instances)
        arrived = self._arrived(sample)
        if arrived is not None:
            self._observe_load(sample.at_s, arrived)
        if before is not None:
            self._count_late(before, sample)
        actual = {
            "rate_per_s": sample.input_rate_per_s,
            "backlog": sample.backlog,
            "latency_s": sample.latency_s,
            "instances": instances.planned,
        }
        for name, value in actual.items():
            if value is not None:
                self.calibrators[name].score(sample.at_s, float(value))
        self.last_sample, self.last_sample_s, self._ready_before = sample, sample.at_s, instances.ready

    def _observe_load(self, at_s: Instant, arrived: float) -> None:
        """Learn from the counter of arrived records."""
        before, self._arrived_before = self._arrived_before, (at_s, arrived)
        self.load.add(at_s, arrived)
        if before is not None and at_s > before[0] and arrived >= before[1]:
            known = list(self.patterns.patterns)
            self._expected_before += self.patterns.observe(before[0], at_s, arrived - before[1])
            for pattern in self.patterns.patterns:
                if pattern not in known:
                    self._forget_bursts(pattern)
        self.forecaster.observe(self.steady_load, self.steady_load.add(at_s, arrived - self._expected_before))

    def _forget_bursts(self, pattern: ClockPattern) -> None:
        """Let the forecaster forget errors at bursts that would have been expected: others tell what is uncertain."""
        for burst in self.patterns.bursts_of(pattern):
            self.forecaster.forget_between(math.floor(burst.began_s / BIN_S), math.floor(burst.ended_s / BIN_S))

    def _expected_s(self, batch: Batch) -> float | None:
        """Return the expected time of a batch at the smallest size of the observed change, if there is one."""
        fewest = self.downtime.fewest
        if fewest is None or self.batch_time.batches < FEWEST:
            return None
        return float(self.batch_time.batch_s(batch.records, fewest))

    def _count_late(self, before: Sample, sample: Sample) -> None:
        """Report late records, or late time if the objective counts time, since the previous reading to the price."""
        if self.slo.by is By.TIME:
            is_missed, elapsed_s = self.slo.violated_by(sample), sample.at_s - before.at_s
            if is_missed is not None:
                self.price.observe(sample.at_s, elapsed_s, elapsed_s if is_missed else 0.0)
        elif None not in (before.arrived, before.late, sample.arrived, sample.late):
            arrived = max(0.0, _difference(sample.arrived, before.arrived))
            self.price.observe(sample.at_s, arrived, max(0.0, _difference(sample.late, before.late)))

    def break_chances(self, outcomes: Sequence[tuple[float, float]], per_s: float, within_s: float) -> list[float]:
        """Return the probability that a period breaks its objective, by how many records are late soon."""
        if self.slo.by is By.TIME and per_s > 0:
            outcomes, per_s = [(late / per_s, deviation / per_s) for late, deviation in outcomes], 1.0
        return self.price.break_chances(outcomes, per_s, within_s)

    def _reset_clock(self) -> None:
        """Forget timestamps: the clock went back, or the state comes from another clock."""
        self.load.reset_clock()
        self.steady_load.reset_clock()
        self.patterns.reset_clock()
        self._arrived_before = None
        self.forecaster.reset_clock()
        self.price.reset_clock()
        self.scale_in.reset_clock()
        for calibrator in self.calibrators.values():
            calibrator.reset_clock()
        self.last_sample = None

    def _learn_from_counters(self, before: Sample, sample: Sample, instances: Instances) -> None:
        """Treat the records done in the busy time between two readings as a batch, for engines without batches.

        Where instances joined or left meanwhile, it is not known how many did the work.
        """
        if self._ready_before not in (None, instances.ready):
            return
        if sample.warming or None in (before.done, sample.done, before.busy_s, sample.busy_s, sample.available_s):
            return
        available_s = _difference(sample.available_s, before.available_s)
        busy = _difference(sample.busy_s, before.busy_s) / available_s if available_s > 0 else 0.0
        if busy > 0:
            took_s = min(1.0, busy) * (sample.at_s - before.at_s)
            self.batch_time.learn(_difference(sample.done, before.done), instances.ready, took_s)

    def _arrived(self, sample: Sample) -> float | None:
        """Return the counter of arrived records, integrated from rates if the engine does not count."""
        if sample.arrived is not None:
            self._is_counted = True
            return float(sample.arrived)
        if sample.input_rate_per_s is None or self._is_counted:
            return None  # A counter that is missing once must not be mixed with integrated rates.
        if math.isfinite(self.last_sample_s):
            self._counted += float(sample.input_rate_per_s) * (sample.at_s - self.last_sample_s)
        return self._counted

    def to_json(self) -> dict[str, JSON]:
        return {
            "load": self.load.to_json(),
            "steady_load": self.steady_load.to_json(),
            "patterns": self.patterns.to_json(),
            "arrived": None if self._arrived_before is None else list(self._arrived_before),
            "expected": self._expected_before,
            "outlook": self.forecaster.to_json(),
            "service": self.batch_time.to_json(),
            "price": self.price.to_json(),
            "grades": {name: calibrator.to_json() for name, calibrator in self.calibrators.items()},
            "patience": self.scale_in.to_json(),
            "standstill": self.downtime.to_json(),
            "strain": self.strain,
            "seen_s": None if math.isinf(self.last_sample_s) else self.last_sample_s,
            "counted": self._counted,
        }

    def restore(self, saved: Mapping[str, JSON]) -> None:
        self.load = LoadHistory.from_json(saved["load"])
        self.steady_load = LoadHistory.from_json(saved["steady_load"])
        self.patterns = ClockPatterns.from_json(saved["patterns"])
        arrived = saved["arrived"]
        self._arrived_before = None if arrived is None else (float(arrived[0]), float(arrived[1]))
        self._expected_before = float(saved["expected"])
        self.forecaster = ScenarioForecaster.from_json(saved["outlook"])
        self.batch_time = BatchTimeModel.from_json(saved["service"])
        self.price.restore(saved["price"])
        self.scale_in.restore(saved["patience"])
        self.downtime.restore(saved.get("standstill", ()))
        self.strain = float(saved.get("strain", 1.0))
        for name, calibrator in self.calibrators.items():
            if name in saved["grades"]:
                calibrator.restore(saved["grades"][name])
        self.last_sample_s = -math.inf if saved["seen_s"] is None else float(saved["seen_s"])
        self._counted = float(saved["counted"])


def _difference(after: float | None, before: float | None) -> float:
    return float(after or 0.0) - float(before or 0.0)

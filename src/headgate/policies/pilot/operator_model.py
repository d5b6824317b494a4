"""All that autopilot knows of one operator: its load, its service, its price of lateness, and how well it foretells."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headgate.core.slo import By, Slo
from headgate.core.types import JSON, Batch, Instances, Instant, Sample
from headgate.policies.pilot.batch_time import FEWEST, LEAST_GAMMA, ServiceModel
from headgate.policies.pilot.calibration import Grades
from headgate.policies.pilot.late_price import LatePrice
from headgate.policies.pilot.load import BIN_S, LoadHistory
from headgate.policies.pilot.load_scenarios import Outlook
from headgate.policies.pilot.rescale_downtime import Standstill
from headgate.policies.pilot.scale_in_window import Patience

YOUNG_BINS = 90
"""A quarter of an hour."""
RISE_BINS = 60
STRAINS, MOST_STRAIN = 1.1, 1.5
"""Each time that a job stays late, work is taken to be so much more than was foretold, up to so much."""
STRAIN_HALF_LIFE_S = 3600.0


def _grades() -> dict[str, Grades]:
    # Sizes are whole numbers: what is expected may be beside the mark by one.
    return {"rate_per_s": Grades(), "backlog": Grades(), "latency_s": Grades(), "instances": Grades(slack=1.0)}


@dataclass(slots=True)
class Learned:
    slo: Slo
    price: LatePrice
    load: LoadHistory = field(default_factory=LoadHistory)
    outlook: Outlook = field(default_factory=Outlook)
    service: ServiceModel = field(default_factory=ServiceModel)
    grades: Mapping[str, Grades] = field(default_factory=_grades)
    """How well it foretells, by what."""
    patience: Patience = field(default_factory=Patience)
    standstill: Standstill = field(default_factory=Standstill)
    """What a change of size costs in time."""
    strain: float = 1.0
    """By how much more work there is taken to be than batches tell."""
    late_since_s: Instant | None = None
    """Since when records are late at the size there is; of a job that stands still for changes."""
    seen: Sample | None = None
    """The newest reading that was taken in."""
    seen_s: Instant = -math.inf
    _counted: float = 0.0

    @property
    def is_young(self) -> bool:
        """Whether too little is known of such a load to rely on what it did before."""
        return len(self.load) < YOUNG_BINS or self.load.is_beyond_experience

    @property
    def coefficients(self) -> tuple[float, float]:
        """What to reckon with for a batch: its fixed part in seconds, and the seconds per record, on one instance."""
        fixed_s, each_s = self.service.careful_coefficients if self.is_young else self.service.coefficients
        return fixed_s, self.strain * each_s

    def instances_for(self, rate_per_s: float, cycle_s: float) -> float:
        """The size at which a batch of one cycle's records takes just one cycle."""
        fixed_s, each_s = self.coefficients
        service = self.service
        spare_s = max(0.1 * cycle_s, cycle_s - fixed_s * (1 - service.divided))
        work_s = each_s * rate_per_s * cycle_s + fixed_s * service.divided
        return math.pow(max(1e-9, work_s / spare_s), 1 / max(LEAST_GAMMA, service.gamma))

    def fewest_by(self, size: int, rate_per_s: float, cycle_s: float) -> int:
        """The fewest that keep up, by what is known of ``size`` alone: as if each that goes were missed in full.

        Where more instances have hardly helped, it does not follow that fewer will do.
        """
        fixed_s, each_s = self.coefficients
        service = self.service
        power = math.pow(max(1, size), service.gamma)
        took_s = fixed_s * (1 - service.divided + service.divided / power) + each_s * rate_per_s * cycle_s / power
        return math.ceil(size * took_s / cycle_s)

    def stays_late(self, sample: Sample, instances: Instances, bound_s: float, for_s: float) -> bool:
        """Whether records have been late for ``for_s`` at the size there is, though it was taken to be enough.

        Near what it can do, a little more work than was foretold makes records late for good. Where a change is cheap
        the price of late records sees to that; a job that stands still for one would put it off for ever.
        """
        before_s = sample.at_s if self.seen is None else self.seen.at_s
        if self.strain > 1:
            self.strain = 1 + (self.strain - 1) * 0.5 ** (max(0.0, sample.at_s - before_s) / STRAIN_HALF_LIFE_S)
        is_late = (sample.latency_s or 0.0) > bound_s
        if not is_late or instances.pending or self.standstill.usual_s <= 0:
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
        """How many more instances were needed with each second of the last ten minutes."""
        rates_per_s = self.load.recent(RISE_BINS) / BIN_S
        third = len(rates_per_s) // 3
        if third < 1:
            return 0.0
        early, late = (float(some.mean()) for some in (rates_per_s[:third], rates_per_s[-third:]))
        grown = self.instances_for(late, cycle_s) - self.instances_for(early, cycle_s)
        return grown / ((len(rates_per_s) - third) * BIN_S)

    def was_idle(self, sample: Sample, bins: int) -> bool:
        """Whether nothing has come for so long, as far as is known, and nothing waits."""
        return (sample.backlog or 0.0) < 1 and float(self.load.counts(bins).sum()) < 1

    def take_in(self, sample: Sample, batches: Sequence[Batch], instances: Instances) -> None:
        """Learn from a new reading, and from the batches that ended since the last one."""
        if sample.at_s < self.seen_s:
            self.standstill.begin_anew()
        self.standstill.notice(sample.at_s, instances)
        for batch in batches:
            ready = instances.ready if batch.instances is None else batch.instances
            worked_s = batch.processing_time_s - self.standstill.in_batch_s(batch, self._expected_s(batch))
            self.service.learn(batch.records, ready, worked_s, cold=batch.warming)
        if sample.at_s == self.seen_s:
            return
        if sample.at_s < self.seen_s:
            self._begin_anew()
        before = self.seen
        self.standstill.judge(before, sample)
        if sample.batch_ended_s is None and before is not None:
            self._learn_from_counters(before, sample, instances)
        arrived = self._arrived(sample)
        if arrived is not None:
            self.outlook.observe(self.load, self.load.add(sample.at_s, arrived))
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
                self.grades[name].grade(sample.at_s, float(value))
        self.seen, self.seen_s = sample, sample.at_s

    def _expected_s(self, batch: Batch) -> float | None:
        """What a batch takes on the smallest size that it may have had, while a change is watched."""
        fewest = self.standstill.fewest
        if fewest is None or self.service.batches < FEWEST:
            return None
        return float(self.service.batch_s(batch.records, fewest))

    def _count_late(self, before: Sample, sample: Sample) -> None:
        """Tell the price what was delivered since the reading before, by what is asked: records, or time."""
        if self.slo.by is By.TIME:
            is_missed, elapsed_s = self.slo.violated_by(sample), sample.at_s - before.at_s
            if is_missed is not None:
                self.price.observe(sample.at_s, elapsed_s, elapsed_s if is_missed else 0.0)
        elif None not in (before.arrived, before.late, sample.arrived, sample.late):
            came = max(0.0, _less(sample.arrived, before.arrived))
            self.price.observe(sample.at_s, came, max(0.0, _less(sample.late, before.late)))

    def _begin_anew(self) -> None:
        """The clock went back, or what was learned comes from another one: what tells times is let go of."""
        self.load.begin_anew()
        self.outlook.begin_anew()
        self.price.begin_anew()
        self.patience.begin_anew()
        for grades in self.grades.values():
            grades.begin_anew()
        self.seen = None

    def _learn_from_counters(self, before: Sample, sample: Sample, instances: Instances) -> None:
        """An engine without batches: what was done, in the time that its slots were busy, is as good as one."""
        if sample.warming or None in (before.done, sample.done, before.busy_s, sample.busy_s, sample.available_s):
            return
        available_s = _less(sample.available_s, before.available_s)
        busy = _less(sample.busy_s, before.busy_s) / available_s if available_s > 0 else 0.0
        if busy > 0:
            took_s = min(1.0, busy) * (sample.at_s - before.at_s)
            self.service.learn(_less(sample.done, before.done), instances.ready, took_s)

    def _arrived(self, sample: Sample) -> float | None:
        """Records that have arrived; where an engine counts none, what its rates add up to."""
        if sample.arrived is not None:
            return float(sample.arrived)
        if sample.input_rate_per_s is None:
            return None
        if math.isfinite(self.seen_s):
            self._counted += float(sample.input_rate_per_s) * (sample.at_s - self.seen_s)
        return self._counted

    def to_json(self) -> dict[str, JSON]:
        return {
            "load": self.load.to_json(),
            "outlook": self.outlook.to_json(),
            "service": self.service.to_json(),
            "price": self.price.to_json(),
            "grades": {name: one.to_json() for name, one in self.grades.items()},
            "patience": self.patience.to_json(),
            "standstill": self.standstill.to_json(),
            "strain": self.strain,
            "seen_s": None if math.isinf(self.seen_s) else self.seen_s,
            "counted": self._counted,
        }

    def restore(self, saved: Mapping[str, JSON]) -> None:
        self.load = LoadHistory.from_json(saved["load"])
        self.outlook = Outlook.from_json(saved["outlook"])
        self.service = ServiceModel.from_json(saved["service"])
        self.price.restore(saved["price"])
        self.patience.restore(saved["patience"])
        self.standstill.restore(saved.get("standstill", ()))
        self.strain = float(saved.get("strain", 1.0))
        for name, one in self.grades.items():
            if name in saved["grades"]:
                one.restore(saved["grades"][name])
        self.seen_s = -math.inf if saved["seen_s"] is None else float(saved["seen_s"])
        self._counted = float(saved["counted"])


def _less(after: float | None, before: float | None) -> float:
    return float(after or 0.0) - float(before or 0.0)

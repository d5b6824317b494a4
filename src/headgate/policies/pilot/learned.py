"""All that autopilot knows of one operator: its load, its service, its price of lateness, and how well it foretells."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headgate.core.types import JSON, Batch, Instant, Sample
from headgate.policies.pilot.grades import Grades
from headgate.policies.pilot.load import LoadHistory
from headgate.policies.pilot.outlook import Outlook
from headgate.policies.pilot.price import LatePrice
from headgate.policies.pilot.service import ServiceModel


@dataclass(slots=True)
class Learned:
    price: LatePrice
    load: LoadHistory = field(default_factory=LoadHistory)
    outlook: Outlook = field(default_factory=Outlook)
    service: ServiceModel = field(default_factory=ServiceModel)
    grades: Grades = field(default_factory=Grades)
    choices: deque[tuple[Instant, int]] = field(default_factory=deque)
    """What was found right lately, oldest first."""
    seen_s: Instant = -math.inf
    _arrived: float | None = None
    _late: float | None = None
    _counted: float = 0.0

    def take_in(self, sample: Sample, batches: Sequence[Batch]) -> None:
        """Learn from a new reading, and from the batches that ended since the last one."""
        for batch in batches:
            if batch.instances:
                self.service.learn(batch.records, batch.instances, batch.processing_time_s, cold=batch.warming)
        if sample.at_s <= self.seen_s:
            return
        arrived = self._counter(sample)
        if arrived is not None:
            self.outlook.observe(self.load, self.load.add(sample.at_s, arrived))
            if None not in (self._arrived, self._late, sample.late):
                came = max(0.0, arrived - (self._arrived or 0.0))
                late = max(0.0, float(sample.late or 0.0) - (self._late or 0.0))
                self.price.observe(sample.at_s, came, late)
        if sample.backlog is not None:
            self.grades.grade(sample.at_s, float(sample.backlog))
        self._arrived = arrived
        self._late = None if sample.late is None else float(sample.late)
        self.seen_s = sample.at_s

    def _counter(self, sample: Sample) -> float | None:
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
            "grades": self.grades.to_json(),
            "choices": [list(choice) for choice in self.choices],
            "seen_s": None if math.isinf(self.seen_s) else self.seen_s,
            "arrived": self._arrived,
            "late": self._late,
            "counted": self._counted,
        }

    @classmethod
    def from_json(cls, saved: Mapping[str, JSON], allowed_share: float) -> Learned:
        price = LatePrice(allowed_share)
        price.restore(saved["price"])
        return cls(
            price,
            LoadHistory.from_json(saved["load"]),
            Outlook.from_json(saved["outlook"]),
            ServiceModel.from_json(saved["service"]),
            Grades.from_json(saved["grades"]),
            deque((float(at_s), int(choice)) for at_s, choice in saved["choices"]),
            -math.inf if saved["seen_s"] is None else float(saved["seen_s"]),
            None if saved["arrived"] is None else float(saved["arrived"]),
            None if saved["late"] is None else float(saved["late"]),
            float(saved["counted"]),
        )

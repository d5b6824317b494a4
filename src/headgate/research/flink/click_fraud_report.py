"""The figures that giannakopoulos reports, of our runs: violations, scale-outs and whether in time, TaskManagers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from headgate.core.slo import SlowShareSlo
from headgate.core.types import JSON, Decision
from headgate.research.flink.click_fraud import FraudRan
from headgate.research.flink.measured import changes, seconds
from headgate.research.giannakopoulos import SWITCHED

RESCALED = "rescaled"


@dataclass(frozen=True)
class FraudReport:
    """Figures of one run. ``discarded_s`` of readings after a change do not count, as in the document."""

    ran: FraudRan
    discarded_s: float

    @property
    def bound(self) -> float:
        slo = self.ran.run.objective.slo
        assert isinstance(slo, SlowShareSlo)
        return slo.share

    def violations_s(self) -> list[float]:
        """When a reading violated the objective, counted from the beginning of the load."""
        return [
            at_s - self.ran.began_s
            for at_s, share in self.ran.slow_shares()
            if share > self.bound and not self._is_discarded(at_s)
        ]

    def readings(self) -> int:
        return sum(not self._is_discarded(at_s) for at_s, _ in self.ran.slow_shares())

    def _is_discarded(self, at_s: float) -> bool:
        return any(
            began_s - pause_s <= at_s < began_s + self.discarded_s
            for event in self.ran.events
            if event.kind == RESCALED
            and isinstance(pause_s := event.numbers.get("pause_s"), float)
            and (began_s := event.at_s)
        )

    def explored_s(self) -> float | None:
        """How long the source was explored before optimal control began; ``None`` where that never was."""
        source = self.ran.source
        found = [event for event in self.ran.events if event.kind == SWITCHED and source in event.detail]
        return found[0].at_s - self.ran.began_s - self.ran.run.settled_s if found else None

    def scale_outs(self, *, is_control: bool) -> list[Decision]:
        """The decisions to have more of what reads the topic, in exploration or in optimal control."""
        found = []
        for decision in self.ran.decisions:
            verdict = decision.verdicts.get(self.ran.source)
            if verdict is not None and verdict.change > 0:
                mode = verdict.numbers.get("mode", "exploration")
                if is_control == (mode != "exploration"):
                    found.append(decision)
        return found

    def ahead(self, decisions: Sequence[Decision], lately_s: float) -> int:
        """How many of them were made though nothing had been violated lately."""
        violations_s = [self.ran.began_s + at_s for at_s in self.violations_s()]
        return sum(not any(0 <= decision.at_s - at_s <= lately_s for at_s in violations_s) for decision in decisions)

    def mean_task_managers(self, from_s: float = 0.0, to_s: float = math.inf) -> float:
        """Over the part of the load between the two, from when the job was scaled on."""
        return self._mean([(one.at_s, float(one.task_managers)) for one in changes(self.ran.had)], from_s, to_s)

    def mean_slots(self) -> float:
        return self._mean([(one.at_s, float(one.slots)) for one in changes(self.ran.had)], 0.0, math.inf)

    def _mean(self, course: Sequence[tuple[float, float]], from_s: float, to_s: float) -> float:
        began_s = self.ran.began_s
        first_s = began_s + max(from_s, self.ran.run.settled_s)
        last_s = min(began_s + to_s, self.ran.ended_s)
        return seconds(course, first_s, last_s) / (last_s - first_s)

    def course(self) -> dict[str, JSON]:
        """For those who draw it themselves."""
        ran = self.ran
        steps = list(changes(ran.had))
        return {
            "policy": ran.run.policy,
            "bound": self.bound,
            "load": [(round(at_s - ran.began_s, 1), round(value, 1)) for at_s, value in ran.comes_per_s],
            "slow": [(round(at_s - ran.began_s, 1), round(share, 3)) for at_s, share in ran.slow_shares()],
            "slots": [(round(max(0.0, one.at_s - ran.began_s), 1), one.slots) for one in steps],
            "task_managers": [(round(max(0.0, one.at_s - ran.began_s), 1), one.task_managers) for one in steps],
            "events": [
                {"at_s": round(event.at_s - ran.began_s, 1), "kind": event.kind, "detail": event.detail}
                for event in ran.events
            ],
            "sizes": [
                {
                    "at_s": round(decision.at_s - ran.began_s, 1),
                    "sizes": {one.operator: [one.current, one.target] for one in decision.verdicts.values()},
                    "why": decision.verdicts[ran.source].reason if ran.source in decision.verdicts else "",
                }
                for decision in ran.decisions
                if not decision.is_hold
            ],
        }

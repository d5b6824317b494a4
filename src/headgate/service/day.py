"""What a job had in the last day: instance hours, and the most instances at once, to be held against a fixed size.

>>> from headgate.core.types import Instances
>>> day = Day(("job",))
>>> for hour, size in enumerate((2, 2, 6, 2)):
...     day(Observation(3600.0 * hour, {}, {"job": Instances(size, size, size)}), None)
>>> used = day.used(3 * 3600.0)
>>> round(used.instance_hours, 3), used.known_s / 3600, used.most, round(used.fixed_hours, 3)
(10.0, 3.0, 6, 18.0)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headgate.core.slo import DAY_S
from headgate.core.spending import SpendingKeeper, paid_instances
from headgate.core.types import Decision, Instant, Observation

HOUR_S = 3600.0
_PARTS = 24
"""The most instances are kept for each of so many parts of the day."""


@dataclass(frozen=True, slots=True)
class Used:
    """Of the last day, as far as it is known."""

    instance_hours: float
    known_s: float
    most: int
    """The most instances of all operators together."""

    @property
    def fixed_hours(self) -> float:
        """What a job of that size would have had in the same time."""
        return self.most * self.known_s / HOUR_S

    @property
    def saved(self) -> float | None:
        """The share that was saved against it; ``None`` while nothing is known."""
        return 1 - self.instance_hours / self.fixed_hours if self.fixed_hours > 0 else None


class Day:
    """Counts for one job; a watcher of its loop."""

    def __init__(self, operators: Sequence[str]) -> None:
        self._hours = SpendingKeeper(dict.fromkeys(operators, 1.0))
        self._most: dict[int, int] = {}

    def __call__(self, observation: Observation | None, decision: Decision | None) -> None:
        if observation is None:
            return
        self._hours.observe(observation)
        part = int(observation.at_s * _PARTS // DAY_S)
        size = sum(paid_instances(one) for one in observation.instances.values())
        if part not in self._most:
            self._most = {old: most for old, most in self._most.items() if old > part - _PARTS}
        self._most[part] = max(size, self._most.get(part, 0))

    def used(self, now: Instant) -> Used:
        hours, known_s = self._hours.spent(DAY_S, now)
        return Used(hours, known_s, max(dict(self._most).values(), default=0))

"""Rescales of many jobs one after the other: a cluster that is asked by all at once serves nobody.

At most so many changes of size begin in any span of a given length. Who has to wait is asked for again with its next
decision; a place that becomes free goes to whoever comes first by priority, need and budget, and not to whoever happens
to ask next. Who has waited for long comes before all others.

>>> pacer = Pacer(Pace(rescales=1, per_s=10.0))
>>> [pacer.ask(at_s, name, Urgency(budget_left=left)) for at_s, name, left in (
...     (0.0, "calm", 0.9), (1.0, "calmer", 0.9), (2.0, "broken", -0.5), (10.0, "calmer", 0.9), (10.0, "broken", -0.5))]
[True, False, False, False, True]
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass

from headgate.core.errors import InputError
from headgate.core.types import Instant

LONGEST_WAIT = 6.0
"""Who has waited for so many spans comes first, whatever the others need."""
FORGOTTEN_AFTER = 3.0
"""Who has not asked again for so many spans does not want it any more."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How many changes of size may begin in any span of ``per_s`` seconds."""

    rescales: int
    per_s: float = 10.0

    def __post_init__(self) -> None:
        if self.rescales < 1:
            raise InputError(f"pace of {self.rescales} rescales is not allowed; it must be at least 1.")
        if not 0 < self.per_s < float("inf"):
            raise InputError(f"pace per {self.per_s} s is not allowed; it must be finite and above 0.")

    def __str__(self) -> str:
        return f"{self.rescales} rescales per {self.per_s:g} s"


@dataclass(frozen=True, slots=True)
class Urgency:
    """How much a change of size matters."""

    priority: int = 0
    grows: bool = True
    """Or makes room for others; what only saves money comes after that."""
    budget_left: float | None = None

    @property
    def rank(self) -> tuple[int, int, float]:
        """Less comes first."""
        return -self.priority, 0 if self.grows else 1, 1.0 if self.budget_left is None else self.budget_left


@dataclass(slots=True)
class _Waiting:
    since_s: Instant
    asked_s: Instant
    rank: tuple[int, int, float]


class Pacer:
    """Says who may change its size now."""

    def __init__(self, pace: Pace) -> None:
        self.pace = pace
        self._begun: deque[Instant] = deque()
        self._waiting: dict[Hashable, _Waiting] = {}

    def ask(self, now: Instant, who: Hashable, urgency: Urgency) -> bool:
        """Whether a change may begin now; it is counted if it may."""
        self._forget(now)
        known = self._waiting.get(who)
        mine = _Waiting(now if known is None else known.since_s, now, urgency.rank)
        self._waiting[who] = mine
        place = self._place(now, mine)
        before = sum(self._place(now, other) < place for other in self._waiting.values())
        if before >= self.pace.rescales - len(self._begun):
            return False
        del self._waiting[who]
        self._begun.append(now)
        return True

    def forget(self, who: Hashable) -> None:
        """It does not want to change any more."""
        self._waiting.pop(who, None)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def _place(self, now: Instant, one: _Waiting) -> tuple[int, tuple[int, int, float], Instant]:
        overdue = now - one.since_s >= LONGEST_WAIT * self.pace.per_s
        return (0, (0, 0, 0.0), one.since_s) if overdue else (1, one.rank, one.since_s)

    def _forget(self, now: Instant) -> None:
        while self._begun and now - self._begun[0] >= self.pace.per_s:
            self._begun.popleft()
        late_s = now - FORGOTTEN_AFTER * self.pace.per_s
        for who in [who for who, one in self._waiting.items() if one.asked_s < late_s]:
            del self._waiting[who]

"""Contracts of the supervisor of a query, which Spark or a test's stand-in implements."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from types import MappingProxyType
from typing import Protocol

from headgate.core.types import NO_NUMBERS, Instant, Number, Severity
from headgate.engines.spark.query_plan import Plan

GUESSED_RESTART_S = 3.0
GUESSED_REPARTITION_S = 10.0
RETAINED = 5
"""Only so many of the newest pauses of a kind count, because state grows."""


class Pauses:
    """How long a query is down when its plan changes: measured, or guessed before the first time.

    Pauses in which state is repartitioned are counted separately.

    >>> pauses = Pauses()
    >>> pauses.expected_s(repartitions=True)
    10.0
    >>> pauses.add(4.0, repartitions=True)
    >>> pauses.expected_s(repartitions=True)
    4.0
    """

    def __init__(self, known_s: Mapping[bool, Sequence[float]] = MappingProxyType({})) -> None:
        self._known = {kind: deque(known_s.get(kind, ()), maxlen=RETAINED) for kind in (True, False)}

    def add(self, seconds: float, *, repartitions: bool) -> None:
        self._known[repartitions].append(seconds)

    def known_s(self, *, repartitions: bool) -> tuple[float, ...]:
        """Return the measured pauses, oldest first."""
        return tuple(self._known[repartitions])

    def expected_s(self, *, repartitions: bool) -> float:
        known = self._known[repartitions]
        if known:
            return float(median(known))
        return GUESSED_REPARTITION_S if repartitions else GUESSED_RESTART_S


class ReportEvent(Protocol):
    """Reports an event of the query."""

    def __call__(
        self,
        kind: str,
        detail: str,
        numbers: Mapping[str, Number] = NO_NUMBERS,
        severity: Severity = Severity.INFO,
    ) -> None: ...


@dataclass(frozen=True, slots=True)
class PlanChange:
    """Another plan for the query, and why."""

    plan: Plan
    reason: str
    expected_pause_s: float = 0.0


class Host(Protocol):
    """Starts and stops one query. A failure to start is an exception whose text describes it."""

    def start(self, plan: Plan) -> None: ...

    def stop(self, within_s: float) -> bool:
        """Stop it; return whether that happened between two batches."""
        ...

    @property
    def is_running(self) -> bool: ...

    @property
    def failure(self) -> str | None:
        """Why the query has ended since its last start; ``None`` if nothing failed."""
        ...

    @property
    def first_batch_s(self) -> float | None:
        """How long the first batch since the last start took; ``None`` before it has ended."""
        ...

    def set_cap(self, records: int) -> bool:
        """Limit the batches of the running query; return whether that is possible without a restart."""
        ...

    def repartition(self, partitions: int) -> None:
        """Spread the state of the stopped query over so many partitions, or complete an interrupted change."""
        ...


class Advises(Protocol):
    """Advises plans for the query."""

    def advise(self, plan: Plan) -> PlanChange | None:
        """Return another plan, if the query needs it now."""
        ...

    def started(self, at_s: float) -> None:
        """The query was started."""
        ...

    def cap_refused(self) -> None:
        """The limit of a running query cannot be changed without a restart."""
        ...

    def partitions_refused(self) -> None:
        """The state of this query cannot be repartitioned."""
        ...


class Repartitions(Protocol):
    """Spreads the state of a stopped query over another number of partitions."""

    @property
    def partitions(self) -> int | None:
        """How many there are; ``None`` before the first batch."""
        ...

    def change(self, after: int, now: Instant) -> None: ...

    def recover(self) -> str:
        """Complete or undo an interrupted change; return what was done, or an empty string."""
        ...

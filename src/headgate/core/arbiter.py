"""Arbitrates between jobs that share a cluster: quotas first, then the pace of rescales.

Jobs decide one after the other. As long as everything fits, each gets what it wants at once. Otherwise all demands are
weighed against each other (``quotas.py``) whenever a job wants more than it was granted, and at regular intervals.

A cluster that all jobs ask at once serves none of them, so a limited number of rescales may begin in any time span.
Free places go by priority, need and error budget; a job that has waited long enough comes first.

>>> arbiter = Arbiter([QuotaGroup("shop", Quota(instances=10))])
>>> arbiter.ask(0.0, Demand("search", current=6, wanted=6, group="shop")).instances
6
>>> grant = arbiter.ask(1.0, Demand("orders", current=2, wanted=8, budget_left=0.2, group="shop"))
>>> grant.instances, grant.code
(4, 'waits')
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from headgate.core.errors import InputError
from headgate.core.quota_ledger import EVERYWHERE, NO_LIMIT, Ledger
from headgate.core.quotas import Demand, Grant, OperatorKey, Quota, QuotaGroup, Weighing, still_yielding, weigh
from headgate.core.types import Instant

LONGEST_WAIT = 6.0
"""A job that has waited for this many spans comes first, whatever the others need."""
FORGOTTEN_AFTER = 3.0
"""A job that has not repeated its request for this many spans is dropped."""


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
    requested_s: Instant
    rank: tuple[int, int, float]


class Pacer:
    """Decides which job may change its size now."""

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
        """Drop a request."""
        self._waiting.pop(who, None)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def _place(self, now: Instant, waiting: _Waiting) -> tuple[int, tuple[int, int, float], Instant]:
        overdue = now - waiting.since_s >= LONGEST_WAIT * self.pace.per_s
        return (0, (0, 0, 0.0), waiting.since_s) if overdue else (1, waiting.rank, waiting.since_s)

    def _forget(self, now: Instant) -> None:
        while self._begun and now - self._begun[0] >= self.pace.per_s:
            self._begun.popleft()
        late_s = now - FORGOTTEN_AFTER * self.pace.per_s
        for who in [who for who, waiting in self._waiting.items() if waiting.requested_s < late_s]:
            del self._waiting[who]


REWEIGH_EVERY_S = 1.0
"""While there is not enough for all, demands are weighed at least this often."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits that jobs share."""

    groups: tuple[QuotaGroup, ...] = ()
    cluster: Quota = NO_LIMIT
    pace: Pace | None = None

    @property
    def is_set(self) -> bool:
        """Whether anything is limited at all."""
        return self.pace is not None or any(
            quota.is_set for quota in (self.cluster, *(group.quota for group in self.groups))
        )

    def ledger(self) -> Ledger:
        return Ledger({EVERYWHERE: self.cluster, **{group.name: group.quota for group in self.groups}})


class Arbitration(Protocol):
    """Grants jobs their sizes."""

    def ask(self, now: Instant, demand: Demand) -> Grant: ...


class Arbiter:
    """Arbitrates between jobs that decide one after the other."""

    def __init__(self, groups: Sequence[QuotaGroup] = (), cluster: Quota = NO_LIMIT, pace: Pace | None = None) -> None:
        self._demands: dict[OperatorKey, Demand] = {}
        self._weighed: Weighing | None = None
        self._weighed_s: Instant = float("-inf")
        self.change(Limits(tuple(groups), cluster, pace))

    def change(self, limits: Limits) -> None:
        """Change the limits; demands are retained."""
        self.limits = limits
        self._priorities = {group.name: group.priority for group in limits.groups}
        self._pacer = None if limits.pace is None else Pacer(limits.pace)
        self._recount()

    def expect(self, demand: Demand) -> None:
        """Count an operator before its first demand: others must not grow into what it has."""
        self._put(self._demands.get(demand.key), demand)

    def forget(self, job: str) -> None:
        """Remove the demands of a job that has ended."""
        for key in [key for key in self._demands if key.job == job]:
            del self._demands[key]
            if self._pacer is not None:
                self._pacer.forget(key)
        self._recount()

    def ask(self, now: Instant, demand: Demand) -> Grant:
        """Return what an operator may have now."""
        grant = self._shared(now, demand)
        if self._pacer is not None:
            grant = self._paced(now, demand, grant, self._pacer)
        # What was granted is no longer free, even before the operator reports it.
        self._demands[demand.key] = replace(demand, held=max(demand.in_use, grant.instances))
        return grant

    @property
    def waiting(self) -> int:
        """Number of jobs that wait for their turn to rescale."""
        return 0 if self._pacer is None else self._pacer.waiting

    @property
    def short(self) -> dict[OperatorKey, Grant]:
        """Operators that got less than they want, and why."""
        weighed = self._weighed
        if weighed is None:
            return {}
        return {key: weighed.grant(key) for key in weighed if key in self._demands and weighed.is_short(key)}

    def usage(self) -> dict[tuple[str, int], tuple[float, float]]:
        """Usage and limit of every quota."""
        ledger = self.limits.ledger()
        for demand in self._demands.values():
            ledger.take(demand.group, demand.need, demand.in_use)
        return ledger.usage()

    # ---------------------------------------------------------------------------------------------------- inside

    def _shared(self, now: Instant, demand: Demand) -> Grant:
        key = demand.key
        before = self._demands.get(key)
        self._put(before, demand)
        if not self._wished.is_exceeded:
            self._weighed = None
            return Grant(demand.wanted)
        weighed = self._weighed
        is_changed = _mind(before) != _mind(demand) or now - self._weighed_s >= REWEIGH_EVERY_S
        if weighed is None or is_changed or not weighed.answers(demand):
            demands = [still_yielding(other, weighed) for other in self._demands.values()]
            weighed = self._weighed = weigh(demands, self.limits.groups, self.limits.cluster)
            self._weighed_s = now
        return weighed.grant(key, demand.wanted)

    def _put(self, before: Demand | None, demand: Demand) -> None:
        """Count what all demands would take together, instances that still leave included."""
        if before is not None:
            self._wished.take(before.group, before.need, -_most(before))
        self._wished.take(demand.group, demand.need, _most(demand))
        self._demands[demand.key] = demand

    def _recount(self) -> None:
        self._wished = self.limits.ledger()
        for demand in self._demands.values():
            self._wished.take(demand.group, demand.need, _most(demand))

    def _paced(self, now: Instant, demand: Demand, grant: Grant, pacer: Pacer) -> Grant:
        if grant.instances == demand.current:
            pacer.forget(demand.key)
            return grant
        makes_room = grant.is_short and grant.instances < demand.current
        urgency = Urgency(
            # Others may wait for these instances and cannot start before this job has given them up.
            max(self._priorities.values(), default=0) if makes_room else demand.priority_in(self._priorities),
            grows=grant.instances > demand.current or grant.is_short,
            budget_left=demand.budget_left,
        )
        if pacer.ask(now, demand.key, urgency):
            return grant
        text = f"{pacer.waiting} jobs wait for their turn to change their size, {pacer.pace} are allowed"
        return Grant(demand.current, "paced", f"{text}; {grant.why}" if grant.why else text, grant.gives_way_to)


def _most(demand: Demand) -> int:
    return max(demand.wanted, demand.in_use)


def _mind(demand: Demand | None) -> Demand | None:
    """Return the part of a demand whose change triggers a new weighing; the rest counts at the next one."""
    if demand is None:
        return None
    return replace(demand, budget_left=None, held=None, current=0, wanted=0, needed=None, is_behind=False)

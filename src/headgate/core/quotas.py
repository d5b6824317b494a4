"""Divides a cluster's quotas among many jobs when they do not suffice for all demands.

Every group of jobs has a quota and a priority, and the cluster may have a quota of its own. Instances are granted one
operator after the other, in this order:

1. the minimum of each;
2. by priority: what runs already and the load needs, then what is missing to keep up with the load, then what jobs that
   miss their objective need to catch up;
3. what is wanted beyond that: a reserve.

Within each step the objective that has less of its error budget left comes first, so that the one with the most left
gives way first; its grant names the jobs it gives way to. A shortage is not passed round among jobs that run with what
they need: each would be late in turn, and every turn costs the start of instances.

A job that has given way continues to do so until it is clearly worse off than another. Its instances are granted to
another job only when they have left: the quota holds for what runs, not only for what is planned.

>>> shop = QuotaGroup("shop", Quota(instances=10), priority=1)
>>> demands = [Demand("orders", current=4, wanted=8, budget_left=0.1, group="shop"),
...            Demand("search", current=6, wanted=6, budget_left=0.9, group="shop")]
>>> for key, grant in arbitrate(demands, [shop]).items():
...     print(key.job, grant.instances, grant.code, "-", grant.why)
orders 4 waits - 4 of 8 until instances of others have left: 10 of 10 instances of group shop are in use
search 2 gives-way - 2 of 6: it gives way to orders (10 % of its budget left): group shop may have 10 instances
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from headgate.core.errors import InputError
from headgate.core.quota_ledger import ANY_NEED, EVERYWHERE, NO_LIMIT, Ledger, Need, Place, Quota

STICKINESS = 0.1
"""By how much of its budget a job that gives way must be worse off than another before the two change places."""


class OperatorKey(NamedTuple):
    """An operator of a job."""

    job: str
    operator: str

    def __str__(self) -> str:
        return self.job if self.operator in ("job", self.job) else f"{self.job}/{self.operator}"


@dataclass(frozen=True, slots=True)
class QuotaGroup:
    """Jobs that share a quota."""

    name: str
    quota: Quota = NO_LIMIT
    priority: int = 0
    """Of two groups the one with the higher number comes first."""

    def __post_init__(self) -> None:
        if not self.name or self.name == EVERYWHERE:
            raise InputError(f"group name {self.name!r} is not allowed; any other name is that is not empty.")


@dataclass(frozen=True, slots=True)
class Demand:
    """What one operator has, wants and needs, by its own policy and guards."""

    job: str
    operator: str = "job"
    current: int = 0
    """Instances that are planned."""
    wanted: int = 0
    minimum: int = 0
    """Where only some sizes are possible, one of them."""
    held: int | None = None
    """Instances that there are, those to come and those that are leaving included; ``None``: as planned."""
    need: Need = ANY_NEED
    """What one instance takes."""
    needed: int | None = None
    """Instances that keep up with what arrives; ``None``: not known, so all that it wants may be needed, and nothing of
    what it has is certain to be."""
    is_behind: bool = False
    """Whether its objective is missed just now: what it wants beyond its load is to catch up, and no mere reserve."""
    budget_left: float | None = None
    """The share of the error budget that is left, below 0 where the objective is broken; ``None``: not known yet,
    which counts as all of it."""
    group: str = ""
    priority: int | None = None
    """Its own, in place of that of its group."""
    allowed: tuple[int, ...] | None = None
    """The only sizes that are possible, rising; ``None``: any."""
    yielding: bool = False
    """Whether it gave way the last time."""

    @property
    def key(self) -> OperatorKey:
        return OperatorKey(self.job, self.operator)

    @property
    def in_use(self) -> int:
        return self.current if self.held is None else max(0, self.held)

    @property
    def floor(self) -> int:
        """The minimum, which comes before any growth of others, or less where less is wanted."""
        return min(self.minimum, self.wanted)

    @property
    def keeping_up(self) -> int:
        """Instances that the load needs."""
        return self.wanted if self.needed is None else self._rounded(self.needed)

    @property
    def running(self) -> int:
        """Instances that it has and the load needs."""
        return self.floor if self.needed is None else min(self.keeping_up, self.current)

    @property
    def urgent(self) -> int:
        """Instances that the objective needs, to keep up or to catch up; the rest is a reserve."""
        return self.wanted if self.is_behind else self.keeping_up

    @property
    def rank(self) -> float:
        """Lower ranks come first."""
        left = 1.0 if self.budget_left is None else self.budget_left
        return left + (STICKINESS if self.yielding else 0.0)

    def priority_in(self, groups: Mapping[str, int]) -> int:
        """Its priority, given those of the groups."""
        return groups.get(self.group, 0) if self.priority is None else self.priority

    def possible(self, most: int) -> int:
        """The largest size that is possible and not above this."""
        if self.allowed is None or most >= self.wanted:
            return min(most, self.wanted)
        return max((size for size in self.allowed if size <= most), default=0)

    def _rounded(self, least: int) -> int:
        """The smallest size that is possible and not below this, of those up to what is wanted."""
        if self.allowed is None or least >= self.wanted:
            return min(least, self.wanted)
        return min((size for size in self.allowed if least <= size <= self.wanted), default=self.wanted)


__all__ = ["Demand", "Grant", "Need", "OperatorKey", "Quota", "QuotaGroup", "Weighing", "arbitrate", "weigh"]

NAMED = 3
"""Number of jobs that a grant names as those it gives way to."""
_BY_PRIORITY = (attrgetter("running"), attrgetter("keeping_up"), attrgetter("urgent"))


@dataclass(frozen=True, slots=True)
class Grant:
    """The size that an operator may have now, and why it is less than wanted."""

    instances: int
    code: str = "as-wanted"
    """``as-wanted``, ``gives-way``, ``quota``, ``below-minimum`` or ``waits``."""
    why: str = ""
    gives_way_to: tuple[OperatorKey, ...] = ()
    """The first of the operators that come before it and have more than their minimum."""

    @property
    def is_short(self) -> bool:
        return self.code != "as-wanted"


@dataclass(slots=True)
class _Allotment:
    """The grant for one demand, and the limits that it meets."""

    demand: Demand
    granted: int = 0
    """Instances granted of the plan."""
    limit: Place | None = None
    """The limit that has no room for more."""
    now: int = 0
    """Granted instances that others do not still use."""
    in_the_way: Place | None = None
    """The limit whose instances others still use."""


class Weighing:
    """The result of weighing demands. Grants are made one by one: making all takes longer than weighing.

    - ``shares``: in order of precedence
    """

    def __init__(self, shares: Sequence[_Allotment], planned: Ledger, running: Ledger) -> None:
        self._shares = {share.demand.key: share for share in shares}
        self._planned = planned
        self._running = running

    def __iter__(self) -> Iterator[OperatorKey]:
        return iter(sorted(self._shares))

    def __contains__(self, key: OperatorKey) -> bool:
        return key in self._shares

    def is_yielding(self, key: OperatorKey) -> bool:
        """Whether an operator gets less than its load needs."""
        share = self._shares.get(key)
        return share is not None and share.granted < share.demand.keeping_up

    def is_short(self, key: OperatorKey) -> bool:
        """Whether an operator gets less than it wants."""
        share = self._shares[key]
        return share.now < share.demand.wanted

    def answers(self, demand: Demand) -> bool:
        """Whether the result still holds for a demand that has changed since.

        It does when the demand is within its grant, and when the operator got less than it wants already: wanting more
        gives no more.
        """
        share = self._shares.get(demand.key)
        return share is not None and (demand.wanted <= share.now or self.is_short(demand.key))

    def grant(self, key: OperatorKey, wanted: int | None = None) -> Grant:
        """Return what an operator may have now; its demand may have changed since the weighing."""
        share = self._shares[key]
        demand, granted = share.demand, share.granted
        wanted = demand.wanted if wanted is None else wanted
        if wanted <= share.now:
            return Grant(wanted)
        if share.now < granted:
            in_use = self._running.used(*share.in_the_way) if share.in_the_way else "all"
            why = f"{share.now} of {wanted} until instances of others have left: {in_use} are in use"
            return Grant(share.now, "waits", why)
        assert share.limit is not None, "an operator that gets less than it wants has met a limit"
        limit = self._planned.limit_text(*share.limit)
        whom, others_ahead, relation = self._for_whom(share, share.limit)
        names = ", ".join(f"{other.key} ({_left(other)})" for other in whom)
        others = f" and {others_ahead} more" if others_ahead else ""
        for_them = f"{relation} {names}{others}: " if names else ""
        below = f", below its minimum of {demand.minimum}" if granted < demand.floor else ""
        code = "below-minimum" if below else "gives-way" if names else "quota"
        why = f"{granted} of {wanted}{below}: {for_them}{limit}"
        return Grant(granted, code, why, tuple(other.key for other in whom))

    def _for_whom(self, share: _Allotment, limit: Place) -> tuple[list[Demand], int, str]:
        """Return the first operators with more than their minimum of a limit, how many others, and the relation."""
        ahead: list[Demand] = []
        behind: list[Demand] = []
        found = ahead
        for other in self._shares.values():
            if other is share:
                found = behind
            elif other.granted > other.demand.floor and any(
                place == limit for place, _ in self._planned.counted(other.demand.group, other.demand.need)
            ):
                found.append(other.demand)
        if ahead:
            return ahead[:NAMED], max(0, len(ahead) - NAMED), "it gives way to"
        return behind[:NAMED], max(0, len(behind) - NAMED), "the load of others needs it,"


def arbitrate(
    demands: Iterable[Demand], groups: Sequence[QuotaGroup] = (), cluster: Quota = NO_LIMIT
) -> dict[OperatorKey, Grant]:
    """Return what each operator may have now. The order of the demands makes no difference.

    - All grants together never exceed a quota, and neither does what runs, unless it does so already.
    - No operator gets less than its minimum unless the minima alone exceed a quota, or others have not left yet.
    - Wanting more, or having less budget left, never gives less. With instances that all take the same, a larger quota
      gives no operator less, as long as the minima fit.
    """
    weighed = weigh(demands, groups, cluster)
    return {key: weighed.grant(key) for key in weighed}


def weigh(demands: Iterable[Demand], groups: Sequence[QuotaGroup] = (), cluster: Quota = NO_LIMIT) -> Weighing:
    """Weigh demands against each other; see :func:`arbitrate`."""
    priorities = {group.name: group.priority for group in groups}
    shares = [_Allotment(demand) for demand in sorted(demands, key=lambda demand: _precedence(demand, priorities))]
    planned = Ledger({EVERYWHERE: cluster, **{group.name: group.quota for group in groups}})
    for share in shares:
        _grow(share, share.demand.floor, planned)
    for _, equals in groupby(shares, key=lambda share: share.demand.priority_in(priorities)):
        of_priority = tuple(equals)
        for size in _BY_PRIORITY:
            for share in of_priority:
                _grow(share, size(share.demand), planned)
    for share in shares:
        _grow(share, share.demand.wanted, planned)
    running = planned.emptied()
    _phase(shares, running)
    return Weighing(shares, planned, running)


def _precedence(demand: Demand, priorities: Mapping[str, int]) -> tuple[float, float, OperatorKey]:
    return -demand.priority_in(priorities), demand.rank, demand.key


def _grow(share: _Allotment, wanted: int, ledger: Ledger) -> None:
    """Set aside what still fits, up to a size."""
    demand = share.demand
    missing = wanted - share.granted
    if missing <= 0:
        return
    room, limit = ledger.room(demand.group, demand.need)
    size = wanted if missing <= room else demand.possible(share.granted + math.floor(room))
    share.limit = None if size >= wanted else limit
    if size > share.granted:
        ledger.take(demand.group, demand.need, size - share.granted)
        share.granted = size


def _phase(shares: Sequence[_Allotment], running: Ledger) -> None:
    """Shrink operators that give way first, so that others can grow into what becomes free."""
    for share in shares:
        running.take(share.demand.group, share.demand.need, share.demand.in_use)
    for share in shares:
        demand, more = share.demand, share.granted - share.demand.in_use
        share.now = share.granted
        if more <= 0:
            continue
        room, share.in_the_way = running.room(demand.group, demand.need)
        if more > room:
            share.now = max(demand.in_use, demand.possible(demand.in_use + math.floor(room)))
        running.take(demand.group, demand.need, share.now - demand.in_use)


def _left(demand: Demand) -> str:
    left = demand.budget_left
    if left is None:
        return "budget not known yet"
    return "its budget is used up" if left <= 0 else f"{100 * left:.0f} % of its budget left"


def still_yielding(demand: Demand, weighed: Weighing | None) -> Demand:
    """The same demand, with whether it gave way the last time."""
    yielding = weighed is not None and weighed.is_yielding(demand.key)
    return demand if yielding is demand.yielding else replace(demand, yielding=yielding)

"""Many jobs on one cluster: who gets how many instances when the quotas do not suffice for what all want.

Every group of jobs has a quota and a priority, and the cluster may have a quota of its own. Instances are granted one
operator after the other: first what each needs at least, then what it wants beyond that. A higher priority comes first;
of the same priority, the objective that has less of its error budget left, so that the one with the most left gives way
first. It is told for whom.

Who has given way goes on doing so until its budget is a tenth lower than that of the other: two jobs in the same plight
take turns slowly, and do not swap sizes at every decision. What one gives up is free when its instances have left, and
only then granted to another: the quota holds for what runs, not only for what is planned.

>>> shop = Group("shop", Quota(instances=10), priority=1)
>>> asked = [Demand("orders", current=4, wanted=8, budget_left=0.1, group="shop"),
...          Demand("search", current=6, wanted=6, budget_left=0.9, group="shop")]
>>> for key, grant in arbitrate(asked, [shop]).items():
...     print(key.job, grant.instances, grant.code, "-", grant.why)
orders 4 waits - 4 of 8 until instances of others have left: 10 of 10 instances of group shop are in use
search 2 gives-way - 2 of 6: it gives way to orders (10 % of its budget left): group shop may have 10 instances
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from headgate.core.errors import InputError
from headgate.core.quota_ledger import ANY_NEED, EVERYWHERE, NO_LIMIT, Ledger, Need, Quota

__all__ = ["Demand", "Grant", "Group", "Key", "Need", "Quota", "arbitrate"]

STICKINESS = 0.1
"""By how much of its budget a job that gives way must be worse off than another before the two change places."""
NAMED = 3
"""So many are named of those for whom one gives way."""


class Key(NamedTuple):
    """Which operator of which job."""

    job: str
    operator: str

    def __str__(self) -> str:
        return self.job if self.operator in ("job", self.job) else f"{self.job}/{self.operator}"


@dataclass(frozen=True, slots=True)
class Group:
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
    def key(self) -> Key:
        return Key(self.job, self.operator)

    @property
    def in_use(self) -> int:
        return self.current if self.held is None else max(0, self.held)

    @property
    def floor(self) -> int:
        """What comes before any growth of others; who wants less than its minimum gets what it wants."""
        return min(self.minimum, self.wanted)

    @property
    def rank(self) -> float:
        """Less comes first."""
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


@dataclass(frozen=True, slots=True)
class Grant:
    """What an operator may have now, and why it is not what it wants."""

    instances: int
    code: str = "as-wanted"
    """``as-wanted``, ``gives-way``, ``quota``, ``below-minimum`` or ``waits``."""
    why: str = ""
    gives_way_to: tuple[Key, ...] = ()
    """For whom: the first of those who come before it and have more than their minimum."""

    @property
    def is_short(self) -> bool:
        return self.code != "as-wanted"


@dataclass(slots=True)
class _Share:
    """What is set aside for one demand, and what stands in its way."""

    demand: Demand
    granted: int = 0
    limit: tuple[str, int] | None = None
    """The quota that has no room for more, and of what."""
    ahead: tuple[Demand, ...] = ()
    further: int = 0


def arbitrate(demands: Iterable[Demand], groups: Sequence[Group] = (), cluster: Quota = NO_LIMIT) -> dict[Key, Grant]:
    """What each may have now. The same demands give the same grants, in whatever order they come.

    - All grants together never exceed a quota, and neither does what runs, unless it does so already.
    - Nobody gets less than its minimum unless the minima alone exceed a quota, or others have not left yet.
    - Who wants more, or has less budget left, never gets less for it; with instances that all take the same, a larger
      quota gives nobody less. (As long as the minima fit.)
    """
    priorities = {group.name: group.priority for group in groups}
    shares = [_Share(one) for one in sorted(demands, key=lambda one: _precedence(one, priorities))]
    ledger = Ledger({EVERYWHERE: cluster, **{group.name: group.quota for group in groups}})
    for share in shares:
        _grow(share, share.demand.floor, ledger)
    beneficiaries: dict[tuple[str, int], list[Demand]] = {}
    for share in shares:
        _grow(share, share.demand.wanted, ledger)
        if share.limit is not None:
            ahead = beneficiaries.get(share.limit, [])
            share.ahead, share.further = tuple(ahead[:NAMED]), max(0, len(ahead) - NAMED)
        if share.granted > share.demand.floor:
            for place, _ in ledger.counted(share.demand.group, share.demand.need):
                beneficiaries.setdefault(place, []).append(share.demand)
    return _phased(shares, ledger)


def _precedence(demand: Demand, priorities: Mapping[str, int]) -> tuple[float, float, Key]:
    return -demand.priority_in(priorities), demand.rank, demand.key


def _grow(share: _Share, wanted: int, ledger: Ledger) -> None:
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


def _phased(shares: Sequence[_Share], planned: Ledger) -> dict[Key, Grant]:
    """Let those who give way go first: others grow into what has become free."""
    running = planned.emptied()
    for share in shares:
        running.take(share.demand.group, share.demand.need, share.demand.in_use)
    grants = {}
    for share in shares:
        demand, more = share.demand, share.granted - share.demand.in_use
        room, limit = running.room(demand.group, demand.need) if more > 0 else (0.0, None)
        if more <= room or more <= 0:
            running.take(demand.group, demand.need, max(0, more))
            grants[demand.key] = _told(share, planned)
            continue
        size = max(demand.in_use, demand.possible(demand.in_use + math.floor(room)))
        running.take(demand.group, demand.need, size - demand.in_use)
        in_use = running.used(*limit) if limit else "all"
        why = f"{size} of {demand.wanted} until instances of others have left: {in_use} are in use"
        grants[demand.key] = Grant(size, "waits", why)
    return {share.demand.key: grants[share.demand.key] for share in sorted(shares, key=lambda one: one.demand.key)}


def _told(share: _Share, ledger: Ledger) -> Grant:
    demand, granted = share.demand, share.granted
    if share.limit is None:
        return Grant(granted)
    limit = ledger.told(*share.limit)
    names = ", ".join(f"{one.key} ({_left(one)})" for one in share.ahead)
    others = f" and {share.further} more" if share.further else ""
    whom = f"it gives way to {names}{others}: " if names else ""
    below = f", below its minimum of {demand.minimum}" if granted < demand.floor else ""
    code = "below-minimum" if below else "gives-way" if names else "quota"
    why = f"{granted} of {demand.wanted}{below}: {whom}{limit}"
    return Grant(granted, code, why, tuple(one.key for one in share.ahead))


def _left(demand: Demand) -> str:
    left = demand.budget_left
    if left is None:
        return "budget not known yet"
    return "its budget is used up" if left <= 0 else f"{100 * left:.0f} % of its budget left"


def still_yielding(demand: Demand, grant: Grant | None) -> Demand:
    """The same demand, with whether it gave way the last time."""
    yielding = grant is not None and grant.code in ("gives-way", "below-minimum")
    return demand if yielding is demand.yielding else replace(demand, yielding=yielding)

"""What an operator of one job of many has, wants and needs, and the group whose quota it counts for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from headgate.core.errors import InputError
from headgate.core.quota_ledger import ANY_NEED, EVERYWHERE, NO_LIMIT, Need, Quota

STICKINESS = 0.1
"""By how much of its budget a job that gives way must be worse off than another before the two change places."""


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
    def keeping_up(self) -> int:
        """What its load takes."""
        return self.wanted if self.needed is None else self._rounded(self.needed)

    @property
    def running(self) -> int:
        """What it has, as far as its load takes it."""
        return self.floor if self.needed is None else min(self.keeping_up, self.current)

    @property
    def urgent(self) -> int:
        """What its objective takes: to keep up, or to catch up; the rest of what it wants is a reserve."""
        return self.wanted if self.is_behind else self.keeping_up

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

    def _rounded(self, least: int) -> int:
        """The smallest size that is possible and not below this, of those up to what is wanted."""
        if self.allowed is None or least >= self.wanted:
            return min(least, self.wanted)
        return min((size for size in self.allowed if least <= size <= self.wanted), default=self.wanted)

"""What quotas allow and what is taken of it: of the cluster and of each group, in instances, cores, memory and money.

>>> ledger = Ledger({EVERYWHERE: Quota(cores=10)})
>>> ledger.take("", Need(cores=4), 1)
>>> room, limit = ledger.room("", Need(cores=4))
>>> round(room, 6), ledger.used(*limit)
(1.5, '4 of 10 cores of the cluster')
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from headgate.core.errors import InputError

EVERYWHERE = ""
"""The name of the whole cluster's quota."""
ROUNDING = 1e-9
"""Sums of prices are not exact in binary; a demand for exactly what is left must fit."""
Place: TypeAlias = tuple[str, int]
"""A limit: its scope and its resource."""
_WORDS = ("instances", "cores", "GB of memory", "of money per hour")


@dataclass(frozen=True, slots=True)
class Quota:
    """The most that jobs may have together; ``None``: as much as they want."""

    instances: float | None = None
    cores: float | None = None
    memory_gb: float | None = None
    money_per_hour: float | None = None
    """In the unit of the prices."""

    def __post_init__(self) -> None:
        for name in ("instances", "cores", "memory_gb", "money_per_hour"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < math.inf:
                raise InputError(f"quota {name} {value} is not allowed; it must be finite and not negative.")

    @property
    def limits(self) -> tuple[float | None, ...]:
        return self.instances, self.cores, self.memory_gb, self.money_per_hour

    @property
    def is_set(self) -> bool:
        return any(limit is not None for limit in self.limits)


NO_LIMIT = Quota()


@dataclass(frozen=True, slots=True)
class Need:
    """What one instance takes of a quota."""

    cores: float = 0.0
    memory_gb: float = 0.0
    money_per_hour: float = 0.0

    def __post_init__(self) -> None:
        for name in ("cores", "memory_gb", "money_per_hour"):
            value = getattr(self, name)
            if not 0 <= value < math.inf:
                raise InputError(f"{name} {value} of an instance is not allowed; it must be finite and not negative.")

    @property
    def amounts(self) -> tuple[float, ...]:
        return 1.0, self.cores, self.memory_gb, self.money_per_hour


ANY_NEED = Need()


class Ledger:
    """Counts what is taken of every quota; a group without one counts for the cluster only."""

    def __init__(self, quotas: Mapping[str, Quota]) -> None:
        self._quotas = dict(quotas)
        self._limits = {
            (scope, index): limit
            for scope, quota in quotas.items()
            for index, limit in enumerate(quota.limits)
            if limit is not None
        }
        self._taken = dict.fromkeys(self._limits, 0.0)
        self._counted: dict[tuple[str, Need], tuple[tuple[Place, float], ...]] = {}
        """Cache of what an instance takes of which limits: the same for most of a thousand operators."""

    def emptied(self) -> Ledger:
        return Ledger(self._quotas)

    def counted(self, group: str, need: Need) -> tuple[tuple[Place, float], ...]:
        """The limits that an instance of a group counts for, and what it takes of each."""
        found = self._counted.get((group, need))
        if found is None:
            found = self._counted[group, need] = tuple(
                ((scope, index), amount)
                for scope in ((EVERYWHERE, group) if group else (EVERYWHERE,))
                for index, amount in enumerate(need.amounts)
                if amount > 0 and (scope, index) in self._limits
            )
        return found

    def room(self, group: str, need: Need) -> tuple[float, Place | None]:
        """For how many more instances there is room, and which limit leaves no more than that."""
        least, tightest = math.inf, None
        for place, amount in self.counted(group, need):
            limit = self._limits[place]
            left = (limit - self._taken[place] + ROUNDING * max(1.0, limit)) / amount
            if left < least:
                least, tightest = left, place
        return max(0.0, least), tightest

    def take(self, group: str, need: Need, instances: int) -> None:
        for place, amount in self.counted(group, need):
            self._taken[place] += amount * instances

    @property
    def is_exceeded(self) -> bool:
        """Whether more is taken than there is of anything."""
        return any(self._taken[place] > limit + ROUNDING * max(1.0, limit) for place, limit in self._limits.items())

    def usage(self) -> dict[Place, tuple[float, float]]:
        """What is taken of every limit, and the limit."""
        return {place: (self._taken[place], limit) for place, limit in self._limits.items()}

    def limit_text(self, scope: str, index: int) -> str:
        """Return a limit in words."""
        return f"{_whose(scope)} may have {self._limits[scope, index]:g} {_WORDS[index]}"

    def used(self, scope: str, index: int) -> str:
        """Return the usage of a limit in words."""
        return f"{self._taken[scope, index]:g} of {self._limits[scope, index]:g} {_WORDS[index]} of {_whose(scope)}"


def _whose(scope: str) -> str:
    return f"group {scope}" if scope else "the cluster"

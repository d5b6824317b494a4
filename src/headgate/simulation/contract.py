"""What a model of a running job must offer to the simulated engine."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from headgate.core.errors import InputError
from headgate.core.topology import Topology
from headgate.core.types import Instant, Sample

READING_DIGITS = 9
"""Readings are rounded to this many decimals: 0.1 + 0.2 must not count as more than 0.3 where rates are compared."""


class Warmed(NamedTuple):
    """An instance that has become of use: when it joined, had done its first piece of work, and slowed nothing down."""

    joined_s: Instant
    first_task_s: Instant | None = None
    warm_s: Instant | None = None


class Kernel(Protocol):
    """Work arriving, waiting and being done in virtual time, which starts at 0.

    It knows nothing of start-up delays or plans: it is told how many instances are ready, when that changes. How its
    time is cut into pieces makes no difference to what happens.
    """

    @property
    def now_s(self) -> Instant: ...

    @property
    def topology(self) -> Topology: ...

    def ready(self, operator: str) -> int: ...

    def advance(self, to_s: Instant) -> None:
        """Let time pass, with the instances as they are."""
        ...

    def resize(self, operator: str, ready: int, *, lost: bool = False) -> Sequence[Instant]:
        """From now on so many instances of an operator can take work.

        For each instance that leaves: when it is through with what it is doing. Instances that are ``lost`` are gone.
        """
        ...

    def warmed(self, operator: str) -> Sequence[Warmed]:
        """The instances of which this has become known since it was last asked; each is given once."""
        ...

    def samples(self) -> Mapping[str, Sample]:
        """A reading of each operator, as of now."""
        ...


def require_service_rate(operator: str, service_rate_per_s: float) -> None:
    """Refuse an instance that serves nothing, or everything at once."""
    if not (math.isfinite(service_rate_per_s) and service_rate_per_s > 0):
        raise InputError(
            f"service rate {service_rate_per_s} of {operator} is not allowed; it must be finite and above 0."
        )

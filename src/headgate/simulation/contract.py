"""The contract of a kernel: a model of a running job behind the simulated engine."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from headgate.core.errors import InputError
from headgate.core.topology import Topology
from headgate.core.types import Instant, Sample

READING_DIGITS = 9
"""Readings are rounded to this many decimals, so that 0.1 + 0.2 does not exceed 0.3 where rates are compared."""


class Warmed(NamedTuple):
    """When an instance joined, finished its first task, and no longer slowed the job down."""

    joined_s: Instant
    first_task_s: Instant | None = None
    warm_s: Instant | None = None


class Kernel(Protocol):
    """Work that arrives, waits and is processed in virtual time, starting at 0.

    A kernel knows nothing of start-up delays or plans: ``resize`` says how many instances are ready. The result does
    not depend on the steps in which time advances.
    """

    @property
    def now_s(self) -> Instant: ...

    @property
    def topology(self) -> Topology: ...

    def ready(self, operator: str) -> int: ...

    def advance(self, to_s: Instant) -> None:
        """Let time pass with the present instances."""
        ...

    def resize(self, operator: str, ready: int, *, lost: bool = False) -> Sequence[Instant]:
        """Set how many instances of an operator take work from now on.

        Returns when each leaving instance has finished its work. Instances that are ``lost`` are gone at once.
        """
        ...

    def warmed(self, operator: str) -> Sequence[Warmed]:
        """Return instances that became warm since the last call; each is returned once."""
        ...

    def samples(self) -> Mapping[str, Sample]:
        """Return the current reading of each operator."""
        ...


def require_service_rate(operator: str, service_rate_per_s: float) -> None:
    """Refuse a service rate that is not finite and positive."""
    if not (math.isfinite(service_rate_per_s) and service_rate_per_s > 0):
        raise InputError(
            f"service rate {service_rate_per_s} of {operator} is not allowed; it must be finite and above 0."
        )

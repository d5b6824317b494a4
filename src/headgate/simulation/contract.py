"""What a model of a running job must offer to the simulated engine."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Protocol

from headgate.core.errors import InputError
from headgate.core.topology import Topology
from headgate.core.types import Instant, Sample

READING_DIGITS = 9
"""Readings are rounded to this many decimals: 0.1 + 0.2 must not count as more than 0.3 where rates are compared."""


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

    def resize(self, operator: str, ready: int) -> None:
        """From now on so many instances of an operator can work."""
        ...

    def samples(self) -> Mapping[str, Sample]:
        """The newest readings; an operator without a new one has none."""
        ...


def require_service_rate(operator: str, service_rate_per_s: float) -> None:
    """Refuse an instance that serves nothing, or everything at once."""
    if not (math.isfinite(service_rate_per_s) and service_rate_per_s > 0):
        raise InputError(
            f"service rate {service_rate_per_s} of {operator} is not allowed; it must be finite and above 0."
        )

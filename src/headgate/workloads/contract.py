"""The contract of a workload. Time is in seconds and starts at 0 with the run."""

from __future__ import annotations

from typing import Protocol


class Workload(Protocol):
    """Records offered over time, as a rate and its exact integral."""

    def rate_per_s(self, at_s: float) -> float:
        """Return records per second at a time; at a jump, the rate after it."""
        ...

    def arrivals(self, from_s: float, to_s: float) -> float:
        """Return the integral of the rate between two times, fractions included."""
        ...

    def next_turn_s(self, at_s: float) -> float:
        """Return the first time after ``at_s`` at which the rate jumps or turns; infinity if there is none.

        Until then the rate is continuous and monotonic, so that a queue can find exactly when it overflows or is empty.
        """
        ...

    def describe(self) -> str:
        """Return the specification for ``parse_workload``, where there is one."""
        ...


class SameWorkload:
    """A workload compared by identity, for caches: some workloads cannot be hashed or compared."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload

    def __hash__(self) -> int:
        return id(self.workload)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SameWorkload) and other.workload is self.workload

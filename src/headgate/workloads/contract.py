"""What a workload must offer. Time is in seconds and starts at 0 with the run."""

from __future__ import annotations

from typing import Protocol


class Workload(Protocol):
    """Records offered over time, as a rate and as its exact integral. It has no noise: that belongs to a simulation."""

    def rate_per_s(self, at_s: float) -> float:
        """Records per second at a time; where the rate jumps, the one after the jump."""
        ...

    def arrivals(self, from_s: float, to_s: float) -> float:
        """Records that arrive from one time to another: the integral of the rate, fractions included."""
        ...

    def next_turn_s(self, at_s: float) -> float:
        """The first time after ``at_s`` where the rate jumps or turns, infinity if there is none.

        From ``at_s`` until then the rate is continuous and either never falls or never rises. That is all a queue
        needs to find exactly when it overflows and when it is empty.
        """
        ...

    def describe(self) -> str:
        """The workload as text that ``parse_workload`` understands, if it has such a form."""
        ...

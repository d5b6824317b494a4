"""A workload at its place in a longer run: nothing arrives before it begins, nor after it has ended."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.workloads.contract import Workload
from headgate.workloads.numbers import plain, require_length, require_time


@dataclass(frozen=True)
class Placed:
    """A load that begins at a time of the run and lasts for a while.

    >>> from headgate.workloads.shapes import Ramp
    >>> late = Placed(Ramp(start=0.0, end=20.0, over_s=10.0), begins_s=5.0, lasting_s=10.0)
    >>> late.rate_per_s(4.0), late.rate_per_s(10.0), late.arrivals(0.0, 60.0), late.next_turn_s(0.0)
    (0.0, 10.0, 100.0, 5.0)
    """

    load: Workload
    begins_s: float
    lasting_s: float

    def __post_init__(self) -> None:
        require_time("begins", self.begins_s)
        require_length("lasting", self.lasting_s)

    @property
    def ends_s(self) -> float:
        return self.begins_s + self.lasting_s

    def rate_per_s(self, at_s: float) -> float:
        return self.load.rate_per_s(at_s - self.begins_s) if self.begins_s <= at_s < self.ends_s else 0.0

    def arrivals(self, from_s: float, to_s: float) -> float:
        first_s, last_s = max(from_s, self.begins_s), min(to_s, self.ends_s)
        return self.load.arrivals(first_s - self.begins_s, last_s - self.begins_s) if last_s > first_s else 0.0

    def next_turn_s(self, at_s: float) -> float:
        if at_s < self.begins_s:
            return self.begins_s
        if at_s >= self.ends_s:
            return float("inf")
        return min(self.ends_s, self.begins_s + self.load.next_turn_s(at_s - self.begins_s))

    def describe(self) -> str:
        return f"{self.load.describe()} from {plain(self.begins_s)} s on for {plain(self.lasting_s)} s"

"""w_max: what one instance carries, as a running mean (giannakopoulos Alg. 1)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Source(IntEnum):
    """What a capacity was learned from; the better source has the higher number."""

    OFFERED = 0
    """The offered rate at a violation: far too much when the load has jumped."""
    BUSYNESS = 1
    """How busy the instances were while the objective was kept."""
    PROCESSED = 2
    """What the instances got through at a violation."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """What one instance carries: a running mean over readings of one source.

    >>> Capacity(80.0, 1, Source.PROCESSED).joined(100.0, Source.PROCESSED, memory=10).rate_per_s
    90.0
    """

    rate_per_s: float
    count: int
    source: Source

    def joined(self, rate_per_s: float, source: Source, memory: int) -> Capacity:
        """This mean with one more reading; a better source replaces it, a worse one is ignored."""
        if source != self.source:
            return Capacity(rate_per_s, 1, source) if source > self.source else self
        weight = min(self.count, memory - 1)
        return Capacity((weight * self.rate_per_s + rate_per_s) / (weight + 1), self.count + 1, source)

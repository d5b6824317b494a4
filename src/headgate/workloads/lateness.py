"""How late records were: percentiles of their lateness, and how many were sent in another second than due.

Millions of records are kept as a histogram: what it tells of lateness is exact to 2 %, its maximum to the last digit.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

LEAST_S = 1e-5
RATIO = 1.02
BINS = 1200
"""From 10 µs to more than a day, each bin 2 % above the one before."""


class Lateness:
    """Takes in records as they are sent; all times are seconds of the clock since the start of the run.

    >>> lateness = Lateness()
    >>> lateness.sent(0.502, np.array([0.498, 0.5, 0.502]))
    >>> lateness.max_s, round(lateness.percentile_s(50), 3)
    (0.004, 0.002)
    """

    def __init__(self) -> None:
        self._counts = np.zeros(BINS, dtype=np.int64)
        self._due_in: Counter[int] = Counter()
        self._sent_in: Counter[int] = Counter()
        self.max_s = 0.0

    def sent(self, at_s: float, due_s: NDArray[np.float64]) -> None:
        """Records were handed over at a time that were due at others."""
        late_s = np.maximum(at_s - due_s, 0.0)
        bins = np.ceil(np.log(np.maximum(late_s, LEAST_S) / LEAST_S) / np.log(RATIO)).astype(np.int64)
        self._counts += np.bincount(np.minimum(bins, BINS - 1), minlength=BINS)
        self.max_s = max(self.max_s, round(float(late_s.max()), 9))
        self._sent_in[int(at_s)] += len(due_s)
        seconds, counts = np.unique(due_s.astype(np.int64), return_counts=True)
        self._due_in.update(dict(zip(seconds.tolist(), counts.tolist(), strict=True)))

    def percentile_s(self, percent: float) -> float:
        """A lateness that this percentage of the records did not exceed; 0 where nothing was sent."""
        total = int(self._counts.sum())
        if total == 0:
            return 0.0
        place = int(np.searchsorted(np.cumsum(self._counts), percent / 100 * total))
        return min(LEAST_S * RATIO**place, self.max_s)

    @property
    def moved_share(self) -> float:
        """The share of records that were sent in another second than they were due in; 0 where nothing was sent.

        Where as many left a second late as came late from the one before, its count is as it should be.
        """
        seconds = self._due_in.keys() | self._sent_in.keys()
        # A record that moved is missing from one second and too many in another.
        moved = sum(abs(self._sent_in[second] - self._due_in[second]) for second in seconds) / 2
        return moved / self._due_in.total() if moved else 0.0

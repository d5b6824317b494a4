"""How long to wait before a query that failed is started again: twice as long each time, and never quite the same.

>>> waits = Backoff(Restarts(first_s=1.0, longest_s=60.0, jitter=0.0))
>>> [waits.next_s() for _ in range(8)]
[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
>>> waits.forget()
>>> waits.next_s()
1.0
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headgate.core.errors import InputError


@dataclass(frozen=True, slots=True)
class Restarts:
    """How a query that failed is started again."""

    first_s: float = 1.0
    """The wait after the first failure."""
    longest_s: float = 60.0
    jitter: float = 0.2
    """A wait is longer or shorter by up to this share: jobs that failed together do not all come back together."""
    most_in_a_row: int | None = 20
    """After so many failures without a finished batch between them it gives up; ``None``: it never does."""

    def __post_init__(self) -> None:
        if not 0 < self.first_s <= self.longest_s:
            raise InputError(
                f"a first wait of {self.first_s:g} s and a longest of {self.longest_s:g} s are not allowed; the first "
                "must be above 0 and at most the longest."
            )
        if not 0 <= self.jitter < 1:
            raise InputError(f"jitter {self.jitter:g} is not allowed; it must be at least 0 and below 1.")
        if self.most_in_a_row is not None and self.most_in_a_row < 0:
            raise InputError(f"{self.most_in_a_row} restarts in a row are not allowed; it must be at least 0.")


class Backoff:
    """Counts failures in a row; seeded, so that a run can be repeated."""

    def __init__(self, restarts: Restarts, seed: int = 0) -> None:
        self._restarts = restarts
        self._random = np.random.default_rng(seed)
        self.failures = 0
        """In a row."""

    @property
    def is_exhausted(self) -> bool:
        """Whether it has failed more often than is allowed."""
        most = self._restarts.most_in_a_row
        return most is not None and self.failures > most

    def next_s(self) -> float:
        """Count a failure and give the wait after it."""
        doubled_s = self._restarts.first_s * 2.0 ** min(self.failures, 60)
        self.failures += 1
        spread = 1.0 + self._restarts.jitter * float(self._random.uniform(-1.0, 1.0))
        return min(self._restarts.longest_s, doubled_s) * spread

    def forget(self) -> None:
        """The query got on: the next failure is a first one again."""
        self.failures = 0

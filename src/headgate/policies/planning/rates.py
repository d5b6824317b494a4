"""Rates cut into levels, and how one level follows another (russo §2 and eq. 5)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from headgate.core.errors import InputError
from headgate.policies.planning.model import Floats


@dataclass(frozen=True, slots=True)
class RateGrid:
    """The levels 0, q, 2q … of a rate; a rate belongs to the nearest one, and whatever is higher to the last.

    >>> grid = RateGrid(20.0, 4)
    >>> grid.level_of(29.0), grid.level_of(31.0), grid.level_of(500.0)
    (1, 2, 3)
    """

    quantum_per_s: float
    levels: int

    def __post_init__(self) -> None:
        if not (math.isfinite(self.quantum_per_s) and self.quantum_per_s > 0 and self.levels >= 1):
            raise InputError(
                f"a quantum of {self.quantum_per_s}/s with {self.levels} levels is not allowed; both must be above 0."
            )

    @classmethod
    def up_to(cls, rate_per_s: float, quantum_per_s: float) -> RateGrid:
        """Levels that reach a rate; all higher ones are alike."""
        return cls(quantum_per_s, 2 + math.ceil(round(rate_per_s / quantum_per_s, 9)))

    @property
    def rates_per_s(self) -> Floats:
        return self.quantum_per_s * np.arange(self.levels, dtype=np.float64)

    def level_of(self, rate_per_s: float) -> int:
        return min(round(rate_per_s / self.quantum_per_s), self.levels - 1)


class Transitions:
    """How often each level was followed by each other, and the probabilities estimated from it (eq. 5).

    A level that was never left is taken to stay: the estimate as printed is 0/0 there.

    >>> seen = Transitions(3, [0, 1, 1, 1])
    >>> [[round(float(p), 2) for p in row] for row in seen.matrix]
    [[0.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """

    def __init__(self, levels: int, history: Iterable[int] = ()) -> None:
        self.counts: NDArray[np.int64] = np.zeros((levels, levels), dtype=np.int64)
        for before, after in pairwise(history):
            self.counts[before, after] += 1
        self._refresh()

    def _refresh(self) -> None:
        self.visits: list[int] = [int(count) for count in self.counts.sum(axis=1)]
        # Kept as [next level, level]: an array [configuration, next level] times this one is the expectation.
        self.by_next: Floats = np.eye(len(self.visits))
        for level, visits in enumerate(self.visits):
            if visits:
                self.by_next[:, level] = self.counts[level] / visits

    @property
    def matrix(self) -> Floats:
        """P[level, next level]."""
        return self.by_next.T

    def add(self, level: int, next_level: int) -> None:
        """One more slot of this level was followed by one of that."""
        self.counts[level, next_level] += 1
        self.visits[level] += 1
        np.divide(self.counts[level], self.visits[level], out=self.by_next[:, level])

    def shares(self) -> Floats:
        """How much of the time each level was seen; evenly spread while nothing was."""
        seen = np.asarray(self.visits, dtype=np.float64)
        return seen / seen.sum() if seen.any() else np.full(len(seen), 1 / len(seen))

    def to_json(self) -> list[list[int]]:
        """The counts that are not 0, each with its two levels."""
        return [[int(row), int(column), int(self.counts[row, column])] for row, column in np.argwhere(self.counts)]

    def load(self, entries: Sequence[Sequence[int]]) -> None:
        """Take back what :meth:`to_json` gave."""
        counts = np.zeros_like(self.counts)
        for row, column, count in entries:
            if not (0 <= row < len(counts) and 0 <= column < len(counts) and count > 0):
                raise ValueError(f"transition {row} -> {column} counted {count} times does not fit")
            counts[row, column] = count
        self.counts = counts
        self._refresh()

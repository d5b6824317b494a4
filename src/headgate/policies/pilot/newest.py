"""The newest of a row of numbers, as an array that is there already when it is asked for.

>>> newest = Newest(3)
>>> for number in (1.0, 2.0, 3.0, 4.0):
...     newest.append(number)
>>> newest.values, newest[-1], len(newest)
(array([2., 3., 4.]), 4.0, 3)
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from headgate.forecast.contract import FloatArray


class Newest:
    """As many numbers as are kept at most; the oldest goes when there is another one."""

    def __init__(self, most: int, numbers: Iterable[float] = ()) -> None:
        self._most = most
        # Twice the room: those that are kept move to its beginning only when it is full, and lie side by side always.
        self._room = np.empty(2 * most)
        self._end = 0
        self.values: FloatArray = self._room[:0]
        """Oldest first, until the next one is added."""
        for number in numbers:
            self.append(number)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, place: int) -> float:
        return float(self.values[place])

    def append(self, number: float) -> None:
        if self._end == len(self._room):
            self._room[: self._most] = self.values
            self._end = self._most
        self._room[self._end] = number
        self._end += 1
        self.values = self._room[max(0, self._end - self._most) : self._end]

    def clear(self) -> None:
        self._end, self.values = 0, self._room[:0]

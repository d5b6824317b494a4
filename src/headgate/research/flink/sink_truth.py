"""What truly became of the records of a job that numbers them: told by the broker that its results went to.

A result carries its record's number and when that was due; the broker stamps it when it has it. So delays, losses and
doubles rest on nothing that Flink or Headgate said meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headgate.local.records import timestamped_values

Times = NDArray[np.float64]


@dataclass(frozen=True)
class SinkTruth:
    """By number of the record: when it was due, and when its result was there (infinity: never).

    >>> sunk = [(b'{"number":1,"at_ms":2000}', 2.5), (b'{"number":0,"at_ms":1000}', 9.0)]
    >>> truth = SinkTruth.of([*sunk, sunk[0]], 2)
    >>> truth.delays_s.tolist(), truth.missing, truth.doubled
    ([8.0, 0.5], 0, 1)
    """

    due_s: Times
    done_s: Times
    doubled: int
    """Results that were there before: of records since the last checkpoint, when a job was started again."""

    @classmethod
    def of(cls, results: Iterable[tuple[bytes, float]], total: int) -> SinkTruth:
        due_s, done_s = np.full(total, np.nan), np.full(total, np.inf)
        count = 0
        for value, at_s in results:
            found = json.loads(value)
            number = found["number"]
            due_s[number] = found["at_ms"] / 1000
            done_s[number] = min(done_s[number], at_s)
            count += 1
        return cls(due_s, done_s, count - int(np.isfinite(done_s).sum()))

    @classmethod
    def of_topic(cls, bootstrap: str, topic: str, total: int) -> SinkTruth:
        return cls.of(timestamped_values(bootstrap, topic), total)

    @property
    def missing(self) -> int:
        return int(np.isinf(self.done_s).sum())

    @property
    def delays_s(self) -> Times:
        return self.done_s - self.due_s

    @property
    def last_s(self) -> float:
        """When the last result was there."""
        return float(self.done_s[np.isfinite(self.done_s)].max(initial=0.0))

    def judged(self, from_s: float) -> Times:
        """The delays of the records that were due from a moment on; one without a result is late whatever is asked."""
        return np.where(np.isinf(self.done_s), np.inf, self.delays_s)[~(self.due_s < from_s)]

    def longest(self, began_s: float, within_s: float) -> Iterator[tuple[float, float]]:
        """The longest delay of what was due in each short span of time; from when on, counted from ``began_s``."""
        known = np.isfinite(self.done_s)
        place = ((self.due_s[known] - began_s) / within_s).astype(np.int64)
        delays_s = self.delays_s[known]
        for index in np.unique(place):
            yield float(within_s * index), round(float(delays_s[place == index].max()), 2)

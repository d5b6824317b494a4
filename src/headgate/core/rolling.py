"""Sums over the newest part of time, in buckets: as much memory after a year as after a day.

What was added is taken to lie evenly within its bucket, so a sum over any part of the period is exact but for what the
bucket at its far end holds.

>>> sums = RollingSums(period_s=3600.0, columns=2)
>>> sums.add(0.0, 1800.0, (90.0, 9.0))
>>> sums.add(1800.0, 3600.0, (180.0, 0.0))
>>> sums.over(3600.0, now_s=3600.0), sums.over(900.0, now_s=3600.0), sums.over(3600.0, now_s=5400.0)
((270.0, 9.0), (90.0, 0.0), (180.0, 0.0))
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import islice

from headgate.core.types import JSON, Instant

BUCKETS = 288
"""In a period: five minutes of a day."""


class RollingSums:
    """Sums of a few columns of numbers over the newest period."""

    def __init__(self, period_s: float, columns: int) -> None:
        self.period_s = period_s
        self._width_s = period_s / BUCKETS
        self._columns = columns
        self._buckets: deque[tuple[int, list[float]]] = deque()
        """The number of a bucket, counted from the zero of the clock, and what it holds; rising, without empty ones."""
        self._between: tuple[int, int, list[float]] | None = None
        """The numbers of the oldest and the newest bucket, and the sums of those between them, which are complete."""

    def add(self, from_s: Instant, to_s: Instant, amounts: Sequence[float]) -> None:
        """Count amounts that came evenly between two times; times never go back."""
        first, last = int(from_s // self._width_s), int(to_s // self._width_s)
        if first == last:
            self._put(last, amounts, 1.0)
            return
        # Of a stretch longer than the period only the newest part is of interest.
        for number in range(max(first, last - BUCKETS), last + 1):
            start_s, end_s = max(from_s, number * self._width_s), min(to_s, (number + 1) * self._width_s)
            if end_s > start_s:
                self._put(number, amounts, (end_s - start_s) / (to_s - from_s))
        while self._buckets and self._buckets[0][0] < last - BUCKETS:
            self._buckets.popleft()

    def _put(self, number: int, amounts: Sequence[float], share: float) -> None:
        newest, held = self._buckets[-1] if self._buckets else (None, [])
        if newest is None or newest < number:
            held = [0.0] * self._columns
            self._buckets.append((number, held))
        for column, amount in enumerate(amounts):
            held[column] += amount * share

    def over(self, span_s: float, now_s: Instant) -> tuple[float, ...]:
        """The sums over the last ``span_s`` seconds before ``now_s``, at most a period."""
        since_s = now_s - span_s
        totals = [0.0] * self._columns
        buckets: Iterable[tuple[int, list[float]]] = reversed(self._buckets)
        if len(self._buckets) > 2 and (self._buckets[0][0] + 1) * self._width_s >= since_s:
            # All of the period is asked for at every decision, and nearly all of it does not change.
            totals, buckets = list(self._complete()), (self._buckets[-1], self._buckets[0])
        for number, held in buckets:
            start_s = number * self._width_s
            end_s = min(start_s + self._width_s, now_s)
            if end_s <= since_s:
                break
            share = 1.0 if start_s >= since_s else (end_s - since_s) / (end_s - start_s)
            for column, amount in enumerate(held):
                totals[column] += share * amount
        return tuple(totals)

    def _complete(self) -> list[float]:
        oldest, newest = self._buckets[0][0], self._buckets[-1][0]
        if self._between is None or self._between[:2] != (oldest, newest):
            between = islice(self._buckets, 1, len(self._buckets) - 1)
            self._between = oldest, newest, [sum(column) for column in zip(*(held for _, held in between), strict=True)]
        return self._between[2]

    def to_json(self) -> list[JSON]:
        return [[number, *held] for number, held in self._buckets]

    def restore(self, saved: Sequence[Sequence[float]]) -> None:
        """Go on with what was saved; anything else than rising numbers with finite amounts is a ``ValueError``."""
        found = [(int(number), [float(amount) for amount in held]) for number, *held in saved]
        numbers = [number for number, _ in found]
        if numbers != sorted(set(numbers)) or any(len(held) != self._columns for _, held in found):
            raise ValueError(f"{len(found)} buckets that do not rise, or have other than {self._columns} columns")
        if not all(math.isfinite(amount) for _, held in found for amount in held):
            raise ValueError("an amount that is not finite")
        self._buckets, self._between = deque(found), None

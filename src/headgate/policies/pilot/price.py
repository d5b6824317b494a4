"""What a late record is worth, so that the asked share of records is in time and no more is paid than that takes.

The price rises while more records are late than allowed and falls while fewer are. It moves slowly: on bursty load a
price that reacts three times as fast costs half as much again for one point of lateness.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from headgate.core.types import JSON, Instant

PRICE = 0.02
"""Of a late record to begin with, in what a record costs over the share that may be late."""
YOUNG_DEARER = 12.0
"""By how much dearer it is while little is known of the load: a young job is as safe as with ``reactive``."""
LEAST_NEED = 0.05
"""Instances that are needed at least for a load, however small."""
HALF_LIFE_S = 4 * 3600.0
AIM = 0.93
"""The share of what is allowed that is aimed at."""
PROPORTIONAL = 0.5
INTEGRAL_PER_HOUR = 0.25
MOST_INTEGRAL = 2.5
LARGEST_ERROR = 3.0
PRIOR_S = 2600.0
"""The records of so many seconds are taken to have been late as allowed, before there were any."""


class LatePrice:
    """Follows the share of late records, and makes a factor on the price of one."""

    def __init__(self, allowed_share: float) -> None:
        self.allowed_share = allowed_share
        self._late = 0.0
        self._arrived = 0.0
        self._seconds = 0.0
        self._integral = 0.0
        self._at_s: Instant | None = None

    @property
    def share(self) -> float | None:
        """The share of records that came late, lately."""
        return self._late / self._arrived if self._arrived > 0 else None

    @property
    def factor(self) -> float:
        return math.exp(PROPORTIONAL * self._error() + self._integral)

    def of_record(self, need: float, rate_per_s: float, *, is_young: bool) -> float:
        """What a late record is worth in seconds of an instance, where ``need`` instances serve a load."""
        begun = PRICE * (YOUNG_DEARER if is_young else 1.0)
        return begun * max(LEAST_NEED, need) / rate_per_s / self.allowed_share * self.factor

    def observe(self, now: Instant, arrived: float, late: float) -> None:
        """Take in how many records arrived, and how many turned out late, since the last time."""
        elapsed_s = 0.0 if self._at_s is None else now - self._at_s
        self._at_s = now
        kept = 0.5 ** (elapsed_s / HALF_LIFE_S)
        self._late = kept * self._late + late
        self._arrived = kept * self._arrived + arrived
        self._seconds = kept * self._seconds + elapsed_s
        if arrived > 0 and elapsed_s > 0:
            moved = self._integral + INTEGRAL_PER_HOUR * elapsed_s / 3600 * self._error()
            self._integral = max(-MOST_INTEGRAL, min(MOST_INTEGRAL, moved))

    def begin_anew(self) -> None:
        """Times are other than they were."""
        self._at_s = None

    def _error(self) -> float:
        """How far the share is off, relative to what is aimed at."""
        aim = AIM * self.allowed_share
        if self._arrived <= 0 or self._seconds <= 0:
            return 0.0
        prior = PRIOR_S / self._seconds * self._arrived
        share = (self._late + aim * prior) / (self._arrived + prior)
        return max(-1.0, min(LARGEST_ERROR, share / aim - 1))

    def to_json(self) -> dict[str, JSON]:
        return {
            "late": self._late,
            "arrived": self._arrived,
            "seconds": self._seconds,
            "integral": self._integral,
            "at_s": self._at_s,
        }

    def restore(self, saved: Mapping[str, JSON]) -> None:
        self._late, self._arrived = float(saved["late"]), float(saved["arrived"])
        self._seconds = float(saved["seconds"])
        self._integral = float(saved["integral"])
        self._at_s = None if saved["at_s"] is None else float(saved["at_s"])

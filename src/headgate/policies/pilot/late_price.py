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
AIM = 0.96
"""The share of what is allowed that is aimed at over a day."""
DAY_HALF_LIFE_S = 12 * 3600.0
DAY_KNOWN_S = 6 * 3600.0
"""The share of a day counts in full from so much of it on."""
LOWEST_AIM, HIGHEST_AIM = 0.7, 1.3
"""For the next hours it is aimed at so much less or more, after a day of which too much or too little was late."""
PROPORTIONAL = 0.5
INTEGRAL_PER_HOUR = 0.25
MOST_INTEGRAL = 2.5
LARGEST_ERROR = 3.0
PRIOR_S = 2600.0
"""The records of so many seconds are taken to have been late as allowed, before there were any."""


class _Share:
    """The share of records that came late, the latest counting most."""

    def __init__(self, half_life_s: float) -> None:
        self._half_life_s = half_life_s
        self.late = 0.0
        self.arrived = 0.0
        self.seconds = 0.0

    def observe(self, elapsed_s: float, arrived: float, late: float) -> None:
        kept = 0.5 ** (elapsed_s / self._half_life_s)
        self.late = kept * self.late + late
        self.arrived = kept * self.arrived + arrived
        self.seconds = kept * self.seconds + elapsed_s

    def to_json(self) -> dict[str, JSON]:
        return {"late": self.late, "arrived": self.arrived, "seconds": self.seconds}

    def restore(self, saved: Mapping[str, JSON]) -> None:
        self.late, self.arrived = float(saved["late"]), float(saved["arrived"])
        self.seconds = float(saved["seconds"])


class LatePrice:
    """Follows the share of late records, and makes a factor on the price of one."""

    def __init__(self, allowed_share: float) -> None:
        self.allowed_share = allowed_share
        self._lately = _Share(HALF_LIFE_S)
        self._day = _Share(DAY_HALF_LIFE_S)
        self._integral = 0.0
        self._at_s: Instant | None = None

    @property
    def share(self) -> float | None:
        """The share of records that came late, lately."""
        return self._lately.late / self._lately.arrived if self._lately.arrived > 0 else None

    @property
    def factor(self) -> float:
        return math.exp(PROPORTIONAL * self._error() + self._integral)

    @property
    def used(self) -> float:
        """How much of what may be late is used up, lately: 1 is all of it."""
        return 1 + self._error()

    def of_record(self, need: float, rate_per_s: float, *, is_young: bool) -> float:
        """What a late record is worth in seconds of an instance, where ``need`` instances serve a load."""
        begun = PRICE * (YOUNG_DEARER if is_young else 1.0)
        return begun * max(LEAST_NEED, need) / rate_per_s / self.allowed_share * self.factor

    def observe(self, now: Instant, arrived: float, late: float) -> None:
        """Take in how many records arrived, and how many turned out late, since the last time."""
        elapsed_s = 0.0 if self._at_s is None else now - self._at_s
        self._at_s = now
        self._lately.observe(elapsed_s, arrived, late)
        self._day.observe(elapsed_s, arrived, late)
        if arrived > 0 and elapsed_s > 0:
            moved = self._integral + INTEGRAL_PER_HOUR * elapsed_s / 3600 * self._error()
            self._integral = max(-MOST_INTEGRAL, min(MOST_INTEGRAL, moved))

    def begin_anew(self) -> None:
        """Times are other than they were."""
        self._at_s = None

    def _aim(self) -> float:
        """The share that may be late in the next hours, so that what is allowed is used up over the day."""
        left = AIM - self._day.late / self._day.arrived / self.allowed_share if self._day.arrived > 0 else 0.0
        aim = AIM + left * min(1.0, self._day.seconds / DAY_KNOWN_S)
        return self.allowed_share * max(LOWEST_AIM, min(HIGHEST_AIM, aim))

    def _error(self) -> float:
        """How far the share is off, relative to what is aimed at."""
        lately = self._lately
        if lately.arrived <= 0 or lately.seconds <= 0:
            return 0.0
        aim = self._aim()
        prior = PRIOR_S / lately.seconds * lately.arrived
        share = (lately.late + aim * prior) / (lately.arrived + prior)
        return max(-1.0, min(LARGEST_ERROR, share / aim - 1))

    def to_json(self) -> dict[str, JSON]:
        return {
            "lately": self._lately.to_json(),
            "day": self._day.to_json(),
            "integral": self._integral,
            "at_s": self._at_s,
        }

    def restore(self, saved: Mapping[str, JSON]) -> None:
        self._lately.restore(saved["lately"])
        self._day.restore(saved["day"])
        self._integral = float(saved["integral"])
        self._at_s = None if saved["at_s"] is None else float(saved["at_s"])

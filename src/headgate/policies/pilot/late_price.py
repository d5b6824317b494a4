"""The price of a late record, controlled so that the requested share of records is on time at the lowest cost.

A PI controller: the price rises while more records are late than allowed and falls while fewer are. It moves slowly: on
bursty load, reacting three times as fast costs 50 % more for one percentage point of lateness.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from headgate.core.types import JSON, Instant

PRICE = 0.02
"""Initial price, as a multiple of the cost of processing a record divided by the allowed late share."""
YOUNG_FACTOR = 12.0
"""Multiplies the price while little is known of the load: a young job is as safe as with ``reactive``."""
LEAST_NEED = 0.05
"""Least number of instances that any load is taken to need."""
HALF_LIFE_S = 4 * 3600.0
AIM = 0.96
"""Share of the allowed lateness to use over a day."""
DAY_HALF_LIFE_S = 12 * 3600.0
DAY_KNOWN_S = 6 * 3600.0
"""The daily share counts in full after this much history."""
LOWEST_AIM, HIGHEST_AIM = 0.7, 1.3
"""Limits of the aim for the next hours after a day with too much or too little lateness."""
PROPORTIONAL = 0.5
INTEGRAL_PER_HOUR = 0.25
MOST_INTEGRAL = 2.5
LARGEST_ERROR = 3.0
PRIOR_S = 2600.0
"""Prior: this many seconds of records with exactly the allowed share late."""


class _DecayingShare:
    """Late and arrived records with exponential decay."""

    def __init__(self, half_life_s: float) -> None:
        self._half_life_s = half_life_s
        self.late = 0.0
        self.arrived = 0.0
        self.seconds = 0.0

    def observe(self, elapsed_s: float, arrived: float, late: float) -> None:
        decay = 0.5 ** (elapsed_s / self._half_life_s)
        self.late = decay * self.late + late
        self.arrived = decay * self.arrived + arrived
        self.seconds = decay * self.seconds + elapsed_s

    def to_json(self) -> dict[str, JSON]:
        return {"late": self.late, "arrived": self.arrived, "seconds": self.seconds}

    def restore(self, saved: Mapping[str, JSON]) -> None:
        self.late, self.arrived = float(saved["late"]), float(saved["arrived"])
        self.seconds = float(saved["seconds"])


class LatePrice:
    """Tracks the share of late records and derives the price of one from it."""

    def __init__(self, allowed_share: float) -> None:
        self.allowed_share = allowed_share
        self._lately = _DecayingShare(HALF_LIFE_S)
        self._day = _DecayingShare(DAY_HALF_LIFE_S)
        self._integral = 0.0
        self._at_s: Instant | None = None

    @property
    def share(self) -> float | None:
        """The recent share of late records; ``None`` before any record."""
        return self._lately.late / self._lately.arrived if self._lately.arrived > 0 else None

    @property
    def factor(self) -> float:
        return math.exp(PROPORTIONAL * self._error() + self._integral)

    @property
    def used(self) -> float:
        """How much of the allowed lateness was used recently; 1 is all of it."""
        return 1 + self._error()

    def per_record(self, need: float, rate_per_s: float, *, is_young: bool) -> float:
        """Return the price of a late record in instance-seconds, for a load that needs ``need`` instances."""
        initial = PRICE * (YOUNG_FACTOR if is_young else 1.0)
        return initial * max(LEAST_NEED, need) / rate_per_s / self.allowed_share * self.factor

    def observe(self, now: Instant, arrived: float, late: float) -> None:
        """Add how many records arrived, and how many were late, since the previous call."""
        elapsed_s = 0.0 if self._at_s is None else now - self._at_s
        self._at_s = now
        self._lately.observe(elapsed_s, arrived, late)
        self._day.observe(elapsed_s, arrived, late)
        if arrived > 0 and elapsed_s > 0:
            moved = self._integral + INTEGRAL_PER_HOUR * elapsed_s / 3600 * self._error()
            self._integral = max(-MOST_INTEGRAL, min(MOST_INTEGRAL, moved))

    def reset_clock(self) -> None:
        """Forget timestamps: the clock was reset."""
        self._at_s = None

    def _aim(self) -> float:
        """Return the target share for the next hours, so that the day as a whole uses what is allowed."""
        left = AIM - self._day.late / self._day.arrived / self.allowed_share if self._day.arrived > 0 else 0.0
        aim = AIM + left * min(1.0, self._day.seconds / DAY_KNOWN_S)
        return self.allowed_share * max(LOWEST_AIM, min(HIGHEST_AIM, aim))

    def _error(self) -> float:
        """Return the relative deviation of the share from its target."""
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

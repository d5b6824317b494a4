"""The price of a late record, controlled so that the share of late records stays within its limit at the lowest cost.

The objective is met when the late records of a period are at most the allowed share of its records. How many there will
be is uncertain, because they come in bursts: their variance is learned, with a prior for young jobs, and a reserve is
held that covers it with a given confidence. What is left is the *aim*, the share of late records for the next hours. It
rises as a period passes without the bursts that the reserve is for.

A PI controller then moves the price: up while more records are late than the aim, down while fewer are. It moves
slowly: on bursty load, reacting three times as fast costs 50 % more for one percentage point of lateness.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import NormalDist
from typing import NamedTuple

from headgate.core.budget import RollingSums
from headgate.core.objective import DAY_S
from headgate.core.types import JSON, Instant

CONFIDENCE = 0.95
PRICE = 0.02
"""Initial price, as a multiple of the cost of processing a record divided by the share to aim for."""
YOUNG_FACTOR = 12.0
"""Multiplies the price while little is known of the load: a young job is as safe as with ``reactive``."""
LEAST_NEED = 0.05
"""Least number of instances that any load is taken to need."""
HALF_LIFE_S = 4 * 3600.0
LOWEST_AIM, HIGHEST_AIM = 0.4, 1.0
"""Limits of the aim, as shares of what is allowed."""
SPANS = (1 / 2, 1.0)
"""Shares of a period after which the limit is to hold, each as the end of a period."""
BUCKETS = 48
"""Parts of a period whose late records are compared with each other: half an hour of a day."""
MEMORY = 1 - 1 / 144
"""Weight of a part of a period when one more is known: three periods count."""
PRIOR_DEVIATION, PRIOR_BUCKETS = 0.15, 12
"""Prior: the late records of a period deviate by this share of what is allowed; it weighs as much as so many parts."""
PROPORTIONAL = 0.5
INTEGRAL_PER_HOUR = 0.25
MOST_INTEGRAL = 2.5
LARGEST_ERROR = 3.0
PRIOR_S = 2600.0
"""Prior: this many seconds of records with exactly the share to aim for late."""


_SQRT2 = math.sqrt(2)


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


class _Deviation:
    """How far the late records of a period deviate, in shares of what is allowed; from parts of periods."""

    def __init__(self) -> None:
        self._count, self._sum, self._squares = 0.0, 0.0, 0.0
        self._seconds, self._spent = 0.0, 0.0
        """Of the part that is not over yet."""

    def observe(self, elapsed_s: float, spent: float, part_s: float) -> None:
        """Add what was spent of a period's allowance within some seconds; a part lasts ``part_s``."""
        self._seconds += elapsed_s
        self._spent += spent
        if self._seconds >= part_s:
            # A gap in the readings makes a longer part; its share of the time of a part counts.
            spent = self._spent * part_s / self._seconds
            self._count = MEMORY * self._count + 1
            self._sum = MEMORY * self._sum + spent
            self._squares = MEMORY * self._squares + spent * spent
            self._seconds, self._spent = 0.0, 0.0

    def over(self, share: float) -> float:
        """Return the standard deviation over a share of a period."""
        prior = PRIOR_BUCKETS * PRIOR_DEVIATION**2 / BUCKETS
        # The bursts of different parts are independent.
        squares = max(0.0, self._squares - self._sum**2 / self._count) if self._count else 0.0
        return math.sqrt(BUCKETS * share * (prior + squares) / (PRIOR_BUCKETS + self._count))

    def to_json(self) -> list[float]:
        return [self._count, self._sum, self._squares, self._seconds, self._spent]

    def restore(self, saved: JSON) -> None:
        self._count, self._sum, self._squares, self._seconds, self._spent = (float(value) for value in saved)


class _Span(NamedTuple):
    """The period that ends after a share of its length has passed from now on."""

    share: float
    per_period: float
    """Records of a period; 0 if unknown."""
    room: float
    """What may be late until then, in allowances of a period."""
    deviation: float
    """Standard deviation of what will be late until then, in allowances."""


class LatePrice:
    """Tracks the share of late records and derives the price of one from it."""

    def __init__(self, allowed_share: float, period_s: float = DAY_S, confidence: float = CONFIDENCE) -> None:
        self.allowed_share = allowed_share
        self._period_s = period_s
        self._score = NormalDist().inv_cdf(confidence)
        self._sums = RollingSums(period_s, columns=3)
        """Arrived and late records of the last period, and the seconds of it that are known."""
        self._deviation = _Deviation()
        self._lately = _DecayingShare(HALF_LIFE_S)
        self._integral = 0.0
        self._at_s: Instant | None = None
        self._aim: float | None = None
        self._spans: Sequence[_Span] | None = None
        """Caches; they follow from the sums."""

    @property
    def share(self) -> float | None:
        """The recent share of late records; ``None`` before any record."""
        return self._lately.late / self._lately.arrived if self._lately.arrived > 0 else None

    @property
    def factor(self) -> float:
        return math.exp(PROPORTIONAL * self._error() + self._integral)

    @property
    def used(self) -> float:
        """How much of what is to be late was late recently; 1 is all of it."""
        return 1 + self._error()

    @property
    def aim(self) -> float:
        """The share of late records to aim for in the next hours."""
        if self._aim is None:
            self._aim = self.allowed_share * max(LOWEST_AIM, min(HIGHEST_AIM, self._room()))
        return self._aim

    def broken_share(self) -> float | None:
        """Return the least share of late records that this period can end with if it exceeds the limit."""
        if self._at_s is None:
            return None
        arrived, late, seconds = self._sums.over(self._period_s, self._at_s)
        if arrived <= 0 or seconds <= 0:
            return None
        share = late / arrived / max(1.0, self._period_s / seconds)
        return share if share > self.allowed_share else None

    def per_record(self, need: float, rate_per_s: float, *, is_young: bool) -> float:
        """Return the price of a late record in instance-seconds, for a load that needs ``need`` instances."""
        initial = PRICE * (YOUNG_FACTOR if is_young else 1.0)
        return initial * max(LEAST_NEED, need) / rate_per_s / self.aim * self.factor

    def observe(self, now: Instant, arrived: float, late: float) -> None:
        """Add how many records arrived, and how many were late, since the previous call."""
        before_s = now if self._at_s is None else self._at_s
        elapsed_s, self._at_s, self._aim, self._spans = now - before_s, now, None, None
        self._lately.observe(elapsed_s, arrived, late)
        self._sums.add(before_s, now, (arrived, late, elapsed_s))
        counted, _, seconds = self._sums.over(self._period_s, now)
        if counted > 0 and seconds > 0:
            allowance = self.allowed_share * counted * self._period_s / seconds
            self._deviation.observe(elapsed_s, late / allowance, self._period_s / BUCKETS)
        if arrived > 0 and elapsed_s > 0:
            moved = self._integral + INTEGRAL_PER_HOUR * elapsed_s / 3600 * self._error()
            self._integral = max(-MOST_INTEGRAL, min(MOST_INTEGRAL, moved))

    def reset_clock(self) -> None:
        """Forget timestamps: the clock was reset."""
        self._at_s, self._aim, self._spans = None, None, None
        self._sums = RollingSums(self._period_s, columns=3)

    def break_chances(self, outcomes: Iterable[tuple[float, float]], per_s: float, within_s: float) -> list[float]:
        """Return, for each outcome, the probability that a period ends with more late records than allowed.

        An outcome is how many records are late of those that arrive ``per_s`` within so many seconds, with its standard
        deviation; after these, as many are late as it aims for.
        """
        if self.broken_share() is not None:
            return [1.0 for _ in outcomes]
        share_aimed, ahead = self.aim / self.allowed_share, within_s / self._period_s
        spans = []
        for span in self._rolling_spans():
            allowance = self.allowed_share * (span.per_period or max(1e-9, per_s) * self._period_s)
            spans.append((span.room - share_aimed * max(0.0, span.share - ahead), span.deviation, allowance))
        return [
            max(
                0.5 * math.erfc((room - late / allowance) / (_SQRT2 * math.hypot(spread, deviation / allowance)))
                for room, spread, allowance in spans
            )
            for late, deviation in outcomes
        ]

    def _rolling_spans(self) -> Sequence[_Span]:
        if self._spans is None:
            now = 0.0 if self._at_s is None else self._at_s
            arrived, _, seconds = self._sums.over(self._period_s, now)
            per_period = arrived * self._period_s / seconds if seconds > 0 else 0.0
            spans = []
            for share in SPANS:
                counted, late = 0.0, 0.0
                if per_period > 0:
                    # What then still belongs to the period, in periods of records and in allowances.
                    counted, late, _ = self._sums.over((1 - share) * self._period_s, now)
                    counted, late = counted / per_period, late / per_period / self.allowed_share
                spans.append(_Span(share, per_period, counted + share - late, self._deviation.over(share)))
            self._spans = spans
        return self._spans

    def _room(self) -> float:
        """Return the least share of the allowance that any of the next periods leaves for late records."""
        return min((span.room - self._score * span.deviation) / span.share for span in self._rolling_spans())

    def _error(self) -> float:
        """Return the relative deviation of the share from its target."""
        lately = self._lately
        if lately.arrived <= 0 or lately.seconds <= 0:
            return 0.0
        prior = PRIOR_S / lately.seconds * lately.arrived
        share = (lately.late + self.aim * prior) / (lately.arrived + prior)
        return max(-1.0, min(LARGEST_ERROR, share / self.aim - 1))

    def to_json(self) -> dict[str, JSON]:
        return {
            "lately": self._lately.to_json(),
            "period": self._sums.to_json(),
            "deviation": self._deviation.to_json(),
            "integral": self._integral,
            "at_s": self._at_s,
        }

    def restore(self, saved: Mapping[str, JSON]) -> None:
        self._lately.restore(saved["lately"])
        self._sums.restore(saved["period"])
        self._deviation.restore(saved["deviation"])
        self._integral = float(saved["integral"])
        self._at_s, self._aim = None if saved["at_s"] is None else float(saved["at_s"]), None
        self._spans = None

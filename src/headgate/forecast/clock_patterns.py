"""Bursts that come by the clock: found in the arrivals, remembered with their period, and expected again.

A *burst* is a load above the level around it. Bursts that are alike and begin at equal distances make a pattern: "every
15 min". Several patterns may exist at once, with periods from minutes to weeks. Times of single bursts may scatter, one
may be missing now and then, and they may grow or shrink. A pattern has a trust, the share of times that it held; it is
halved by each failure in a row, and a pattern without trust is dropped.

Two bursts make a pattern only if nothing is known of the time before and their distance is one that people configure;
three do if the time before does not contradict, and four in a row always do.

>>> patterns = ClockPatterns()
>>> for minute in range(47):
...     excess = patterns.observe(60.0 * minute, 60.0 * minute + 60, 6000.0 if minute % 15 == 0 else 600.0)
>>> [(burst.pattern, round(burst.begins_s - 47 * 60)) for burst in patterns.expected(47 * 60.0, 900.0)]
[('every 15 min, 3 of the last 3 times', 780)]
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import deque
from collections.abc import Mapping
from dataclasses import astuple, dataclass, field
from statistics import median, median_high

import numpy as np

from headgate.core.types import JSON, Instant
from headgate.core.units import format_duration

LEVEL_S = 300.0
"""Memory of the level and of its noise."""
LEVEL_KNOWN_S = 60.0
RISE, NOISES = 0.25, 5.0
"""A burst exceeds the level by this share of it and by so many mean deviations …"""
FALL = 0.4
"""… and ends below this share of its height."""
LULL_S = 25.0
"""After a shorter lull a burst continues: readings of an overloaded job are too low at first and too high then."""
LONGEST_BURST_S = 3600.0
"""A load that stays high for longer is a new level."""
ALIKE_HEIGHT, ALIKE_LENGTH, ALIKE_LENGTH_S = 1.6, 1.6, 20.0
"""Bursts are alike if heights and lengths differ by less than these factors, or lengths by so few seconds."""
BURSTS_STORED, OUTCOMES, HITS_STORED = 300, 14, 14
PERIODS_CHECKED = 5
"""So many periods back, bursts are looked for."""
ENOUGH_HITS = 0.7
SHORTER = 0.75
"""Bursts of a pattern may turn out to belong to one with at most this share of its period."""
IN_A_ROW = 4
"""So many bursts in a row make a pattern, whatever was before."""
SHORTEST_PERIOD_S, LONGEST_PERIOD_S = 90.0, 8 * 86400.0
LEAST_DISTANCE = 1.5
"""A period is at least this multiple of the length of its bursts."""
MINUTES = (2, 3, 4, 5, 6, 10, 12, 15, 20, 30, 40, 45, 60, 90, 120, 180, 240, 360, 480, 720, 1440, 10080)
"""Periods that people configure."""
USUAL_WITHIN_S, USUAL_WITHIN = 15.0, 0.02
TOLERANCE_S, TOLERANCE, SPREADS = 45.0, 0.1, 3.0
"""A burst is on time within so many seconds or deviations, and never more than this share of the period."""
BY_CHANCE, LEAST_TOLERANCE_S, DISTANCES = 0.12, 15.0, 50
"""Nor more than this share of the mean distance of the newest bursts, so that few are on time by chance."""
LEAST_SPREAD_S = 4.0
"""Deviation of the begin of bursts that is always assumed: readings are seconds apart."""
TRUSTED, CERTAIN = 0.3, 0.85
LATE_READINGS_S = 20.0
"""Readings may be so late."""


@dataclass(frozen=True, slots=True)
class Burst:
    """A load above the level around it."""

    began_s: Instant
    lasted_s: float
    height_per_s: float

    @property
    def ended_s(self) -> Instant:
        return self.began_s + self.lasted_s

    def at(self, began_s: Instant) -> Burst:
        return Burst(began_s, self.lasted_s, self.height_per_s)

    def is_like(self, other: Burst) -> bool:
        heights = sorted((self.height_per_s, other.height_per_s))
        lengths = sorted((self.lasted_s, other.lasted_s))
        is_as_long = lengths[1] <= ALIKE_LENGTH * lengths[0] or lengths[1] - lengths[0] <= ALIKE_LENGTH_S
        return is_as_long and heights[1] <= ALIKE_HEIGHT * heights[0]

    def beyond(self, expected: Burst) -> Burst | None:
        """Return what is left of it without another burst that it contains, if it is much larger than that."""
        records = self.lasted_s * self.height_per_s - expected.lasted_s * expected.height_per_s
        if self.is_like(expected) or records < 0.5 * expected.lasted_s * expected.height_per_s:
            return None
        return Burst(self.began_s, self.lasted_s, records / self.lasted_s)


@dataclass(frozen=True, slots=True)
class ExpectedBurst:
    """A burst that a pattern lets expect, or one that has begun and is expected to last."""

    pattern: str
    begins_s: Instant
    spread_s: float
    """Standard deviation of its begin."""
    lasts_s: float
    height_per_s: float
    height_spread: float
    """Relative standard deviation of its height."""
    trust: float
    """The probability that it comes."""
    has_begun: bool = False

    @property
    def ends_s(self) -> Instant:
        return self.begins_s + self.lasts_s


class _BurstDetector:
    """Follows the level of a load and cuts out what exceeds it."""

    def __init__(self) -> None:
        self.level_per_s = 0.0
        self._noise_per_s = 0.0
        self._known_s = 0.0
        self.since_s: Instant | None = None
        """When the present burst began, roughly; ``None`` outside of one."""
        self._stretches: list[tuple[Instant, Instant, float]] = []
        """Begin, end and excess per second of the readings in the present or, until it is too old, the last burst."""
        self.continues = False
        """Whether the present burst is the last one, which had seemed to be over."""

    def forget_last(self) -> None:
        """Do not let the next burst continue the last one."""
        self._stretches = []

    def add(self, from_s: Instant, to_s: Instant, rate_per_s: float) -> Burst | None:
        """Take in a stretch of load; return the burst that ended before it, if one did."""
        excess = rate_per_s - self.level_per_s
        if self.since_s is None:
            is_high = excess > max(RISE * self.level_per_s, NOISES * self._noise_per_s, 4 * self._poisson(from_s, to_s))
            if self._known_s >= LEVEL_KNOWN_S and is_high:
                self.continues = bool(self._stretches) and from_s - self._stretches[-1][1] <= LULL_S
                self._stretches = [*(self._stretches if self.continues else ()), (from_s, to_s, excess)]
                self.since_s = self._stretches[0][0]
            else:
                self._follow(to_s - from_s, rate_per_s)
            return None
        heights = [height for _, _, height in self._stretches]
        if to_s - self.since_s > LONGEST_BURST_S:
            self.level_per_s, self.since_s = self.level_per_s + median(heights[-10:]), None
            self.forget_last()
            return None
        if excess >= FALL * median_high(heights):
            self._stretches.append((from_s, to_s, excess))
            return None
        burst = self._burst(max(0.0, excess) * (to_s - from_s))
        self._stretches.append((from_s, to_s, max(0.0, excess)))
        self.since_s = None
        return burst

    def _poisson(self, from_s: Instant, to_s: Instant) -> float:
        return math.sqrt(max(1.0, self.level_per_s * (to_s - from_s))) / (to_s - from_s)

    def _follow(self, elapsed_s: float, rate_per_s: float) -> None:
        self._known_s += elapsed_s
        share = max(1 - math.exp(-elapsed_s / LEVEL_S), min(1.0, elapsed_s / self._known_s))
        self._noise_per_s += share * (
            abs(rate_per_s - self.level_per_s) * (self._known_s > elapsed_s) - self._noise_per_s
        )
        self.level_per_s += share * (rate_per_s - self.level_per_s)

    def _burst(self, rest: float) -> Burst:
        """Return the burst as a rectangle: the first and the last reading of it cover it only in part."""
        heights = [height for _, _, height in self._stretches]
        records = rest + sum(excess * (end_s - begin_s) for begin_s, end_s, excess in self._stretches)
        # Readings of an overloaded job are late: too low first and too high then. Only their sum is right.
        seconds = self._stretches[-1][1] - self._stretches[0][0]
        height = max(median_high(heights) if len(heights) > 2 else max(heights), records / seconds)
        from_s, to_s, first = self._stretches[0]
        began_s = to_s - min(1.0, first / height) * (to_s - from_s)
        return Burst(began_s, records / height, height)

    def to_json(self) -> list[JSON]:
        stretches = [list(stretch) for stretch in self._stretches]
        return [self.level_per_s, self._noise_per_s, self._known_s, self.since_s, stretches, self.continues]

    def restore(self, saved: JSON) -> None:
        level, noise, known_s, since_s, stretches, continues = saved
        self.continues = bool(continues)
        self.level_per_s, self._noise_per_s, self._known_s = float(level), float(noise), float(known_s)
        self.since_s = None if since_s is None else float(since_s)
        self._stretches = [(float(from_s), float(to_s), float(excess)) for from_s, to_s, excess in stretches]


@dataclass(slots=True, eq=False)
class ClockPattern:
    """Bursts that begin at equal distances."""

    period_s: float
    hits: deque[tuple[int, Burst]] = field(default_factory=lambda: deque(maxlen=HITS_STORED))
    """The newest bursts with their numbers."""
    outcomes: deque[bool] = field(default_factory=lambda: deque(maxlen=OUTCOMES))
    """Whether there was a burst at the newest of the times at which one was expected."""
    next_number: int = 0
    """Of the burst that is expected next."""
    is_dormant: bool = False
    """The clock was reset: the period is known, and its times are not."""

    @property
    def trust(self) -> float:
        if self.is_dormant:
            return 0.0
        missed = 0
        for was_hit in reversed(self.outcomes):
            if was_hit:
                break
            missed += 1
        return sum(self.outcomes) / (len(self.outcomes) + 1) * 0.5**missed

    @property
    def newest(self) -> Burst:
        return self.hits[-1][1]

    @property
    def spread_s(self) -> float:
        """Deviation of the begin of bursts from even distances."""
        if len(self.hits) < 3:
            return max(LEAST_SPREAD_S, USUAL_WITHIN * self.period_s / 4)
        off = [burst.began_s - self.begins_s(number) for number, burst in self.hits]
        return max(LEAST_SPREAD_S, math.sqrt(sum(value * value for value in off) / (len(off) - 2)))

    @property
    def tolerance_s(self) -> float:
        return min(TOLERANCE * self.period_s, max(TOLERANCE_S, SPREADS * self.spread_s))

    def begins_s(self, number: int) -> Instant:
        """Return when the burst of a number begins, by the mean of the newest ones."""
        offset_s = sum(burst.began_s - hit * self.period_s for hit, burst in self.hits) / len(self.hits)
        return offset_s + number * self.period_s

    def add(self, number: int, burst: Burst) -> None:
        """Take in a burst that was expected."""
        self.hits.append((number, burst))
        if len(self.hits) >= 3:
            numbers = np.array([float(hit) for hit, _ in self.hits])
            begins_s = np.array([hit.began_s for _, hit in self.hits])
            offsets = numbers - numbers.mean()
            self.period_s = float(offsets @ begins_s) / float(offsets @ offsets)

    def height(self) -> tuple[float, float]:
        """Return the height of the next burst, continued from the newest ones, and its relative deviation."""
        heights = np.array([burst.height_per_s for _, burst in self.hits][-6:])
        if len(heights) < 3:
            return float(heights.max()), 0.1
        offsets = np.arange(len(heights)) - (len(heights) - 1) / 2
        slope = float(offsets @ heights) / float(offsets @ offsets)
        ahead = float(heights.mean()) + slope * ((len(heights) + 1) / 2)
        rest = heights - heights.mean() - slope * offsets
        newest = float(heights[-1])
        expected = min(1.4 * newest, max(0.7 * newest, ahead))
        return expected, max(0.03, float(np.sqrt(rest @ rest / (len(heights) - 2))) / expected)

    def lasts_s(self) -> float:
        """Return how long the next burst is expected to last."""
        lengths_s = sorted(burst.lasted_s for _, burst in self.hits)
        return lengths_s[math.ceil(0.8 * len(lengths_s)) - 1]

    def __str__(self) -> str:
        period_s = round(self.period_s)
        usual_s = 60 * round(period_s / 60)
        if usual_s and abs(self.period_s - usual_s) <= max(2.0, self.spread_s):
            period_s = usual_s
        every = f"{period_s // 60} min" if period_s % 60 == 0 and period_s < 3600 else format_duration(period_s)
        return f"every {every}, {sum(self.outcomes)} of the last {len(self.outcomes)} times"

    def to_json(self) -> list[JSON]:
        hits = [[number, *astuple(burst)] for number, burst in self.hits]
        return [self.period_s, hits, list(self.outcomes), self.next_number, self.is_dormant]

    @classmethod
    def from_json(cls, saved: JSON) -> ClockPattern:
        period_s, hits, outcomes, next_number, is_dormant = saved
        made = cls(float(period_s), next_number=int(next_number), is_dormant=bool(is_dormant))
        made.hits.extend((int(number), _burst_from(burst)) for number, *burst in hits)
        made.outcomes.extend(bool(was_hit) for was_hit in outcomes)
        return made


class ClockPatterns:
    """Finds the patterns of one load, and says what they let expect."""

    def __init__(self) -> None:
        self._detector = _BurstDetector()
        self.patterns: list[ClockPattern] = []
        self._bursts: deque[Burst] = deque(maxlen=BURSTS_STORED)
        """The newest bursts."""
        self._begins_s: deque[Instant] = deque(maxlen=DISTANCES)
        """When the newest bursts of all kinds began."""
        self._since_s: Instant | None = None
        """Since when the load is known without a gap in which a burst could hide."""
        self._until_s: Instant | None = None
        self._current: ClockPattern | None = None
        """The pattern that the present burst belongs to."""
        self.over_s: Instant | None = None
        """When the last burst that was expected ended, as long as no other has begun."""

    @property
    def level_per_s(self) -> float:
        """The load without bursts."""
        return self._detector.level_per_s

    def observe(self, from_s: Instant, to_s: Instant, records: float) -> float:
        """Take in the arrivals between two times; return how many of them are of a burst that was expected."""
        if to_s <= from_s:
            return 0.0
        if self._since_s is None or self._until_s is None or from_s - self._until_s > LATE_READINGS_S:
            self._since_s = from_s
            self._skip(from_s)
        self._until_s = to_s
        was_inside = self._detector.since_s is not None
        burst = self._detector.add(from_s, to_s, records / (to_s - from_s))
        is_inside = self._detector.since_s is not None
        if burst is not None:
            self._conclude(burst, to_s)
        elif was_inside and not is_inside:
            self._current = None
        if is_inside and not was_inside:
            if self._detector.continues and self._bursts:
                self._bursts.pop()
                self._begins_s.pop()
                from_s = self._detector.since_s or from_s
            self._current = self._pattern_at(from_s, to_s)
            self.over_s = None
        if not is_inside:
            self._count_missing(to_s)
        current, since_s = self._current, self._detector.since_s
        if current is None or since_s is None or current.trust < TRUSTED:
            return 0.0
        # What lasts much longer than the bursts before is something else.
        if to_s - since_s > 1.5 * current.lasts_s() + 2 * LATE_READINGS_S:
            return 0.0
        return max(0.0, records - self.level_per_s * (to_s - from_s))

    def expected(self, now: Instant, within_s: float) -> list[ExpectedBurst]:
        """Return the present burst, if it was expected, and those that patterns let expect until then."""
        found = []
        since_s = self._detector.since_s
        for pattern in self.patterns:
            if pattern.trust < TRUSTED:
                continue
            height, spread = pattern.height()
            lasts_s = pattern.lasts_s()
            number = pattern.next_number
            if pattern is self._current and since_s is not None:
                found.append(ExpectedBurst(str(pattern), since_s, 0.0, lasts_s, height, spread, 1.0, has_begun=True))
                number += 1
            while (begins_s := pattern.begins_s(number)) - 2 * pattern.spread_s < now + within_s:
                if begins_s + self._tolerance_s(pattern) >= now:
                    expected = ExpectedBurst(
                        str(pattern), begins_s, pattern.spread_s, lasts_s, height, spread, pattern.trust
                    )
                    found.append(expected)
                number += 1
        return found

    def bursts_of(self, pattern: ClockPattern) -> list[Burst]:
        """Return the bursts so far that a pattern would have let expect."""
        tolerance_s = self._tolerance_s(pattern)
        offsets_s = [(burst, burst.began_s - pattern.newest.began_s) for burst in self._bursts]
        return [
            burst
            for burst, offset_s in offsets_s
            if abs(offset_s - pattern.period_s * round(offset_s / pattern.period_s)) <= tolerance_s
        ]

    def calm_until_s(self, now: Instant, within_s: float) -> Instant | None:
        """Return until when no burst is expected, if an expected one has ended within the last ``within_s``."""
        if self.over_s is None or self._detector.since_s is not None or now - self.over_s > within_s:
            return None
        trusted = [pattern for pattern in self.patterns if pattern.trust >= TRUSTED]
        begins_s = (pattern.begins_s(pattern.next_number) - 2 * pattern.spread_s for pattern in trusted)
        return min(begins_s, default=math.inf)

    def reset_clock(self) -> None:
        """Forget times: the clock was reset. Periods remain, and wait for a burst that is like theirs."""
        self._bursts.clear()
        self._begins_s.clear()
        self._since_s = self._until_s = self._current = self.over_s = None
        self._detector.since_s = None
        self._detector.forget_last()
        self.patterns = [pattern for pattern in self.patterns if pattern.trust >= TRUSTED or pattern.is_dormant]
        for pattern in self.patterns:
            pattern.is_dormant = True

    # ------------------------------------------------------------------------------------------------- single bursts

    def _pattern_at(self, from_s: Instant, to_s: Instant) -> ClockPattern | None:
        """Return the pattern that lets expect a burst that begins between two times."""
        best, least_s = None, math.inf
        for pattern in self.patterns:
            if pattern.is_dormant:
                continue
            begins_s = pattern.begins_s(pattern.next_number)
            off_s = max(0.0, from_s - begins_s, begins_s - to_s)
            if off_s <= self._tolerance_s(pattern) and off_s < least_s:
                best, least_s = pattern, off_s
        return best

    def _by_chance_s(self) -> float:
        """Return how far a burst may be off so that it is hardly on time by chance."""
        if len(self._begins_s) < 2:
            return math.inf
        distance_s = (self._begins_s[-1] - self._begins_s[0]) / (len(self._begins_s) - 1)
        return max(LEAST_TOLERANCE_S, BY_CHANCE * distance_s)

    def _tolerance_s(self, pattern: ClockPattern) -> float:
        return min(pattern.tolerance_s, self._by_chance_s())

    def _conclude(self, burst: Burst, now: Instant) -> None:
        """Take in a burst that has ended."""
        self._begins_s.append(burst.began_s)
        pattern, self._current = self._current, None
        if pattern is not None:
            self._detector.forget_last()
            rest = burst.beyond(pattern.newest)
            if rest is None:
                pattern.add(pattern.next_number, burst)
            pattern.outcomes.append(True)
            pattern.next_number += 1
            self.over_s = now
            self._pass_over(pattern, burst)
            self._bursts.append(burst if rest is None else pattern.newest.at(burst.began_s))
            self._find(self._bursts[-1], SHORTER * pattern.period_s)
            if rest is not None:
                # Two bursts at once.
                self._bursts.append(rest)
                self._find(rest)
            return
        for pattern in self.patterns:
            if pattern.is_dormant and pattern.newest.is_like(burst):
                pattern.hits.clear()
                pattern.outcomes.clear()
                pattern.hits.append((0, burst))
                pattern.outcomes.extend((True, True))
                pattern.next_number, pattern.is_dormant = 1, False
                return
        self._bursts.append(burst)
        self._find(burst)

    def _pass_over(self, taken: ClockPattern, burst: Burst) -> None:
        """Do not wait for bursts of other patterns that may be hidden in this one."""
        for pattern in self.patterns:
            if pattern is taken or pattern.is_dormant:
                continue
            begins_s = pattern.begins_s(pattern.next_number)
            tolerance_s = self._tolerance_s(pattern)
            if burst.began_s - tolerance_s <= begins_s <= burst.ended_s + tolerance_s:
                pattern.next_number += 1

    def _count_missing(self, now: Instant) -> None:
        """Count bursts that were expected and have not come, and drop patterns that have failed."""
        for pattern in self.patterns:
            while (
                not pattern.is_dormant
                and now > pattern.begins_s(pattern.next_number) + self._tolerance_s(pattern) + LATE_READINGS_S
            ):
                pattern.outcomes.append(False)
                pattern.next_number += 1
        if any(not pattern.is_dormant and pattern.trust < TRUSTED for pattern in self.patterns):
            self.patterns = [pattern for pattern in self.patterns if pattern.is_dormant or pattern.trust >= TRUSTED]

    def _skip(self, now: Instant) -> None:
        """Pass over a time of which nothing is known."""
        self._detector.since_s, self._current = None, None
        self._detector.forget_last()
        for pattern in self.patterns:
            while not pattern.is_dormant and pattern.begins_s(pattern.next_number) + pattern.tolerance_s < now:
                pattern.next_number += 1

    # ---------------------------------------------------------------------------------------------------- new patterns

    def _find(self, newest: Burst, longest_s: float = LONGEST_PERIOD_S) -> None:
        """Look for a pattern that ends with the newest burst, and has at most this period."""
        earlier = [burst for burst in list(self._bursts)[:-1] if burst.is_like(newest)]
        begins_s = [burst.began_s for burst in earlier]
        for place in range(len(earlier) - 1, -1, -1):
            period_s = newest.began_s - begins_s[place]
            if period_s < max(SHORTEST_PERIOD_S, LEAST_DISTANCE * newest.lasted_s):
                continue
            if period_s > longest_s:
                return
            hits = self._hits(newest, period_s, earlier, begins_s, is_first=len(self._bursts) == 2)
            if hits is not None:
                self._take(newest, period_s, hits)
                return

    def _hits(
        self, newest: Burst, period_s: float, earlier: list[Burst], begins_s: list[float], *, is_first: bool
    ) -> dict[int, Burst] | None:
        """Return the earlier bursts by the number of periods back, if they make a pattern."""
        hits: dict[int, Burst] = {}
        possible = 0
        at_s = newest.began_s
        since_s = newest.began_s if self._since_s is None else self._since_s
        for back in range(1, PERIODS_CHECKED + 1):
            at_s -= period_s
            tolerance_s = min(TOLERANCE * period_s, TOLERANCE_S * min(back, 2), self._by_chance_s())
            if at_s - tolerance_s < since_s and back > 1:
                break
            possible += 1
            nearest = _nearest(at_s, begins_s)
            if nearest is not None and abs(begins_s[nearest] - at_s) <= tolerance_s:
                hits[back] = earlier[nearest]
                at_s = begins_s[nearest]
        in_a_row = next((back for back in range(1, possible + 2) if back not in hits), 1)
        if len(hits) >= 2 and (len(hits) >= ENOUGH_HITS * possible or in_a_row >= IN_A_ROW):
            return hits
        return hits if is_first and possible == len(hits) == 1 and _is_usual(period_s) else None

    def _take(self, newest: Burst, period_s: float, hits: Mapping[int, Burst]) -> None:
        pattern = ClockPattern(period_s)
        furthest = max(hits)
        for back in range(furthest, 0, -1):
            pattern.outcomes.append(back in hits)
            if back in hits:
                pattern.add(furthest - back, hits[back])
        pattern.outcomes.append(True)
        pattern.add(furthest, newest)
        pattern.next_number = furthest + 1
        self.patterns = [other for other in self.patterns if not self._contains(pattern, other)]
        self.patterns.append(pattern)
        self.over_s = newest.ended_s

    def _contains(self, pattern: ClockPattern, other: ClockPattern) -> bool:
        """Whether a pattern has all bursts of another one, which is alike and has a multiple of its period."""
        if other.is_dormant or not other.newest.is_like(pattern.newest):
            return False
        times = other.period_s / pattern.period_s
        tolerance_s = self._tolerance_s(pattern)
        off_s = (other.newest.began_s - pattern.newest.began_s) / pattern.period_s
        is_multiple = abs(times - round(times)) * pattern.period_s <= tolerance_s and round(times) >= 1
        return is_multiple and abs(off_s - round(off_s)) * pattern.period_s <= tolerance_s

    # ---------------------------------------------------------------------------------------------------- saved state

    def to_json(self) -> dict[str, JSON]:
        return {
            "detector": self._detector.to_json(),
            "patterns": [pattern.to_json() for pattern in self.patterns],
            "bursts": [list(astuple(burst)) for burst in self._bursts],
            "begins_s": list(self._begins_s),
            "known": [self._since_s, self._until_s, self.over_s],
            "current": None if self._current is None else self.patterns.index(self._current),
        }

    @classmethod
    def from_json(cls, saved: Mapping[str, JSON]) -> ClockPatterns:
        made = cls()
        made._detector.restore(saved["detector"])
        made.patterns = [ClockPattern.from_json(pattern) for pattern in saved["patterns"]]
        made._bursts.extend(_burst_from(burst) for burst in saved["bursts"])
        made._begins_s.extend(float(at_s) for at_s in saved["begins_s"])
        made._since_s, made._until_s, made.over_s = (None if at_s is None else float(at_s) for at_s in saved["known"])
        made._current = None if saved["current"] is None else made.patterns[int(saved["current"])]
        return made


def _burst_from(saved: JSON) -> Burst:
    return Burst(*(float(value) for value in saved))


def _nearest(at_s: Instant, begins_s: list[float]) -> int | None:
    """Return the place of the time nearest to another in an ascending list."""
    after = bisect_left(begins_s, at_s)
    near = [place for place in (after - 1, after) if 0 <= place < len(begins_s)]
    return min(near, key=lambda place: abs(begins_s[place] - at_s), default=None)


def _is_usual(period_s: float) -> bool:
    """Whether people configure such a period.

    >>> _is_usual(905.0), _is_usual(1010.0)
    (True, False)
    """
    return any(abs(period_s - 60 * minutes) <= max(USUAL_WITHIN_S, USUAL_WITHIN * 60 * minutes) for minutes in MINUTES)

"""Workloads made of others: sums, multiples, shifted, clipped and noisy ones, and parts of a longer run."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from statistics import NormalDist

from headgate.core.errors import InputError
from headgate.core.units import format_duration
from headgate.workloads.contract import Workload
from headgate.workloads.day_load import DayLoad
from headgate.workloads.draws import draws
from headgate.workloads.shapes import MOST_PER_S, plain, require_length, require_rate, require_time
from headgate.workloads.steps import Steps

PIECE_S = 1.0
"""Where one part of a sum rises and another falls, the turn of the sum is unknown; it is cut into such pieces."""
DEFAULT_EVERY_S = 60.0
_BLOCK = 64
"""Factors drawn at once; many runs are short and need only a few."""
_STREAM = 1
_NORMAL = NormalDist()
_HALVINGS = 60


@dataclass(frozen=True)
class Sum:
    """The sum of its parts.

    >>> from headgate.workloads.shapes import Constant, Ramp
    >>> both = Sum((Constant(10.0), Ramp(0.0, 20.0, 10.0)))
    >>> both.rate_per_s(5.0), both.arrivals(0.0, 10.0), both.next_turn_s(0.0)
    (20.0, 200.0, 10.0)
    """

    parts: tuple[Workload, ...]

    def rate_per_s(self, at_s: float) -> float:
        return sum(part.rate_per_s(at_s) for part in self.parts)

    def arrivals(self, from_s: float, to_s: float) -> float:
        return sum(part.arrivals(from_s, to_s) for part in self.parts)

    def next_turn_s(self, at_s: float) -> float:
        turn_s = min(part.next_turn_s(at_s) for part in self.parts)
        if len({way for part in self.parts if (way := _way(part, at_s, turn_s))}) > 1:
            return min(turn_s, at_s + PIECE_S)
        return turn_s

    def describe(self) -> str:
        return " + ".join(_grouped(part, Modified) for part in self.parts)


@dataclass(frozen=True)
class Scaled:
    """A multiple of a load."""

    load: Workload
    factor: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.factor) and self.factor >= 0):
            raise InputError(f"a load times {plain(self.factor)} is not allowed; a factor is finite and not below 0.")
        # The product of nested factors counts.
        whole = self.factor * (self.load.factor if isinstance(self.load, Scaled) else 1.0)
        if whole > MOST_PER_S:
            raise InputError(f"a load times {whole:g} is not allowed; a factor is at most {MOST_PER_S:g}.")

    def rate_per_s(self, at_s: float) -> float:
        return self.factor * self.load.rate_per_s(at_s)

    def arrivals(self, from_s: float, to_s: float) -> float:
        return self.factor * self.load.arrivals(from_s, to_s)

    def next_turn_s(self, at_s: float) -> float:
        return self.load.next_turn_s(at_s)

    def describe(self) -> str:
        return f"{_grouped(self.load, (Sum, Modified))} * {plain(self.factor)}"


class Modified:
    """A load changed by a modifier, written after ``|``."""


@dataclass(frozen=True)
class Shifted(Modified):
    """A load moved later, or, for a negative shift, started from a time inside it.

    >>> from headgate.workloads.shapes import Ramp
    >>> later = Shifted(Ramp(0.0, 20.0, 10.0), 60.0)
    >>> later.rate_per_s(59.0), later.rate_per_s(65.0), later.arrivals(0.0, 70.0), later.next_turn_s(0.0)
    (0.0, 10.0, 100.0, 60.0)
    """

    load: Workload
    by_s: float

    def rate_per_s(self, at_s: float) -> float:
        return 0.0 if at_s < self.by_s else self.load.rate_per_s(at_s - self.by_s)

    def arrivals(self, from_s: float, to_s: float) -> float:
        first_s = max(from_s, self.by_s)
        return self.load.arrivals(first_s - self.by_s, to_s - self.by_s) if to_s > first_s else 0.0

    def next_turn_s(self, at_s: float) -> float:
        if at_s < self.by_s:
            return self.by_s
        turn_s = self.by_s + self.load.next_turn_s(at_s - self.by_s)
        # Rounding may place the turn at the present time.
        return turn_s if turn_s > at_s else math.nextafter(at_s, math.inf)

    def describe(self) -> str:
        return f"{self.load.describe()} | shift {plain(self.by_s)}s"


@dataclass(frozen=True)
class Clipped(Modified):
    """A load bounded to ``low`` to ``high`` records per second.

    >>> from headgate.workloads.shapes import Ramp
    >>> load = Clipped(Ramp(0.0, 20.0, 10.0), 5.0, 15.0)
    >>> load.rate_per_s(0.0), load.rate_per_s(5.0), load.rate_per_s(10.0), round(load.arrivals(0.0, 10.0), 6)
    (5.0, 10.0, 15.0, 100.0)
    """

    load: Workload
    low: float = 0.0
    high: float = math.inf

    def __post_init__(self) -> None:
        require_rate("low", self.low)
        if not self.high >= self.low:
            raise InputError(f"a load between {plain(self.low)} and {plain(self.high)} is not possible.")

    def rate_per_s(self, at_s: float) -> float:
        return min(self.high, max(self.low, self.load.rate_per_s(at_s)))

    @cached_property
    def _totals(self) -> _Totals:
        return _Totals(self.load.next_turn_s, self._within_piece)

    def arrivals(self, from_s: float, to_s: float) -> float:
        return self._totals.until(to_s) - self._totals.until(from_s)

    def _within_piece(self, from_s: float, to_s: float) -> float:
        """Return the arrivals of a monotonic stretch, in which the rate crosses each bound at most once."""
        cuts_s = [from_s, *sorted(self._passed_s(from_s, to_s, bound) for bound in (self.low, self.high)), to_s]
        total = 0.0
        for begin_s, end_s in pairwise(cuts_s):
            middle = self.load.rate_per_s((begin_s + end_s) / 2)
            if self.low < middle < self.high:
                total += self.load.arrivals(begin_s, end_s)
            else:
                total += min(self.high, max(self.low, middle)) * (end_s - begin_s)
        return total

    def _passed_s(self, from_s: float, to_s: float, bound: float) -> float:
        """Return when the rate crosses a bound; the start where it does not."""
        hair_s = (to_s - from_s) * 1e-9
        begin, end = self.load.rate_per_s(from_s), self.load.rate_per_s(to_s - hair_s)
        if (begin - bound) * (end - bound) >= 0 or math.isinf(bound):
            return from_s
        before_s, after_s = from_s, to_s - hair_s
        for _ in range(_HALVINGS):
            middle_s = (before_s + after_s) / 2
            if (self.load.rate_per_s(middle_s) - bound) * (begin - bound) > 0:
                before_s = middle_s
            else:
                after_s = middle_s
        return after_s

    def next_turn_s(self, at_s: float) -> float:
        return self.load.next_turn_s(at_s)

    def describe(self) -> str:
        high = "" if math.isinf(self.high) else plain(self.high)
        return f"{self.load.describe()} | clip {plain(self.low)}..{high}"


@dataclass(frozen=True)
class Noisy(Modified):
    """A load with a random factor per stretch of ``every_s``: 1 on average, with ``spread`` as the deviation of its
    logarithm."""

    load: Workload
    spread: float
    every_s: float = DEFAULT_EVERY_S
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.spread <= 1:
            raise InputError(f"noise of {plain(100 * self.spread)}% is not allowed; 0% to 100% are.")
        require_length("every", self.every_s)

    def _factor(self, stretch: int) -> float:
        block, place = divmod(max(0, stretch), _BLOCK)
        return _factors(self.seed, self.spread, block)[place]

    def rate_per_s(self, at_s: float) -> float:
        return self._factor(math.floor(at_s / self.every_s)) * self.load.rate_per_s(at_s)

    @cached_property
    def _totals(self) -> _Totals:
        return _Totals(self._stretch_ends_s, self._within_stretch)

    def arrivals(self, from_s: float, to_s: float) -> float:
        return self._totals.until(to_s) - self._totals.until(from_s)

    def _within_stretch(self, from_s: float, to_s: float) -> float:
        return self._factor(math.floor((from_s + to_s) / 2 / self.every_s)) * self.load.arrivals(from_s, to_s)

    def _stretch_ends_s(self, at_s: float) -> float:
        stretch = math.floor(at_s / self.every_s)
        ends_s = (stretch + 1) * self.every_s
        return ends_s if ends_s > at_s else (stretch + 2) * self.every_s

    def next_turn_s(self, at_s: float) -> float:
        return min(self.load.next_turn_s(at_s), self._stretch_ends_s(at_s))

    def describe(self) -> str:
        share, every = plain(round(100 * self.spread, 9)), plain(self.every_s)
        return f"{self.load.describe()} | noise {share}% every {every}s seed {self.seed}"


def reseeded(workload: Workload, by: int) -> Workload:
    """Return the load with every seed raised: other noise, and other days."""
    match workload:
        case DayLoad():
            return workload.reseeded(by)
        case Sum(parts=parts):
            return Sum(tuple(reseeded(part, by) for part in parts))
        case Noisy(load=load, seed=seed):
            return replace(workload, load=reseeded(load, by), seed=seed + by)
        case Scaled(load=load) | Shifted(load=load) | Clipped(load=load):
            return replace(workload, load=reseeded(load, by))
        case _:
            return workload


def end_of(workload: Workload) -> float | None:
    """Return when a load ends; ``None`` where it has no end."""
    match workload:
        case Steps():
            return workload.end_s
        case Sum():
            ends_s = [end_of(part) for part in workload.parts]
            known_s = [end_s for end_s in ends_s if end_s is not None]
            return max(known_s) if len(known_s) == len(ends_s) else None
        case Shifted():
            end_s = end_of(workload.load)
            return None if end_s is None else max(0.0, end_s + workload.by_s)
        case Clipped(low=low):
            return end_of(workload.load) if low == 0 else None
        case Scaled() | Noisy():
            return end_of(workload.load)
        case _:
            return None


@lru_cache(maxsize=4096)
def _factors(seed: int, spread: float, block: int) -> tuple[float, ...]:
    chances = draws(seed, _STREAM, block * _BLOCK, _BLOCK)
    # A probability of exactly 0 has an infinite score.
    scores = (_NORMAL.inv_cdf(max(1e-12, float(chance))) for chance in chances)
    return tuple(math.exp(spread * score - spread * spread / 2) for score in scores)


class _Totals:
    """Arrivals up to the ends of pieces of time from 0 on, computed on demand and cached."""

    def __init__(self, next_end_s: Callable[[float], float], within: Callable[[float, float], float]) -> None:
        self._next_end_s, self._within = next_end_s, within
        self._ends_s, self._totals = [0.0], [0.0]

    def until(self, at_s: float) -> float:
        while (end_s := self._next_end_s(self._ends_s[-1])) <= at_s:
            self._totals.append(self._totals[-1] + self._within(self._ends_s[-1], end_s))
            self._ends_s.append(end_s)
        place = max(0, bisect_right(self._ends_s, at_s) - 1)
        if at_s == self._ends_s[place]:
            return self._totals[place]
        return self._totals[place] + self._within(self._ends_s[place], at_s)


def _way(part: Workload, from_s: float, to_s: float) -> int:
    """Return 1 where a rate rises until a time, -1 where it falls, 0 where it is constant."""
    end_s = to_s if math.isfinite(to_s) else from_s + 1e9
    moved = part.rate_per_s(from_s + 0.999 * (end_s - from_s)) - part.rate_per_s(from_s)
    return (moved > 0) - (moved < 0)


def _grouped(part: Workload, kinds: type | tuple[type, ...]) -> str:
    return f"({part.describe()})" if isinstance(part, kinds) else part.describe()


def ends_early(workload: Workload, seconds: float) -> list[str]:
    """Return a sentence if the load ends before the run does."""
    end_s = end_of(workload)
    if end_s is None or end_s >= seconds:
        return []
    sentence = (
        f"{workload.describe()} ends after {format_duration(end_s)}, and the run lasts {format_duration(seconds)}"
    )
    return [f"{sentence}: nothing arrives from then on."]


def notes_of(workload: Workload) -> list[str]:
    """Return sentences on how recordings were repaired and multiplied to make this load."""
    match workload:
        case Steps():
            return [f"{workload.describe()}: {note}." for note in workload.notes]
        case Sum():
            return [note for part in workload.parts for note in notes_of(part)]
        case Scaled():
            own = f"{workload.load.describe()}: multiplied by {plain(workload.factor)}."
            return [*notes_of(workload.load), *([own] if end_of(workload.load) is not None else [])]
        case Shifted() | Clipped() | Noisy():
            return notes_of(workload.load)
        case _:
            return []


@dataclass(frozen=True)
class Placed:
    """A load that begins at a time of the run and lasts for a while.

    >>> from headgate.workloads.shapes import Ramp
    >>> late = Placed(Ramp(start=0.0, end=20.0, over_s=10.0), begins_s=5.0, lasting_s=10.0)
    >>> late.rate_per_s(4.0), late.rate_per_s(10.0), late.arrivals(0.0, 60.0), late.next_turn_s(0.0)
    (0.0, 10.0, 100.0, 5.0)
    """

    load: Workload
    begins_s: float
    lasting_s: float

    def __post_init__(self) -> None:
        require_time("begins", self.begins_s)
        require_length("lasting", self.lasting_s)

    @property
    def ends_s(self) -> float:
        return self.begins_s + self.lasting_s

    def rate_per_s(self, at_s: float) -> float:
        return self.load.rate_per_s(at_s - self.begins_s) if self.begins_s <= at_s < self.ends_s else 0.0

    def arrivals(self, from_s: float, to_s: float) -> float:
        first_s, last_s = max(from_s, self.begins_s), min(to_s, self.ends_s)
        return self.load.arrivals(first_s - self.begins_s, last_s - self.begins_s) if last_s > first_s else 0.0

    def next_turn_s(self, at_s: float) -> float:
        if at_s < self.begins_s:
            return self.begins_s
        if at_s >= self.ends_s:
            return float("inf")
        return min(self.ends_s, self.begins_s + self.load.next_turn_s(at_s - self.begins_s))

    def describe(self) -> str:
        return f"{self.load.describe()} from {plain(self.begins_s)} s on for {plain(self.lasting_s)} s"

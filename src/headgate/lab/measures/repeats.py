"""Means over repeats with confidence intervals, and whether paired values differ.

Intervals are Student's: they assume normally distributed means and allow for few values. A bootstrap assumes less, but
draws from few values, and its intervals are too narrow (a test shows it on five skewed ones), so it is not used.

>>> found = estimate([10.0, 12.0, 14.0])
>>> found.mean, round(found.low, 2), round(found.high, 2)
(12.0, 7.03, 16.97)
>>> estimate([10.0]).low is None
True
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

from headgate.core.errors import InputError
from headgate.core.types import JSON

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over repeats, with its confidence interval."""

    mean: float
    stddev: float | None
    """``None`` for a single run."""
    count: int
    confidence: float = CONFIDENCE

    @property
    def half_width(self) -> float | None:
        """Half the width of the interval; ``None``, like ``low`` and ``high``, for a single run."""
        if self.stddev is None:
            return None
        return t_quantile(self.count - 1, self.confidence) * self.stddev / math.sqrt(self.count)

    @property
    def low(self) -> float | None:
        return None if self.half_width is None else self.mean - self.half_width

    @property
    def high(self) -> float | None:
        return None if self.half_width is None else self.mean + self.half_width

    def to_json(self) -> dict[str, JSON]:
        return {"mean": self.mean, "low": self.low, "high": self.high, "count": self.count}


def estimate(values: Iterable[float], confidence: float = CONFIDENCE) -> Estimate:
    """Return the mean of values with its confidence interval; their order makes no difference."""
    found = list(values)
    if not found:
        raise InputError("there are no values to average; at least one is needed.")
    if not all(math.isfinite(value) for value in found):
        raise InputError(f"values {found} cannot be averaged; they must be finite.")
    if not 0 < confidence < 1:
        raise InputError(f"confidence {confidence} is not allowed; it must lie between 0 and 1.")
    count = len(found)
    mean = math.fsum(found) / count
    if count == 1:
        return Estimate(mean, None, 1, confidence)
    stddev = math.sqrt(math.fsum((value - mean) ** 2 for value in found) / (count - 1))
    return Estimate(mean, stddev, count, confidence)


@lru_cache(maxsize=256)
def t_quantile(freedom: float, confidence: float = CONFIDENCE) -> float:
    """Return how many standard errors an interval extends to either side."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + confidence) / 2))


Key = TypeVar("Key")
_HAIR = 1e-12
"""Values that differ by less than this share are equal."""


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """The mean of ours minus theirs over pairs, with its interval."""

    mean: float
    low: float | None
    high: float | None
    pairs: int
    unpaired: int
    """Values without a partner, or whose partner is unknown."""

    def to_json(self) -> dict[str, JSON]:
        return {
            "mean": self.mean,
            "low": self.low,
            "high": self.high,
            "pairs": self.pairs,
            "unpaired": self.unpaired,
            "is_noise": is_noise(self),
        }


def paired_difference(
    ours: Mapping[Key, float | None], theirs: Mapping[Key, float | None], confidence: float = CONFIDENCE
) -> PairedDifference:
    """Return ours minus theirs, for values keyed by what they were measured on, such as the load and the seed.

    The effect of a load on both policies cancels out in a pair, so that far fewer repeats are needed.

    >>> ours, theirs = {"a": 10.0, "b": 20.0, "c": 31.0}, {"a": 11.0, "b": 21.5, "c": 32.2}
    >>> found = paired_difference(ours, theirs)
    >>> is_noise(found), difference_in_words(found, "h")
    (False, '1.23 h less (0.608 to 1.86 h, 3 pairs)')
    >>> difference_in_words(paired_difference({"a": 1.0, "b": 3.0}, {"a": 2.0, "b": 2.5}), "h")
    'no difference seen (-9.78 to +9.28 h, 2 pairs)'
    """
    known = {key: value for key, value in ours.items() if value is not None}
    their_known = {key: value for key, value in theirs.items() if value is not None}
    common = [key for key in known if key in their_known]
    if not common:
        raise InputError(f"{len(known)} values and {len(their_known)} have nothing in common; pairs are needed.")
    found = estimate((_difference(known[key], their_known[key]) for key in common), confidence)
    unpaired = len(ours.keys() | theirs.keys()) - len(common)
    return PairedDifference(found.mean, found.low, found.high, found.count, unpaired)


def _difference(our: float, their: float) -> float:
    difference = our - their
    return 0.0 if abs(difference) <= _HAIR * max(abs(our), abs(their)) else difference


def is_noise(difference: PairedDifference) -> bool:
    """Return whether a difference may be chance: its interval contains 0, or there is only one pair."""
    if difference.low is None or difference.high is None:
        return True
    return difference.low <= 0 <= difference.high


def difference_in_words(difference: PairedDifference, unit: str = "") -> str:
    """Return a difference as text: how much more or less, or that none was seen."""
    end = f" {unit}" if unit else ""
    mean, low, high = difference.mean, difference.low, difference.high
    if low is None or high is None:
        return f"no difference seen ({mean:+.3g}{end}, one pair only)"
    if is_noise(difference):
        return f"no difference seen ({low:+.3g} to {high:+.3g}{end}, {difference.pairs} pairs)"
    least, most = sorted((abs(low), abs(high)))
    side = "more" if mean > 0 else "less"
    return f"{abs(mean):.3g}{end} {side} ({least:.3g} to {most:.3g}{end}, {difference.pairs} pairs)"

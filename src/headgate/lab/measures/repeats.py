"""A mean over repeats, and how sure it is.

The interval is Student's: it supposes that means scatter like a normal distribution, and allows for the few values that
there are. A bootstrap would suppose less, but of few values it has little to draw from and its intervals are too narrow
(a test shows it on five skewed ones), so it is not used.

>>> found = estimate([10.0, 12.0, 14.0])
>>> found.mean, round(found.low, 2), round(found.high, 2)
(12.0, 7.03, 16.97)
>>> estimate([10.0]).low is None
True
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from headgate.core.errors import InputError
from headgate.core.types import JSON

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over repeats, with the interval in which the true one lies as often as the confidence says."""

    mean: float
    stddev: float | None
    """``None`` for a single run, of which nobody knows how far others would be from it."""
    count: int
    confidence: float = CONFIDENCE

    @property
    def half_width(self) -> float | None:
        """How near the mean is to the true one; ``None``, as ``low`` and ``high``, where nothing can be said."""
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
    """The mean of some values and its confidence interval; their order makes no difference."""
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
    """How many standard errors an interval reaches to either side."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + confidence) / 2))

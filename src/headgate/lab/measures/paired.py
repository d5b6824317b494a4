"""Whether two policies differ, on the same loads and seeds: the differences of pairs, and how sure their mean is.

What a load does to both policies drops out of a pair's difference, so that far fewer repeats tell them apart.

>>> ours, theirs = {"a": 10.0, "b": 20.0, "c": 31.0}, {"a": 11.0, "b": 21.5, "c": 32.2}
>>> found = paired_difference(ours, theirs)
>>> is_noise(found), difference_in_words(found, "h")
(False, '1.23 h less (0.608 to 1.86 h, 3 pairs)')
>>> difference_in_words(paired_difference({"a": 1.0, "b": 3.0}, {"a": 2.0, "b": 2.5}), "h")
'no difference seen (-9.78 to +9.28 h, 2 pairs)'
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from headgate.core.errors import InputError
from headgate.core.types import JSON
from headgate.lab.measures.repeats import CONFIDENCE, estimate

Key = TypeVar("Key")
_HAIR = 1e-12
"""Values that differ by less than this share of them are equal."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Ours less theirs: the mean over pairs, with its interval."""

    mean: float
    low: float | None
    high: float | None
    pairs: int
    unpaired: int
    """Values that have no partner, or one that is not known."""

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
) -> Difference:
    """Ours less theirs, of values by what they were measured on (the load, the seed and whatever else was the same)."""
    known = {key: value for key, value in ours.items() if value is not None}
    their_known = {key: value for key, value in theirs.items() if value is not None}
    common = [key for key in known if key in their_known]
    if not common:
        raise InputError(f"{len(known)} values and {len(their_known)} have nothing in common; pairs are needed.")
    found = estimate((_difference(known[key], their_known[key]) for key in common), confidence)
    unpaired = len(ours.keys() | theirs.keys()) - len(common)
    return Difference(found.mean, found.low, found.high, found.count, unpaired)


def _difference(our: float, their: float) -> float:
    difference = our - their
    return 0.0 if abs(difference) <= _HAIR * max(abs(our), abs(their)) else difference


def is_noise(difference: Difference) -> bool:
    """Whether a difference may be chance: its interval holds 0, or one pair is all there is."""
    if difference.low is None or difference.high is None:
        return True
    return difference.low <= 0 <= difference.high


def difference_in_words(difference: Difference, unit: str = "") -> str:
    """A difference for a table: how much more or less, or that none was seen."""
    end = f" {unit}" if unit else ""
    mean, low, high = difference.mean, difference.low, difference.high
    if low is None or high is None:
        return f"no difference seen ({mean:+.3g}{end}, one pair only)"
    if is_noise(difference):
        return f"no difference seen ({low:+.3g} to {high:+.3g}{end}, {difference.pairs} pairs)"
    least, most = sorted((abs(low), abs(high)))
    side = "more" if mean > 0 else "less"
    return f"{abs(mean):.3g}{end} {side} ({least:.3g} to {most:.3g}{end}, {difference.pairs} pairs)"

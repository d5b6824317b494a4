"""How long a journal keeps what, and what that leaves of a run's detail.

Everything is kept while it is young. Later, of the entries that only repeat the one before them, one a minute is left,
and later still one an hour: the newest, just as it was written. An entry that says something new stays. Readings are
counters, so what two of them differ by stays right however many between them are gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise
from typing import Annotated

from pydantic import Field, model_validator

from headgate.core.types import Instant
from headgate.core.units import format_duration
from headgate.policies.frame.settings import PositiveSeconds, Seconds, Settings, make_settings

MINUTE_S = 60.0
HOUR_S = 3600.0


class Retention(Settings):
    """What a journal keeps for how long, and how large its file may get."""

    full_detail_s: Seconds = 2 * 86400.0
    """Everything is kept for so long. Then one entry a minute is left of those that repeat the one before them."""
    minutes_s: Seconds = 14 * 86400.0
    """One entry a minute is kept until this age, then one an hour."""
    hours_s: PositiveSeconds | None = None
    """Whatever is older than this is removed, changes and events too; none: it stays while there is room."""
    max_file_mb: Annotated[float, Field(ge=16)] = 64.0
    """What the file, with its log, stays below (1 MB = 1,000,000 bytes). When the above would come to more, detail is
    given up earlier, and the oldest entries go once there is nothing else left to give up."""

    @model_validator(mode="after")
    def _check_order(self) -> Retention:
        limits = {"full_detail_s": self.full_detail_s, "minutes_s": self.minutes_s, "hours_s": self.hours_s}
        named = [(name, age_s) for name, age_s in limits.items() if age_s is not None]
        for (name, age_s), (next_name, next_age_s) in pairwise(named):
            if next_age_s < age_s:
                texts = f"{next_name} {format_duration(next_age_s)}", f"{name} {format_duration(age_s)}"
                raise ValueError(f"{texts[0]} is less than {texts[1]}; it must be at least that")
        return self


def retention_from(given: Retention | Mapping[str, object] | None) -> Retention:
    """Retention from plain values, such as ``{"full_detail_s": "12h"}``; the defaults where nothing is given."""
    return given if isinstance(given, Retention) else make_settings(Retention, "retention", given or {})


class Detail(IntEnum):
    """What an entry stands for."""

    FULL = 0
    """Itself: it repeats the one before it, and is still young."""
    MINUTE = 1
    """All those of its minute that repeated each other."""
    HOUR = 2
    """The same of its hour."""
    LASTING = 3
    """Itself for good: it says something new."""


@dataclass(frozen=True, slots=True)
class Thinned:
    """Up to when a run's entries are only one a minute, or one an hour; ``None``: nowhere.

    >>> Thinned(minutes_until_s=120.0, hours_until_s=60.0).until_s
    120.0
    """

    minutes_until_s: Instant | None = None
    hours_until_s: Instant | None = None

    @property
    def until_s(self) -> Instant | None:
        """Entries after this one are all there."""
        known = [at_s for at_s in (self.minutes_until_s, self.hours_until_s) if at_s is not None]
        return max(known, default=None)

    def __bool__(self) -> bool:
        return self.until_s is not None

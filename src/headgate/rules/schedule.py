"""Times of the week in the manner of cron: which minutes belong to a period, in a time zone.

Five fields — minute, hour, day of the month, month, day of the week — say which minutes belong; all five must match.
A range may run over the end, as ``22-5`` does for the hours of a night.

>>> from zoneinfo import ZoneInfo
>>> office_hours = Schedule("* 8-17 * * mon-fri")
>>> office_hours.covers(1_700_042_400.0, ZoneInfo("Europe/Berlin"))  # a Wednesday, 11:00
True
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

from headgate.core.errors import InputError, UnknownNameError
from headgate.core.types import Instant

FORM = "five fields such as '* 8-17 * * mon-fri': minute, hour, day of the month, month, day of the week"
_DAYS = {name: number for number, name in enumerate(("sun", "mon", "tue", "wed", "thu", "fri", "sat"))}
_MONTHS = {
    name: number
    for number, name in enumerate(
        ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"), start=1
    )
}
_FIELDS: tuple[tuple[str, int, int, dict[str, int]], ...] = (
    ("minute", 0, 59, {}),
    ("hour", 0, 23, {}),
    ("day of the month", 1, 31, {}),
    ("month", 1, 12, _MONTHS),
    ("day of the week", 0, 7, _DAYS),
)
_PART = re.compile(r"(?P<first>\*|[a-z0-9]+)(?:-(?P<last>[a-z0-9]+))?(?:/(?P<step>\d+))?")


@dataclass(frozen=True, slots=True)
class Schedule:
    """The minutes that match a cron expression."""

    text: str
    _allowed: tuple[frozenset[int], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        text = " ".join(str(self.text).lower().split())
        parts = text.split(" ")
        if len(parts) != len(_FIELDS):
            raise InputError(f"period {self.text!r} has {len(parts)} fields; expected {FORM}.")
        allowed = [_values(part, *spec, whole=self.text) for part, spec in zip(parts, _FIELDS, strict=True)]
        allowed[4] = frozenset(day % 7 for day in allowed[4])  # Sunday is 0 and 7.
        object.__setattr__(self, "text", text)
        object.__setattr__(self, "_allowed", tuple(allowed))

    def covers(self, at_s: Instant, zone: tzinfo) -> bool:
        """Whether an instant, in seconds since the epoch, lies in the period."""
        at = datetime.fromtimestamp(at_s, zone)
        found = (at.minute, at.hour, at.day, at.month, at.isoweekday() % 7)
        return all(value in allowed for value, allowed in zip(found, self._allowed, strict=True))

    def __str__(self) -> str:
        return self.text


def _values(text: str, name: str, lowest: int, highest: int, names: dict[str, int], *, whole: str) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise InputError(f"{name} {part!r} of period {whole!r} is not understood; expected {FORM}.")
        step = int(match["step"] or 1)
        if step < 1:
            raise InputError(f"step {part!r} of period {whole!r} is not allowed; it must be at least 1.")
        if match["first"] == "*":
            first, last = lowest, highest
        else:
            first = _number(match["first"], name, lowest, highest, names, whole)
            last = first if match["last"] is None else _number(match["last"], name, lowest, highest, names, whole)
            if match["step"] and match["last"] is None:
                last = highest
        # A range that runs over the end goes on at the beginning.
        span = range(first, last + 1) if first <= last else (*range(first, highest + 1), *range(lowest, last + 1))
        found.update(list(span)[::step])
    return frozenset(found)


def _number(text: str, name: str, lowest: int, highest: int, names: dict[str, int], whole: str) -> int:
    if text.isdigit() and lowest <= int(text) <= highest:
        return int(text)
    for spelt, number in names.items():
        if text[:3] == spelt:
            return number
    known = f" or a name such as {next(iter(names))}" if names else ""
    raise InputError(f"{name} {text!r} of period {whole!r} is not allowed; expected {lowest} to {highest}{known}.")


@cache
def time_zone(name: str) -> tzinfo:
    """A time zone by its name, such as ``Europe/Berlin``."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        close = [known for known in sorted(available_timezones()) if known.lower() == name.lower()]
        if close:
            raise InputError(f"unknown time zone {name!r}, did you mean {close[0]!r}?") from error
        unknown = UnknownNameError("time zone", name, available_timezones())
        hint = str(unknown).split(" Known: ", maxsplit=1)[0].rstrip(".")
        raise InputError(
            f"{hint}{'' if hint.endswith('?') else ';'} expected a name such as Europe/Berlin or UTC."
        ) from error

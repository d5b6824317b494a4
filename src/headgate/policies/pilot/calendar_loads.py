"""Loads that come by a calendar that the user gives, such as the first two hours of each month.

An entry names minutes in the manner of cron and how much more arrives in them: ``* 0-1 1 * * = x3`` for three times the
load, ``* 8-9 * * mon-fri = +200`` for 200 records/s on top. Only the begin has to be known in advance: after it, what
arrives is measured, and counts instead.

>>> calendar = CalendarLoads("* 0-1 1 * * = x3; * 8-9 * * mon-fri = +200")
>>> wednesday_0758_s = 1_700_035_080.0
>>> burst, = calendar.expected(wednesday_0758_s, 300.0, level_per_s=50.0)
>>> burst.pattern, burst.begins_s - wednesday_0758_s, burst.lasts_s, burst.height_per_s
('by the calendar, * 8-9 * * mon-fri', 120.0, 240.0, 200.0)
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, tzinfo

from headgate.core.errors import InputError
from headgate.core.types import Instant
from headgate.forecast.clock_patterns import ExpectedBurst
from headgate.rules.schedule import Schedule

FORM = "minutes as in cron and a load, such as '* 0-1 1 * * = x3' or '* 8-9 * * mon-fri = +200'; several with ';'"
SPREAD = 0.1
"""Assumed relative deviation of the height."""
_MINUTE_S = 60.0
_LOAD = re.compile(r"(?P<sign>[x×+])\s*(?P<number>\d+(\.\d+)?)")


@dataclass(frozen=True, slots=True)
class CalendarEntry:
    """Minutes in which more arrives than otherwise."""

    minutes: Schedule
    factor: float = 1.0
    more_per_s: float = 0.0

    def height_per_s(self, level_per_s: float) -> float:
        return (self.factor - 1) * level_per_s + self.more_per_s


def parse_entry(text: str) -> CalendarEntry:
    minutes, equals, load = text.partition("=")
    match = _LOAD.fullmatch(load.strip())
    if not equals or match is None:
        raise InputError(f"calendar entry {text.strip()!r} is not understood; expected {FORM}.")
    number = float(match["number"])
    if match["sign"] == "+":
        return CalendarEntry(Schedule(minutes), more_per_s=number)
    if number <= 1:
        raise InputError(f"factor {number:g} of calendar entry {text.strip()!r} is not allowed; it must be above 1.")
    return CalendarEntry(Schedule(minutes), factor=number)


class CalendarLoads:
    """The entries of a calendar in a time zone."""

    def __init__(self, text: str = "", zone: tzinfo = UTC) -> None:
        self.entries = tuple(parse_entry(part) for part in text.split(";") if part.strip())
        self._zone = zone
        self._covered: dict[tuple[int, int], bool] = {}
        """Cache by entry and minute, of the minutes around now."""

    def expected(
        self, epoch_s: float, within_s: float, *, level_per_s: float, now: Instant | None = None
    ) -> list[ExpectedBurst]:
        """Return the entries that begin within so many seconds.

        ``level_per_s`` is the load without them; ``now`` is the time on the clock of the bursts, where that is not
        ``epoch_s``.
        """
        shift_s = 0.0 if now is None else now - epoch_s
        first, last = int(epoch_s // _MINUTE_S), int((epoch_s + within_s) // _MINUTE_S)
        found = []
        for place, entry in enumerate(self.entries):
            covered = [self._covers(place, minute) for minute in range(first, last + 1)]
            for begin in range(1, len(covered)):
                if not covered[begin] or covered[begin - 1]:
                    continue
                rest = covered[begin:]
                minutes = rest.index(False) if False in rest else len(rest)
                found.append(
                    ExpectedBurst(
                        pattern=f"by the calendar, {entry.minutes}",
                        begins_s=(first + begin) * _MINUTE_S + shift_s,
                        spread_s=0.0,
                        lasts_s=minutes * _MINUTE_S,
                        height_per_s=entry.height_per_s(level_per_s),
                        height_spread=SPREAD,
                        trust=1.0,
                    )
                )
        self._covered = {key: value for key, value in self._covered.items() if key[1] >= first}
        return found

    def _covers(self, place: int, minute: int) -> bool:
        key = place, minute
        if key not in self._covered:
            self._covered[key] = self.entries[place].minutes.covers(minute * _MINUTE_S, self._zone)
        return self._covered[key]

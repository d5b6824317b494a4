"""A recorded load from rows of time and amount: checks, and repairs on request.

- Time 0 is that of the first row. A row lasts until the next row; the last row as long as the one before it.
- A row much longer than others precedes a gap, in which nothing arrives. With ``fill_gaps`` its count is spread over
  the gap, or its rate continues through it. Either way it is noted.
- Unsorted rows, two rows with one time and missing amounts are errors. With ``repair``, rows are sorted, counts of one
  time are added, rates averaged, and a row without an amount becomes a gap; each repair is noted with its number. The
  sum of the counts never changes.
- A count below 0 is always an error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from statistics import median
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from headgate.core.errors import InputError
from headgate.core.units import format_duration
from headgate.workloads.shapes import MOST_PER_S
from headgate.workloads.steps import Steps

LATEST_S = 1e11
"""Seconds beyond this, in the year 5138, are milliseconds."""


def find_zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InputError(f"zone {name!r} is not known; write for example UTC or Europe/Berlin.") from error


class Timestamps:
    """Seconds since 1970 from the timestamps of one file, row by row.

    One file has all as dates or all as numbers of seconds. A date without a zone is taken as UTC, or as of the ``zone``
    that is given; one file has all with a zone or all without, unless it is given. Where clocks go back, an hour is
    there twice: a time that is not after the one before it is the second one.
    """

    def __init__(self, zone: ZoneInfo | None = None) -> None:
        self._zone = zone
        self._is_number: bool | None = None
        self._is_aware: bool | None = None
        self._before_s = -math.inf
        self.second_times = 0
        """How many timestamps were read as the second occurrence of a repeated hour."""

    def seconds(self, place: str, value: object) -> float:
        """Return the seconds of a timestamp; an error names its place."""
        at_s = self._read(place, value)
        if not math.isfinite(at_s):
            raise InputError(f"{place} has the timestamp {str(value)!r}; it must be finite.")
        self._before_s = at_s
        return at_s

    def _read(self, place: str, value: object) -> float:
        if isinstance(value, datetime):
            return self._moment_s(place, value)
        try:
            seconds = float(str(value))
        except ValueError:
            pass
        else:
            return self._number_s(place, value, seconds)
        try:
            moment = datetime.fromisoformat(str(value))
        except ValueError as error:
            raise InputError(
                f"{place} has the timestamp {str(value)!r}; ISO 8601 (2024-05-01T12:00) or seconds are allowed."
            ) from error
        return self._moment_s(place, moment)

    def _number_s(self, place: str, value: object, seconds: float) -> float:
        self._require_alike(place, value, is_number=True)
        if LATEST_S < abs(seconds) < math.inf:
            raise InputError(
                f"{place} has the timestamp {str(value)!r}, which is no time in seconds but may be one in "
                "milliseconds; seconds are needed."
            )
        return seconds

    def _require_alike(self, place: str, value: object, *, is_number: bool) -> None:
        if self._is_number not in (None, is_number):
            has, others = ("a number", "dates") if is_number else ("a date", "numbers")
            raise InputError(
                f"{place} has the timestamp {str(value)!r}, {has}, and rows before it have {others}; one file has all "
                "as dates or all as seconds."
            )
        self._is_number = is_number

    def _moment_s(self, place: str, moment: datetime) -> float:
        self._require_alike(place, moment, is_number=False)
        is_aware = moment.tzinfo is not None
        if self._is_aware not in (None, is_aware) and self._zone is None:
            has, others = ("a", "none") if is_aware else ("no", "one")
            raise InputError(
                f"{place} has the timestamp {str(moment)!r} with {has} zone, and rows before it have {others}; "
                "zone=UTC, for example, says which one is meant where there is none."
            )
        self._is_aware = is_aware
        if is_aware:
            return moment.timestamp()
        if self._zone is None:
            return moment.replace(tzinfo=UTC).timestamp()
        return self._local_s(place, moment, self._zone)

    def _local_s(self, place: str, moment: datetime, zone: ZoneInfo) -> float:
        first = moment.replace(tzinfo=zone, fold=0)
        if datetime.fromtimestamp(first.timestamp(), zone).replace(tzinfo=None) != moment:
            raise InputError(f"{place} has the timestamp {str(moment)!r}, which the clocks of {zone.key} skipped.")
        second_s = moment.replace(tzinfo=zone, fold=1).timestamp()
        if second_s > first.timestamp() and first.timestamp() <= self._before_s:
            self.second_times += 1
            return second_s
        return first.timestamp()


GAP = 1.5
"""A row that lasts this many times as long as the median row precedes a gap."""
HINT = "repair=yes"
FILL_HINT = "gaps=fill"


@dataclass(frozen=True, slots=True)
class RecordedRow:
    place: str
    timestamp: str
    """The timestamp as written."""
    at_s: float
    amount: float | None
    """``None`` where it is missing."""
    amount_text: str = ""

    @classmethod
    def of(cls, place: str, timestamp: object, at_s: float, amount: object) -> RecordedRow:
        return cls(place, str(timestamp), at_s, amount_of(place, amount), "" if amount is None else str(amount).strip())


def amount_of(place: str, value: object) -> float | None:
    """Return a count or a rate; ``None`` where there is none."""
    text = "" if value is None else str(value).strip()
    try:
        amount = float(text)
    except ValueError:
        amount = math.nan
    if text == "" or text.lower() in ("nan", "none", "null", "na"):
        return None
    if not (math.isfinite(amount) and amount >= 0):
        raise InputError(f"{place} has the amount {text!r}; a number that is not negative is needed.")
    if amount > MOST_PER_S:
        raise InputError(f"{place} has the amount {text!r}; at most {MOST_PER_S:g} is allowed.")
    return amount


def steps_of(
    file: str,
    rows: Sequence[RecordedRow],
    *,
    is_count: bool,
    repair: bool,
    fill_gaps: bool,
    any_order: bool,
    described: str,
) -> Steps:
    """Return the load of rows; ``any_order`` where they have no order of their own."""
    notes: list[str] = []
    whole = _with_amounts(rows, repair=repair, notes=notes)
    if any_order:
        whole.sort(key=lambda row: row.at_s)
    whole = _in_order(whole, is_count=is_count, repair=repair, notes=notes)
    if len(whole) < 2:
        raise InputError(f"{file} has {_times(len(whole), 'row')} of data; at least 2 are needed to know an interval.")
    times_s = [row.at_s - whole[0].at_s for row in whole]
    lengths_s = [after_s - before_s for before_s, after_s in pairwise(times_s)]
    lengths_s.append(lengths_s[-1])
    usual_s = median(lengths_s)
    if not fill_gaps:
        # The last of them may have stood before a gap itself.
        lengths_s[-1] = min(lengths_s[-1], usual_s)
    gaps_s = [length_s - usual_s for length_s in lengths_s[:-1] if length_s > GAP * usual_s]
    if gaps_s:
        went_on = "count is spread over it" if is_count else "rate goes on through it"
        what = f"the {went_on}" if fill_gaps else f"nothing arrives there ({FILL_HINT}: the {went_on})"
        notes.append(f"{_times(len(gaps_s), 'gap')}, the longest {format_duration(max(gaps_s))}: {what}")
    bounds_s, rates = [0.0], []
    for at_s, length_s, row in zip(times_s, lengths_s, whole, strict=True):
        lasts_s = length_s if fill_gaps or length_s <= GAP * usual_s else usual_s
        amount = row.amount or 0.0
        bounds_s.append(at_s + lasts_s)
        rates.append(amount / lasts_s if is_count else amount)
        if rates[-1] > MOST_PER_S:
            raise InputError(
                f"{row.place} has {row.amount_text} records in {lasts_s:g} s; at most {MOST_PER_S:g} in one "
                "are allowed."
            )
        if lasts_s < length_s:
            bounds_s.append(at_s + length_s)
            rates.append(0.0)
    return Steps(bounds_s, rates, described, notes=tuple(notes))


def _with_amounts(rows: Sequence[RecordedRow], *, repair: bool, notes: list[str]) -> list[RecordedRow]:
    known = [row for row in rows if row.amount is not None]
    missing = next((row for row in rows if row.amount is None), None)
    if missing is not None and not repair:
        raise InputError(
            f"{missing.place} has the amount {missing.amount_text!r}; a number that is not negative is needed. "
            f"With {HINT} a row without one is a gap."
        )
    if missing is not None:
        notes.append(f"{_times(len(rows) - len(known), 'row')} without an amount left out")
    return known


def _in_order(rows: Sequence[RecordedRow], *, is_count: bool, repair: bool, notes: list[str]) -> list[RecordedRow]:
    if not repair:
        for before, row in pairwise(rows):
            if row.at_s <= before.at_s:
                wrong = "the same timestamp as" if row.at_s == before.at_s else "an earlier timestamp than"
                raise InputError(
                    f"{row.place} has {wrong} the row before it ({row.timestamp}); rows must be sorted by time, "
                    f"one for each. {HINT} sorts them and puts those of one time together."
                )
        return list(rows)
    early = sum(row.at_s < before.at_s for before, row in pairwise(rows))
    if early:
        notes.append(f"{_times(early, 'row')} earlier than the one before, put in order")
    together: dict[float, list[RecordedRow]] = {}
    for row in sorted(rows, key=lambda row: row.at_s):
        together.setdefault(row.at_s, []).append(row)
    doubled = len(rows) - len(together)
    if doubled:
        what = "added up" if is_count else "averaged"
        notes.append(f"{_times(doubled, 'row')} of a time that was there already, {what}")
    return [_one_of(same, is_count=is_count) for same in together.values()]


def _one_of(rows: Sequence[RecordedRow], *, is_count: bool) -> RecordedRow:
    total = math.fsum(row.amount or 0.0 for row in rows)
    return RecordedRow(rows[0].place, rows[0].timestamp, rows[0].at_s, total if is_count else total / len(rows))


def _times(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"

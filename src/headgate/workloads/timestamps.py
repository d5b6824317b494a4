"""Timestamps of recorded loads: ISO 8601, seconds, or what a column of a data frame holds; with a zone or without."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from headgate.core.errors import InputError

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
        """How many were taken for the second of an hour that is there twice."""

    def seconds(self, place: str, value: object) -> float:
        """One timestamp; whatever is wrong with it is said with its place."""
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

"""Quantities with the units that people write: ``300``, ``300 records``, ``30 %``, ``5 s``, ``300 records/s``.

>>> parse_quantity("30 %").number, parse_quantity("1.5 m").number, parse_quantity(300).number
(0.3, 90.0, 300.0)
>>> str(parse_quantity("5 minutes"))
'5 m'
"""

from __future__ import annotations

import difflib
import math
import re
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

from headgate.core.errors import InputError
from headgate.core.metrics import Dimension


class Unit(StrEnum):
    PLAIN = ""
    """The metric's own unit."""
    RECORDS = "records"
    PERCENT = "%"
    MILLISECONDS = "ms"
    SECONDS = "s"
    MINUTES = "m"
    HOURS = "h"
    RECORDS_PER_S = "records/s"

    @property
    def dimension(self) -> Dimension:
        return _DIMENSIONS[self]


_DIMENSIONS = {
    Unit.PLAIN: Dimension.ANY,
    Unit.RECORDS: Dimension.RECORDS,
    Unit.PERCENT: Dimension.SHARE,
    Unit.MILLISECONDS: Dimension.TIME,
    Unit.SECONDS: Dimension.TIME,
    Unit.MINUTES: Dimension.TIME,
    Unit.HOURS: Dimension.TIME,
    Unit.RECORDS_PER_S: Dimension.RATE,
}
_WORDS = {unit.value: unit for unit in Unit} | {
    "record": Unit.RECORDS,
    "tuple": Unit.RECORDS,
    "tuples": Unit.RECORDS,
    "percent": Unit.PERCENT,
    "sec": Unit.SECONDS,
    "second": Unit.SECONDS,
    "seconds": Unit.SECONDS,
    "min": Unit.MINUTES,
    "minute": Unit.MINUTES,
    "minutes": Unit.MINUTES,
    "hour": Unit.HOURS,
    "hours": Unit.HOURS,
    "record/s": Unit.RECORDS_PER_S,
    "tuples/s": Unit.RECORDS_PER_S,
    "records per second": Unit.RECORDS_PER_S,
    "tuples per second": Unit.RECORDS_PER_S,
}
_SCALES = {
    Unit.MILLISECONDS: (1.0, 1000.0),
    Unit.MINUTES: (60.0, 1.0),
    Unit.HOURS: (3600.0, 1.0),
    Unit.PERCENT: (1.0, 100.0),
}
"""By what to multiply and to divide: dividing by 100 is exact where multiplying by 0.01 is not."""
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")
FORMS = "a number such as 300, or one with a unit: 300 records, 30 %, 5 s, 2 m or 300 records/s"


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number in the unit in which it was written."""

    value: float
    unit: Unit = Unit.PLAIN

    def __post_init__(self) -> None:
        if not math.isfinite(self.value):
            raise InputError(f"value {self.value} is not allowed; it must be finite.")

    @property
    def number(self) -> float:
        """In records, records/s, seconds or as a share."""
        times, over = _SCALES.get(self.unit, (1.0, 1.0))
        return self.value * times / over

    def __str__(self) -> str:
        return f"{plain_number(self.value)} {self.unit}".rstrip()


def parse_quantity(value: str | float) -> Quantity:
    """A quantity from a number or from text with a unit."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Quantity(float(value))
    text = " ".join(str(value).split())
    match = _NUMBER.match(text)
    if match is None:
        raise InputError(f"value {value!r} is not understood; expected {FORMS}.")
    word = text[match.end() :].strip()
    unit = _WORDS.get(word) or _WORDS.get(word.lower())
    if unit is None:
        close = difflib.get_close_matches(word.lower(), [word for word in _WORDS if word], n=1, cutoff=0.5)
        hint = f", did you mean {close[0]!r}?" if close else ";"
        raise InputError(f"unit {word!r} in {value!r} is not known{hint} expected {FORMS}.")
    return Quantity(float(match.group()), unit)


def records(count: float) -> Quantity:
    return Quantity(count, Unit.RECORDS)


def percent(share: float) -> Quantity:
    return Quantity(share, Unit.PERCENT)


def seconds(duration: float) -> Quantity:
    return Quantity(duration, Unit.SECONDS)


def minutes(duration: float) -> Quantity:
    return Quantity(duration, Unit.MINUTES)


def records_per_s(rate: float) -> Quantity:
    return Quantity(rate, Unit.RECORDS_PER_S)


def plain_number(value: float) -> str:
    """All digits of a number, without an exponent.

    >>> plain_number(300.0), plain_number(0.1), plain_number(1e-7)
    ('300', '0.1', '0.0000001')
    """
    return format(Decimal(repr(value)), "f").removesuffix(".0")


def written_duration(seconds: float) -> str:
    """A duration that reads back as exactly the same number of seconds.

    >>> written_duration(30.0), written_duration(300.0), written_duration(90.5), written_duration(7200.0)
    ('30s', '5m', '90.5s', '2h')
    """
    for unit, size in (("h", 3600), ("m", 60)):
        if seconds >= size and seconds % size == 0 and float(int(seconds / size)) * size == seconds:
            return f"{int(seconds / size)}{unit}"
    return f"{plain_number(seconds)}s"

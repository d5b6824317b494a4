"""Spark's ``rate`` source counts seconds in its offsets, not records: how many records it has given by a second.

A source that ramps up gives a little more with each second, by whole records, until it has reached its rate
(``RateStreamProvider.valueAtSecond`` in Spark's sources).

>>> records_by(10.0, {"rowsPerSecond": "10"}), records_by(10.0, {"rowspersecond": "10", "rampUpTime": "8s"})
(100.0, 56.0)
"""

from __future__ import annotations

from collections.abc import Mapping

from headgate.core.errors import InputError
from headgate.core.units import parse_duration_s


def records_by(second: float, options: Mapping[str, str]) -> float:
    """Records that the source has given by an offset of so many seconds."""
    given = {key.lower(): value for key, value in options.items()}
    rate_per_s = _whole(given.get("rowspersecond", "1"))
    ramp_s = _whole(given.get("rampuptime", "0"))
    ramped_s = min(second, ramp_s)
    return rate_per_s // (ramp_s + 1) * ramped_s * (ramped_s + 1) / 2 + (second - ramped_s) * rate_per_s


def _whole(text: str) -> int:
    # Spark has refused by now what it does not understand; what it does and we do not, such as 100us, is next to none.
    try:
        return int(parse_duration_s(text))
    except InputError:
        return 0

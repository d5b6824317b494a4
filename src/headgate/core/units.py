"""Durations, shares and rates as people write them.

>>> parse_duration_s("90s"), parse_duration_s("1.5m"), parse_duration_s("2h"), parse_duration_s(15)
(90.0, 90.0, 7200.0, 15.0)
>>> format_duration(5400)
'1h 30m'
"""

from __future__ import annotations

import math
import re

from headgate.core.errors import InputError

_SECONDS_PER_UNIT = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?|\.\d+)\s*([a-zµ]*)\s*", re.IGNORECASE)


def parse_duration_s(value: str | float) -> float:
    """Seconds from ``90s``, ``5m``, ``2h``, ``250ms``, ``1d`` or a plain number of seconds; never negative."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(value)
    else:
        match = _DURATION.fullmatch(value) if isinstance(value, str) else None
        unit = match.group(2).lower() if match else ""
        if match is None or (unit and unit not in _SECONDS_PER_UNIT):
            raise InputError(f"duration {value!r} is not understood; write for example 90s, 5m, 2h, 250ms or 1d.")
        seconds = float(match.group(1)) * (_SECONDS_PER_UNIT[unit] if unit else 1.0)
    if not math.isfinite(seconds) or seconds < 0:
        raise InputError(f"duration {value!r} is not allowed; it must be finite and not negative.")
    return seconds


def format_duration(seconds: float) -> str:
    """The shortest readable form: ``350ms``, ``4.2s``, ``90s``, ``5m``, ``1h 30m``, ``2d 3h``."""
    if seconds < 0:
        return f"-{format_duration(-seconds)}"
    if seconds == 0:
        return "0s"
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 120:
        return f"{seconds:.1f}".rstrip("0").rstrip(".") + "s"
    whole = round(seconds)
    parts = []
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        count, whole = divmod(whole, size)
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2])


def parse_share(value: str | float) -> float:
    """A share in [0, 1] from ``5%``, ``5 %`` or ``0.05``."""
    try:
        if isinstance(value, str) and value.strip().endswith("%"):
            share = float(value.strip()[:-1]) / 100
        else:
            share = float(value)
    except ValueError as error:
        raise InputError(f"share {value!r} is not understood; write for example 5% or 0.05.") from error
    if not 0 <= share <= 1:
        raise InputError(f"share {value!r} is not allowed; it must lie between 0 and 1 (0% and 100%).")
    return share

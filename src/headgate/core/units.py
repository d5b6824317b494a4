"""Durations, shares and numbers as people write them, for reading; and exactly, for what is to be read back.

>>> parse_duration_s("90s"), parse_duration_s("1.5m"), parse_duration_s("2h"), parse_duration_s(15)
(90.0, 90.0, 7200.0, 15.0)
>>> format_duration(5400), exact_duration(5400)
('1h 30m', '90m')
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Collection
from datetime import UTC, datetime
from decimal import Decimal

from headgate.core.errors import InputError, UnknownNameError

_DIRECTIONS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Characters that make text appear in another order than it has."""


def printable(text: str) -> str:
    r"""Return text without characters that a terminal would act on, or that cannot be encoded.

    >>> printable("plain"), printable("a\x1b[2Jb\ud800") == "a\ufffd[2Jb\ufffd"
    ('plain', True)
    """
    if text.isprintable():
        return text
    return "".join("\ufffd" if _is_control(character) else character for character in text)


def _is_control(character: str) -> bool:
    return character not in "\n\t" and (unicodedata.category(character) in ("Cc", "Cs") or character in _DIRECTIONS)


_SECONDS_PER_UNIT = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_LONGEST_D = 1_000_000
"""Far beyond what any job lives: more is a slip of the finger, and would never end."""
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
    if seconds > _LONGEST_D * _SECONDS_PER_UNIT["d"]:
        raise InputError(f"duration {value!r} is not allowed; it must be {_LONGEST_D:,}d at most.")
    return seconds


def parse_date_s(text: str) -> float:
    """Return the seconds since the Unix epoch of a date with or without a time of day; UTC without an offset.

    >>> parse_date_s("2026-11-20"), parse_date_s("2026-11-20 06:30+01:00")
    (1795132800.0, 1795152600.0)
    """
    try:
        date = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InputError(
            f"date {text!r} is not understood; write for example 2026-11-20 or 2026-11-20 06:30."
        ) from None
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()


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


LONG_LATENCY_S = 600.0
"""From here on seconds are hard to read."""


def format_latency(seconds: float) -> str:
    """A latency: in seconds, so that several can be compared, unless it is very long.

    >>> format_latency(6.042), format_latency(48175.0)
    ('6.04 s', '13h 22m')
    """
    return f"{plain(seconds)} s" if seconds < LONG_LATENCY_S else format_duration(seconds)


def format_elapsed(seconds: float) -> str:
    """A time since a start: past a day with its minutes, which tell entries apart.

    >>> format_elapsed(5400), format_elapsed(2 * 86400 + 3 * 3600 + 15 * 60), format_elapsed(86400)
    ('1h 30m', '2d 03:15', '1d 00:00')
    """
    if seconds < 86400:
        return format_duration(seconds)
    days, rest = divmod(round(seconds), 86400)
    return f"{days}d {rest // 3600:02}:{rest % 3600 // 60:02}"


def instances_in_words(count: int) -> str:
    """
    >>> [instances_in_words(count) for count in (0, 1, 2)]
    ['no instance', '1 instance', '2 instances']
    """
    return {0: "no instance", 1: "1 instance"}.get(count, f"{count} instances")


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


def exact_number(value: float) -> str:
    """A finite number in decimals, never with an exponent; it reads back as the same number.

    >>> exact_number(95.0), exact_number(99.99999), exact_number(1e-7)
    ('95', '99.99999', '0.0000001')
    """
    text = format(Decimal(repr(float(value))), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def exact_duration(seconds: float) -> str:
    """A duration that :func:`parse_duration_s` reads back as the same one, in the largest unit of whole numbers.

    >>> exact_duration(0.25), exact_duration(90), exact_duration(21600), exact_duration(10.04)
    ('250ms', '90s', '6h', '10.04s')
    """
    fitting = _SECONDS_PER_UNIT if seconds >= 120 else {"s": 1.0, "ms": 0.001}
    for unit, size in sorted(fitting.items(), key=lambda item: -item[1]):
        count = round(seconds / size)
        if count and count * size == seconds:
            return f"{count}{unit}"
    return f"{exact_number(seconds)}s"


def exact_share(share: float) -> str:
    """A share that :func:`parse_share` reads back as the same one, in percent where that can be.

    >>> exact_share(0.95), exact_share(0.001)
    ('95%', '0.1%')
    """
    percent = f"{exact_number(float(f'{100 * share:.15g}'))}%"
    return percent if parse_share(percent) == share else exact_number(share)


def plain(number: float) -> str:
    """Three significant digits, never with an exponent.

    >>> plain(1234.5), plain(88.14), plain(0.01234)
    ('1234', '88.1', '0.0123')
    """
    if abs(number) >= 1000:
        return f"{number:.0f}"
    return f"{float(f'{number:.3g}'):f}".rstrip("0").rstrip(".")


def key_texts(kind: str, spec: str, name: str, keys: Collection[str], example: str, rest: str) -> dict[str, str]:
    """The text given for each key; what has one key may leave it out.

    ``spec`` is the whole of it and ``rest`` what comes after its name.
    """
    if len(keys) == 1 and "=" not in rest:
        return dict.fromkeys(keys, rest)
    values: dict[str, str] = {}
    for part in rest.split(","):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not value:
            raise InputError(f"{kind} {spec!r} has {part!r}, which is not key=value; write for example {example}.")
        if key not in keys:
            raise UnknownNameError(f"key of {kind} {name}", key, keys)
        if key in values:
            raise InputError(f"{kind} {spec!r} gives {key} twice; once is allowed.")
        values[key] = value
    return values

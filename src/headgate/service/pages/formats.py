"""Values in words, the same on all pages."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from markupsafe import Markup

from headgate.core.types import Instances, Instant
from headgate.core.units import format_duration, plain

UNKNOWN = "–"


@dataclass(frozen=True, slots=True)
class Tile:
    """A figure with a remark."""

    name: str
    value: str
    more: str = ""
    unit: str = ""
    kind: str = ""
    meter: Markup | None = None


@dataclass(frozen=True, slots=True)
class Link:
    text: str
    href: str
    is_this: bool = False


def rate(per_s: float | None) -> str:
    """
    >>> rate(31.25), rate(None)
    ('31.2/s', '–')
    """
    return UNKNOWN if per_s is None else f"{plain(per_s)}/s"


def count(number: float | None) -> str:
    return UNKNOWN if number is None else f"{number:,.0f}"


def latency(seconds: float | None) -> str:
    """Return a latency, to a tenth of a second.

    >>> latency(0.4321), latency(12.345), latency(None)
    ('432ms', '12.3s', '–')
    """
    if seconds is None:
        return UNKNOWN
    return format_duration(round(seconds, 1) if seconds >= 1 else seconds)


def sizes(instances: Instances | None) -> str:
    """
    >>> sizes(Instances(4, 4, 3)), sizes(Instances(3, 3, 3))
    ('3 of 4', '3')
    """
    if instances is None:
        return UNKNOWN
    return f"{instances.ready}" if not instances.pending else f"{instances.ready} of {instances.planned}"


def clock(at_s: Instant) -> str:
    """Return the time of day.

    >>> clock(1_700_000_000.0)
    '22:13:20'
    """
    return f"{datetime.fromtimestamp(at_s, UTC):%H:%M:%S}"


def moment(at_s: Instant) -> str:
    """
    >>> moment(1_700_000_000.0)
    '2023-11-14 22:13:20'
    """
    return f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%d %H:%M:%S}"


def iso(at_s: Instant) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat(timespec="milliseconds")

"""Service-level objectives as people write them.

>>> parse_slo("p99 latency < 500ms per hour by time")
LatencySlo(bound_s=0.5, percentile=99.0, period_s=3600.0, by=<By.TIME: 'time'>)
>>> str(parse_slo("throughput > 0.9 by records"))
'throughput >= 90% by records'
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

from headgate.core.errors import InputError, UnknownNameError
from headgate.core.slo import DAY_S, By, LatencySlo, Slo, SlowShareSlo, ThroughputSlo
from headgate.core.units import parse_duration_s, parse_share

FORMS = "'latency p95 < 10s', 'slow records < 5%' or 'throughput >= 95%'"

_WHOLE = re.compile(r"(?P<goal>.+?)(?:\s+per\s+(?P<per>.+?))?(?:\s+by\s+(?P<by>.+?))?")
_LATENCY = re.compile(
    r"(?:(?P<before>p\d+(?:\.\d+)?)\s+)?latency(?:\s+(?P<after>p\d+(?:\.\d+)?))?\s*<=?\s*(?P<bound>.+)"
)
_SLOW = re.compile(r"slow(?:\s+records)?\s*<=?\s*(?P<share>.+)")
_THROUGHPUT = re.compile(r"throughput\s*>=?\s*(?P<probability>.+)")
T = TypeVar("T")
_PERIODS = {"minute": "1m", "hour": "1h", "day": "1d", "week": "7d"}


def parse_slo(text: str, per: str | float | None = None, by: str | None = None) -> Slo:
    """A service-level objective from its friendly form; ``per`` and ``by`` may be said apart from it."""
    whole = _WHOLE.fullmatch(" ".join(text.lower().split()))
    if whole is None:
        raise InputError(f"objective {text!r} is not understood; write for example {FORMS}.")
    try:
        period_s = _once("per", whole["per"], per, parse_period_s)
        share_of = _once("by", whole["by"], by, _parse_by)
        slo = _slo(whole["goal"], DAY_S if period_s is None else period_s, share_of)
    except InputError as error:
        raise InputError(f"objective {text!r} is not usable: {error}") from error
    if slo is None:
        raise InputError(f"objective {text!r} is not understood; write for example {FORMS}.")
    return slo


def parse_period_s(value: str | float) -> float:
    """Seconds from ``6h``, ``day``, ``a day`` or a plain number of seconds."""
    if not isinstance(value, str):
        return parse_duration_s(value)
    word = value.strip().lower().removeprefix("a ").strip()
    return parse_duration_s(_PERIODS.get(word, word))


def _slo(goal: str, period_s: float, by: By | None) -> Slo | None:
    if match := _LATENCY.fullmatch(goal):
        if match["before"] and match["after"]:
            raise InputError(f"two percentiles are given, {match['before']} and {match['after']}; one is allowed.")
        percentile = match["before"] or match["after"] or "p95"
        bound_s = parse_duration_s(match["bound"])
        return LatencySlo(bound_s, float(percentile[1:]), period_s, by or By.RECORDS)
    if match := _SLOW.fullmatch(goal):
        if by is By.TIME:
            raise InputError("'by time' is not allowed for slow records; they are a share of records.")
        return SlowShareSlo(parse_share(match["share"]), period_s)
    if match := _THROUGHPUT.fullmatch(goal):
        return ThroughputSlo(parse_share(match["probability"]), period_s, by or By.TIME)
    return None


def _parse_by(value: str) -> By:
    try:
        return By(value.strip().lower())
    except (AttributeError, ValueError):
        raise UnknownNameError("way to count", str(value), map(str, By)) from None


def _once(name: str, inside: str | None, beside: Any, parse: Callable[[Any], T]) -> T | None:
    if inside is not None and beside is not None:
        raise InputError(f"{name!r} is said twice, as {inside!r} and {beside!r}; once is allowed.")
    said = inside if beside is None else beside
    return None if said is None else parse(said)

"""Service-level objectives: what share of the records, or of the time, has to be good, and over how long.

``latency p95 < 10s`` says that of the records of any day at most 5 % have their result later than after 10 s. Another
period is set by ``per``; ``by time`` counts the seconds in which a record was late instead of the late records.

Readings may be numbers of numpy; what is said of them is a plain ``bool`` or ``float``, as ``is`` and JSON need.

>>> str(LatencySlo(10.0, percentile=99.0, period_s=6 * 3600, by=By.TIME))
'latency p99 < 10s per 6h by time'
>>> LatencySlo(10.0).allowed_share, ThroughputSlo(0.99).allowed_share
(0.05, 0.01)
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias, TypeVar

from headgate.core.errors import InputError, UnknownNameError
from headgate.core.types import Sample
from headgate.core.units import exact_duration, exact_number, exact_share, parse_duration_s, parse_share

DAY_S = 86400.0
SHORTEST_PERIOD_S = 60.0
"""Over less than this a share says nothing."""


class By(StrEnum):
    """What a share is a share of."""

    RECORDS = "records"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class LatencySlo:
    """At least ``percentile`` percent of the records of a period have their result within the bound.

    A reading violates it when any record has waited longer: there it can still be helped.
    """

    bound_s: float
    percentile: float = 95.0
    period_s: float = DAY_S
    by: By = By.RECORDS
    """By time: of the period, the share in which no record that was not done was older than the bound."""

    def __post_init__(self) -> None:
        if not 0 < self.bound_s < math.inf:
            raise InputError(f"latency bound {self.bound_s} s is not allowed; it must be finite and above 0.")
        if not 0 < self.percentile <= 100:
            raise InputError(f"percentile {self.percentile} is not allowed; it must be above 0 and at most 100.")
        _check_period(self.period_s)

    @property
    def allowed_share(self) -> float:
        """The share that may be late."""
        return _share(100 - self.percentile) / 100

    def violated_by(self, sample: Sample) -> bool | None:
        latency_s = sample.worst_latency_s
        return None if latency_s is None else bool(latency_s >= self.bound_s)

    def pressure(self, sample: Sample) -> float | None:
        """How much of the objective is used up: 1 is the bound."""
        latency_s = sample.worst_latency_s
        return None if latency_s is None else float(latency_s / self.bound_s)

    def __str__(self) -> str:
        head = f"latency p{exact_number(self.percentile)} < {exact_duration(self.bound_s)}"
        return head + _tail(self.period_s, self.by, By.RECORDS)


@dataclass(frozen=True, slots=True)
class SlowShareSlo:
    """Of one second's records, at most this share is still waiting (backlog / input rate).

    Over a period, at most this share of all its records was slow in that sense.
    """

    share: float
    period_s: float = DAY_S

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise InputError(f"share of slow records {self.share} is not allowed; it must be above 0 and at most 1.")
        _check_period(self.period_s)

    @property
    def by(self) -> By:
        """Always by records: that is what it is a share of."""
        return By.RECORDS

    @property
    def allowed_share(self) -> float:
        """The share that may be slow."""
        return self.share

    def violated_by(self, sample: Sample) -> bool | None:
        pressure = self.pressure(sample)
        return None if pressure is None else bool(pressure >= 1)

    def pressure(self, sample: Sample) -> float | None:
        if sample.backlog is None or sample.input_rate_per_s is None:
            return None
        if sample.backlog <= 0:
            return 0.0
        # Records wait although none arrive: all of them are slow.
        slow_share = sample.backlog / sample.input_rate_per_s if sample.input_rate_per_s > 0 else float("inf")
        return float(slow_share / self.share)

    def __str__(self) -> str:
        return f"slow records < {exact_share(self.share)}" + _tail(self.period_s, self.by, By.RECORDS)


@dataclass(frozen=True, slots=True)
class ThroughputSlo:
    """With at least this probability, the job gets through what arrives: in at least this share of a period."""

    probability: float = 0.95
    period_s: float = DAY_S
    by: By = By.TIME
    """By records: of those of a period, the share that arrived while the job kept up."""

    def __post_init__(self) -> None:
        if not 0 < self.probability < 1:
            raise InputError(f"throughput target {self.probability} is not allowed; it must lie between 0 and 1.")
        _check_period(self.period_s)

    @property
    def allowed_share(self) -> float:
        """The share in which it may fall behind."""
        return _share(1 - self.probability)

    def violated_by(self, sample: Sample) -> bool | None:
        if sample.backlog is not None and sample.backlog <= 0:
            return False
        if sample.processed_rate_per_s is None or sample.input_rate_per_s is None:
            return None
        return bool(sample.processed_rate_per_s < sample.input_rate_per_s)

    def pressure(self, sample: Sample) -> float | None:
        if sample.processed_rate_per_s is None or sample.input_rate_per_s is None:
            return None
        if sample.processed_rate_per_s <= 0:
            return float("inf") if sample.input_rate_per_s > 0 else 0.0
        return float(sample.input_rate_per_s / sample.processed_rate_per_s)

    def __str__(self) -> str:
        return f"throughput >= {exact_share(self.probability)}" + _tail(self.period_s, self.by, By.TIME)


Slo: TypeAlias = LatencySlo | SlowShareSlo | ThroughputSlo


def _share(value: float) -> float:
    # 100 - 99.9 is not exactly 0.1 in binary, and people will see the difference.
    return round(value, 12)


def _check_period(period_s: float) -> None:
    if not SHORTEST_PERIOD_S <= period_s < math.inf:
        raise InputError(
            f"period {period_s:g} s is not allowed; an objective holds over at least "
            f"{exact_duration(SHORTEST_PERIOD_S)}, and not for ever."
        )


def _tail(period_s: float, by: By, usual: By) -> str:
    """What differs from what goes without saying."""
    per = "" if period_s == DAY_S else f" per {exact_duration(period_s)}"
    return per + ("" if by is usual else f" by {by}")


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


def _once(name: str, inside: str | None, separate: Any, parse: Callable[[Any], T]) -> T | None:
    if inside is not None and separate is not None:
        raise InputError(f"{name!r} is said twice, as {inside!r} and {separate!r}; once is allowed.")
    value = inside if separate is None else separate
    return None if value is None else parse(value)

"""The model of rules, all frozen: policy ⊃ rule ⊃ trigger, scale factor, scale limit, guard times (rouaux §4.2).

The fluent form, YAML and JSON all make these objects, which check themselves, so that all forms have the same errors.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import ClassVar, Self, TypeAlias

from headgate.core.errors import InputError, UnknownNameError
from headgate.core.metrics import BASIC_METRICS, METRICS, Aggregation, Dimension, metric_key
from headgate.rules.schedule import Schedule, time_zone
from headgate.rules.units import Quantity, Unit, parse_quantity, plain_number

ALL_OPERATORS = "*"
LONGEST_S = 30 * 86400.0
"""No time in a rule is longer than this: a month of readings has to be retained for it."""
MOST_INSTANCES = 1_000_000
_RELATIVE = re.compile(r"[xX×]\s*(\d+(?:\.\d+)?|\.\d+)")
_NAME_LENGTH = 200


class Direction(StrEnum):
    OUT = "scale_out"
    IN = "scale_in"


class Comparison(StrEnum):
    ABOVE = "above"
    BELOW = "below"


@dataclass(frozen=True, slots=True)
class _Size:
    """A number of instances, or a multiple of a size."""

    amount: float
    relative: bool = False
    what: ClassVar[str]
    example: ClassVar[str]
    smallest_multiple: ClassVar[float]
    multiples: ClassVar[str]
    """Which multiples are allowed, for messages."""

    def __post_init__(self) -> None:
        if self.relative and not self.smallest_multiple < self.amount <= MOST_INSTANCES:
            raise InputError(f"{self.what} {self} is not allowed; {self.multiples}.")
        if not self.relative and not (self.amount >= 1 and float(self.amount).is_integer()):
            raise InputError(f"{self.what} {self} is not allowed; a number of instances must be whole and at least 1.")

    @classmethod
    def parse(cls, value: object) -> Self:
        """
        >>> ScaleFactor.parse(2), ScaleFactor.parse("x2")
        (ScaleFactor(amount=2.0, relative=False), ScaleFactor(amount=2.0, relative=True))
        """
        text = value.strip() if isinstance(value, str) else ""
        if match := _RELATIVE.fullmatch(text):
            amount, relative = float(match.group(1)), True
        elif re.fullmatch(r"\+?\d+", text) or (isinstance(value, int) and not isinstance(value, bool)):
            amount, relative = float(text or value), False  # type: ignore[arg-type]  # a number, if there is no text
        else:
            raise InputError(
                f"{cls.what} {value!r} is not understood; expected a whole number of instances such as {cls.example}, "
                "or a multiple such as x2."
            )
        if not amount <= MOST_INSTANCES:
            raise InputError(f"{cls.what} {value!r} is not allowed; at most {MOST_INSTANCES} is.")
        return cls(amount, relative)

    def __str__(self) -> str:
        return f"x{plain_number(self.amount)}" if self.relative else plain_number(self.amount)


class ScaleFactor(_Size):
    """How far an action goes: by so many instances, or to a multiple or a fraction of the current size."""

    __slots__ = ()
    what = "factor"
    example = "2"
    smallest_multiple = 1.0
    multiples = "a multiple must be above 1 (x2 doubles, or halves)"

    def applied(self, current: int, direction: Direction) -> int:
        """Return the size wanted in place of the current one; always a change, rounded to the larger size.

        >>> ScaleFactor(2, relative=True).applied(5, Direction.IN), ScaleFactor(2).applied(5, Direction.OUT)
        (3, 7)
        """
        if direction is Direction.OUT:
            wanted = math.ceil(current * self.amount) if self.relative else current + int(self.amount)
            return max(wanted, current + 1)
        wanted = math.ceil(current / self.amount) if self.relative else current - int(self.amount)
        return min(wanted, current - 1)


class ScaleLimit(_Size):
    """How far a rule may go altogether: to so many instances, or to a multiple of the original size."""

    __slots__ = ()
    what = "limit"
    example = "8"
    smallest_multiple = 0.0
    multiples = "a multiple of the original size must be above 0"

    def instances(self, original: int, direction: Direction) -> int:
        """Return the limit in instances, rounded so that it is never exceeded.

        >>> ScaleLimit(4, relative=True).instances(2, Direction.OUT)
        8
        """
        if not self.relative:
            return int(self.amount)
        exact = round(self.amount * original, 9)
        return max(1, math.floor(exact) if direction is Direction.OUT else math.ceil(exact))


class ReadingsKind(StrEnum):
    ALL = "all readings"
    AVERAGE = "average"
    MEDIAN = "median"
    SHARE = "share of readings"


@dataclass(frozen=True, slots=True)
class Readings:
    """Which of the readings of a period must be beyond the threshold."""

    kind: ReadingsKind = ReadingsKind.ALL
    percent: float = 100.0
    """Of a share: how many of the readings, in percent."""

    def __post_init__(self) -> None:
        if not 0 < self.percent <= 100:
            raise InputError(
                f"{plain_number(self.percent)} % of readings is not allowed; it must be above 0 and at most 100."
            )
        if self.kind is not ReadingsKind.SHARE and self.percent != 100:
            raise InputError(f"a percentage goes with a share of readings, not with {self.kind}.")

    @classmethod
    def parse(cls, value: object) -> Readings:
        """
        >>> Readings.parse("90 % of readings").percent
        90.0
        """
        text = " ".join(value.lower().split()) if isinstance(value, str) else ""
        for kind in (ReadingsKind.ALL, ReadingsKind.AVERAGE, ReadingsKind.MEDIAN):
            if text in (kind.value, kind.value.removesuffix(" readings")):
                return cls(kind)
        if match := re.fullmatch(r"(\d+(?:\.\d+)?) ?(?:%|percent) of (?:the )?readings", text):
            return cls(ReadingsKind.SHARE, float(match.group(1)))
        raise InputError(
            f"readings {value!r} are not understood; expected 'all readings', 'average', 'median' "
            "or a share such as '90 % of readings'."
        )

    def __str__(self) -> str:
        return f"{plain_number(self.percent)} % of readings" if self.kind is ReadingsKind.SHARE else self.kind.value


ALL_READINGS = Readings()


@dataclass(frozen=True, slots=True)
class Trigger:
    """A condition: a metric beyond a value for at least a time."""

    metric: str
    """Its full name; a trigger may be made with the short one."""
    comparison: Comparison
    threshold: Quantity
    for_at_least_s: float
    readings: Readings = ALL_READINGS
    over_instances: Aggregation = Aggregation.MEAN
    """How the readings of several instances become one, for metrics that each instance has."""

    def __post_init__(self) -> None:
        require_name("metric", self.metric)
        _require_time("for at least", self.for_at_least_s)
        _require_threshold(self.metric, self.comparison, self.threshold)
        known = METRICS.get(self.metric)
        if known is not None and not known.per_instance and self.over_instances is not Aggregation.MEAN:
            raise InputError(
                f"{self.over_instances} over instances is not possible for {self.metric}, "
                "which is measured for the operator as a whole."
            )

    @property
    def key(self) -> str:
        """The name under which samples carry the metric."""
        return metric_key(self.metric, self.over_instances)


def _require_time(what: str, seconds: float) -> None:
    if not 0 <= seconds <= LONGEST_S:
        raise InputError(f"{what} {seconds:g} s is not allowed; it must lie between 0 and 30 days.")


def _require_threshold(metric: str, comparison: Comparison, threshold: Quantity) -> None:
    known = METRICS.get(metric)
    if known is None:
        return
    given, needed = threshold.unit.dimension, known.dimension
    counts = needed is Dimension.COUNT and threshold.unit is Unit.PERCENT
    if Dimension.ANY not in (given, needed) and given is not needed and not counts:
        raise InputError(f"value {threshold} does not fit {metric}, which is counted in {_unit_words(needed)}.")
    number = threshold.number
    if number < 0 or (number == 0 and comparison is Comparison.BELOW):
        raise InputError(f"{metric} {comparison} {threshold} can never hold: {metric} is never negative.")
    if needed is Dimension.SHARE and (number > 1 or (number == 1 and comparison is Comparison.ABOVE)):
        meant = f" Did you mean {plain_number(threshold.value)} %?" if 1 < threshold.value <= 100 else ""
        raise InputError(
            f"{metric} {comparison} {threshold} is not useful: {metric} is a share from 0 to 1 (0 % to 100 %).{meant}"
        )


def _unit_words(dimension: Dimension) -> str:
    examples = {
        Dimension.RECORDS: "records, such as 300 or 300 records",
        Dimension.RATE: "records/s, such as 300 records/s",
        Dimension.TIME: "time, such as 5 s or 2 m",
        Dimension.SHARE: "a share, such as 0.3 or 30 %",
        Dimension.COUNT: "a plain number, such as 2",
        Dimension.ANY: "any unit",
    }
    return examples[dimension]


class FiresOn(StrEnum):
    """When a rule fires whose conditions are met."""

    LEVEL = "level"
    EDGE = "edge"


@dataclass(frozen=True, slots=True)
class Rule:
    """When all triggers hold, scale one operator, or each of them, in one direction."""

    name: str
    operator: str
    direction: Direction
    factor: ScaleFactor
    triggers: tuple[Trigger, ...]
    limit: ScaleLimit | None = None
    no_scale_out_since_s: float = 0.0
    no_scale_in_since_s: float = 0.0
    fires_on: FiresOn = FiresOn.LEVEL
    """``level``: as long as the conditions are met; ``edge``: once, until they have not been met (rouaux Alg. 4.2)."""

    def __post_init__(self) -> None:
        require_name("rule name", self.name)
        require_name("operator", self.operator)
        if not self.triggers:
            raise InputError(f"rule {self.name!r} has no condition; at least one is needed under 'when'.")
        if self.limit is None and self.direction is Direction.OUT:
            raise InputError(f"rule {self.name!r} scales out without an end; say how far with never_above, such as 8.")
        _require_time("with no scale-out since", self.no_scale_out_since_s)
        _require_time("with no scale-in since", self.no_scale_in_since_s)

    @property
    def longest_s(self) -> float:
        """The longest time threshold: readings older than this do not matter to the rule."""
        return max(trigger.for_at_least_s for trigger in self.triggers)


class Forbidden(StrEnum):
    SCALE_IN = "scale in"
    ANY_SCALING = "any scaling"


@dataclass(frozen=True, slots=True)
class Constraint:
    """What holds for every policy, always or in periods: bounds of the size, or scaling that is forbidden."""

    name: str
    operator: str = ALL_OPERATORS
    at_least: int | None = None
    at_most: int | None = None
    forbid: Forbidden | None = None
    during: tuple[Schedule, ...] = ()
    """In any of these periods; always, where there are none."""
    time_zone: str = "UTC"

    def __post_init__(self) -> None:
        require_name("constraint name", self.name)
        require_name("operator", self.operator)
        time_zone(self.time_zone)
        if self.at_least is None and self.at_most is None and self.forbid is None:
            raise InputError(f"constraint {self.name!r} says nothing; expected at_least, at_most or forbid.")
        for what, bound in (("at_least", self.at_least), ("at_most", self.at_most)):
            if bound is not None and not 1 <= bound <= MOST_INSTANCES:
                raise InputError(f"{what} {bound} is not allowed; it must be at least 1.")
        if self.at_least is not None and self.at_most is not None and self.at_least > self.at_most:
            raise InputError(f"at_least {self.at_least} is above at_most {self.at_most}; no size is possible.")

    def applies_to(self, operator: str) -> bool:
        return self.operator in (ALL_OPERATORS, operator)

    def applies_at(self, at_s: float) -> bool:
        zone = time_zone(self.time_zone)
        return not self.during or any(schedule.covers(at_s, zone) for schedule in self.during)


@dataclass(frozen=True)
class RulePolicy:
    """Rules and constraints together; printing one gives its YAML."""

    rules: tuple[Rule, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    metrics: tuple[str, ...] = ()
    """Metrics of the user's own that rules may refer to."""

    def __post_init__(self) -> None:
        for metric in self.metrics:
            require_name("metric", metric)
        for rule in self.rules:
            for trigger in rule.triggers:
                metric_named(trigger.metric, self.metrics)
        named: list[Named] = [*self.rules, *self.constraints]
        twice = [
            key for key, count in Counter((type(part), part.name, part.operator) for part in named).items() if count > 1
        ]
        if twice:
            kind, name, operator = twice[0]
            raise InputError(
                f"{kind.__name__.lower()} {name!r} is there twice for operator {operator!r}; "
                "decisions name it, so its name must be its own."
            )

    @cached_property
    def longest_s(self) -> float:
        """The longest time threshold of all rules."""
        return max((rule.longest_s for rule in self.rules), default=0.0)

    @cached_property
    def subscriptions(self) -> frozenset[str]:
        """The metrics beyond the basic ones that rules refer to, as keys."""
        keys = {trigger.key for rule in self.rules for trigger in rule.triggers}
        return frozenset(keys - BASIC_METRICS)

    def __str__(self) -> str:
        from headgate.rules.document import to_yaml

        return to_yaml(self)


Named: TypeAlias = Rule | Constraint


def require_name(what: str, name: str) -> str:
    """The name, if it can be one: names are shown in one line of text, so they must fit one."""
    if not isinstance(name, str) or not name.strip():  # type: ignore[redundant-expr]
        raise InputError(f"{what} {name!r} is not allowed; expected text.")
    if len(name) > _NAME_LENGTH or not name.isprintable() or name != name.strip():
        shown = name if len(name) <= 40 else f"{name[:40]}…"
        raise InputError(
            f"{what} {shown!r} is not allowed; expected one line of at most {_NAME_LENGTH} printable characters "
            "without spaces at its ends."
        )
    return name


def make_trigger(
    metric: str,
    comparison: Comparison,
    threshold: Quantity | str | float,
    for_at_least_s: float,
    readings: Readings = ALL_READINGS,
    over_instances: Aggregation = Aggregation.MEAN,
    own_metrics: tuple[str, ...] = (),
) -> Trigger:
    """A trigger from what people write: short names of metrics, numbers with units."""
    quantity = threshold if isinstance(threshold, Quantity) else parse_quantity(threshold)
    return Trigger(metric_named(metric, own_metrics), comparison, quantity, for_at_least_s, readings, over_instances)


_ALIASES = {name.removesuffix("_per_s").removesuffix("_s"): name for name in METRICS if name.endswith("_s")}
"""``latency`` for ``latency_s``: where the value carries its unit, the name need not."""

_MEANT = {
    "queue_length": "backlog",
    "queue_size": "backlog",
    "queue": "backlog",
    "lag": "backlog",
    "consumer_lag": "backlog",
    "delay": "latency",
    "response_time": "latency",
    "cpu": "utilization",
    "cpu_utilization": "utilization",
    "cpu_utilisation": "utilization",
    "utilisation": "utilization",
    "load": "busy_share",
    "rate": "input_rate",
    "throughput": "processed_rate",
    "memory": "memory_share",
}
"""What other systems call the same thing."""


def metric_named(name: str, own_metrics: Collection[str] = ()) -> str:
    """The full name of a metric; ``own_metrics`` are the names of the user's own.

    >>> metric_named("latency"), metric_named("backlog"), metric_named("fraud", ["fraud"])
    ('latency_s', 'backlog', 'fraud')
    """
    full = _ALIASES.get(name, name)
    if name in own_metrics or full in METRICS:
        return name if name in own_metrics else full
    likely = _MEANT.get(name.strip().lower().replace("-", "_").replace(" ", "_"))
    known = {_short(metric) for metric in METRICS} | set(own_metrics)
    raise UnknownMetricError(name, known, likely)


def _short(name: str) -> str:
    return next((alias for alias, full in _ALIASES.items() if full == name), name)


class UnknownMetricError(UnknownNameError):
    """A metric that nobody knows, with what is known for the same thing elsewhere."""

    def __init__(self, name: str, known: Collection[str], likely: str | None) -> None:
        super().__init__("metric", name, known)
        hint = (
            ""
            if likely is None
            else f"unknown metric {name!r}, did you mean {likely!r}? Known: {', '.join(self.known)}."
        )
        self.args = (f"{hint or self.args[0]} A metric of your own is named under 'metrics' before rules refer to it.",)

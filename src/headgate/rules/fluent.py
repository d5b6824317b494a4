"""Rules in Python that read like English.

>>> overload = (
...     rule("queue too long").scale_out("enrich").by(2).never_above(8)
...     .when("backlog").above(300).for_at_least(seconds=30)
...     .with_no_scale_out_since(minutes=5)
... )
>>> print(policy(overload))
version: 1
rules:
  - name: queue too long
    scale_out: enrich
    by: 2
    never_above: 8
    when:
      - metric: backlog
        above: 300
        for_at_least: 30s
    with_no_scale_out_since: 5m
<BLANKLINE>

Every word is a stage of its own with only those methods that may follow it, so an editor completes nothing else and a
type checker refuses an unfinished rule; where neither is used, :func:`policy` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from headgate.core.errors import InputError, UnknownNameError
from headgate.core.metrics import Aggregation
from headgate.rules.model import (
    ALL_OPERATORS,
    Comparison,
    Constraint,
    Direction,
    FiresOn,
    Forbidden,
    Readings,
    ReadingsKind,
    Rule,
    RulePolicy,
    ScaleFactor,
    ScaleLimit,
    make_trigger,
)
from headgate.rules.schedule import Schedule
from headgate.rules.units import Quantity

__all__ = ["ALL_OPERATORS", "constraint", "policy", "rule"]

Value = Quantity | float | str
"""A number in the metric's own unit, or with a unit: ``"30 %"``, ``percent(30)``."""
Size = int | str
"""A number of instances, or a multiple: ``"x2"``."""


def rule(name: str) -> RuleStage:
    """Begin a rule; the name is what decisions call it."""
    return RuleStage(_Draft(name, f"rule({name!r})"))


def policy(
    *rules: FinishedRule | Rule, constraints: Iterable[ConstraintStage | Constraint] = (), metrics: Iterable[str] = ()
) -> RulePolicy:
    """A policy of finished rules; ``metrics`` are names of your own metrics that they refer to."""
    own = tuple(metrics)
    return RulePolicy(
        tuple(_finished(rule, own) for rule in rules),
        tuple(given.build() if isinstance(given, ConstraintStage) else given for given in constraints),
        own,
    )


def _finished(made: FinishedRule | Rule, metrics: tuple[str, ...]) -> Rule:
    given: object = made
    if isinstance(given, _Stage) and not isinstance(given, FinishedRule):
        raise InputError(f"{given.draft.text} is unfinished; {given.follows} must follow.")
    if not isinstance(given, FinishedRule | Rule):
        raise InputError(f"{given!r} is not a rule; expected a chain that begins with rule(name).")
    return made.build(metrics) if isinstance(made, FinishedRule) else made


@dataclass(frozen=True, slots=True)
class _Draft:
    """An unfinished rule: arguments of ``Rule`` and of its triggers; ``text`` is the Python that made it."""

    name: str
    text: str
    parts: Mapping[str, Any] = field(default_factory=dict)
    conditions: tuple[Mapping[str, Any], ...] = ()

    def then(self, word: str, **parts: Any) -> _Draft:
        return replace(self, text=f"{self.text}.{word}", parts={**self.parts, **parts})

    def begin_condition(self, word: str, metric: str) -> _Draft:
        return replace(self.then(word), conditions=(*self.conditions, {"metric": metric}))

    def condition(self, word: str, **parts: Any) -> _Draft:
        """Refine the newest condition."""
        *others, newest = self.conditions
        return replace(self.then(word), conditions=(*others, {**newest, **parts}))


@dataclass(frozen=True, slots=True)
class _Stage:
    draft: _Draft

    @property
    def follows(self) -> str:
        """The calls that may follow."""
        raise NotImplementedError


class RuleStage(_Stage):
    __slots__ = ()
    follows = "scale_out(operator) or scale_in(operator)"

    def scale_out(self, operator: str) -> ScaleOutStage:
        """Add instances to an operator; ``"*"`` is each of them."""
        return ScaleOutStage(self.draft.then(f"scale_out({operator!r})", operator=operator, direction=Direction.OUT))

    def scale_in(self, operator: str) -> ScaleInStage:
        """Remove instances from an operator; ``"*"`` is each of them."""
        return ScaleInStage(self.draft.then(f"scale_in({operator!r})", operator=operator, direction=Direction.IN))


class ScaleOutStage(_Stage):
    __slots__ = ()
    follows = "by(instances)"

    def by(self, factor: Size) -> ScaleOutLimitStage:
        """So many instances more, or ``"x2"`` for twice as many."""
        return ScaleOutLimitStage(self.draft.then(f"by({factor!r})", factor=ScaleFactor.parse(factor)))


class ScaleOutLimitStage(_Stage):
    __slots__ = ()
    follows = "never_above(instances)"

    def never_above(self, limit: Size) -> WhenStage:
        """The largest size to scale out to; ``"x4"`` is four times the original size."""
        return WhenStage(self.draft.then(f"never_above({limit!r})", limit=ScaleLimit.parse(limit)))


class ScaleInStage(_Stage):
    __slots__ = ()
    follows = "by(instances)"

    def by(self, factor: Size) -> ScaleInLimitStage:
        """So many instances fewer, or ``"x2"`` for half as many."""
        return ScaleInLimitStage(self.draft.then(f"by({factor!r})", factor=ScaleFactor.parse(factor)))


class WhenStage(_Stage):
    __slots__ = ()
    follows = "when(metric)"

    def when(self, metric: str) -> ComparisonStage:
        """The metric that decides, such as ``backlog`` or ``latency``."""
        return ComparisonStage(self.draft.begin_condition(f"when({metric!r})", metric))


class ScaleInLimitStage(WhenStage):
    __slots__ = ()
    follows = "never_below(instances) or when(metric)"

    def never_below(self, limit: Size) -> WhenStage:
        """The smallest size to scale in to; ``"x1"`` is the original size. Without it, 1."""
        return WhenStage(self.draft.then(f"never_below({limit!r})", limit=ScaleLimit.parse(limit)))


class ComparisonStage(_Stage):
    __slots__ = ()
    follows = "above(value) or below(value)"

    def above(self, value: Value) -> LastingStage:
        return LastingStage(self.draft.condition(f"above({value!r})", comparison=Comparison.ABOVE, threshold=value))

    def below(self, value: Value) -> LastingStage:
        return LastingStage(self.draft.condition(f"below({value!r})", comparison=Comparison.BELOW, threshold=value))


class LastingStage(_Stage):
    __slots__ = ()
    follows = "for_at_least(seconds=…)"

    def for_at_least(self, *, seconds: float = 0, minutes: float = 0, hours: float = 0) -> ConditionStage:
        """How long it must have been so; 0 seconds is a single reading."""
        duration_s = _seconds(seconds, minutes, hours)
        return ConditionStage(self.draft.condition(f"for_at_least({duration_s:g} s)", for_at_least_s=duration_s))


class FinishedRule(_Stage):
    """A rule that says all it must; more conditions and guard times may follow."""

    __slots__ = ()
    follows = "nothing"

    def and_when(self, metric: str) -> ComparisonStage:
        """Another condition, which must hold as well."""
        return ComparisonStage(self.draft.begin_condition(f"and_when({metric!r})", metric))

    def with_no_scale_out_since(self, *, seconds: float = 0, minutes: float = 0, hours: float = 0) -> FinishedRule:
        """Only if the operator was not scaled out for this long."""
        wait_s = _seconds(seconds, minutes, hours)
        return FinishedRule(self.draft.then(f"with_no_scale_out_since({wait_s:g} s)", no_scale_out_since_s=wait_s))

    def with_no_scale_in_since(self, *, seconds: float = 0, minutes: float = 0, hours: float = 0) -> FinishedRule:
        """Only if the operator was not scaled in for this long."""
        wait_s = _seconds(seconds, minutes, hours)
        return FinishedRule(self.draft.then(f"with_no_scale_in_since({wait_s:g} s)", no_scale_in_since_s=wait_s))

    def once_until_not_met(self) -> FinishedRule:
        """Fire once, and again only after the conditions have not been met (``trigger: edge``)."""
        return FinishedRule(self.draft.then("once_until_not_met()", fires_on=FiresOn.EDGE))

    def build(self, metrics: tuple[str, ...] = ()) -> Rule:
        """The rule itself; ``metrics`` are names of your own metrics."""
        triggers = tuple(make_trigger(**condition, own_metrics=metrics) for condition in self.draft.conditions)
        return Rule(self.draft.name, triggers=triggers, **self.draft.parts)


class ConditionStage(FinishedRule):
    """A finished rule whose newest condition may be refined."""

    __slots__ = ()

    def on_average(self) -> ConditionStage:
        """The average of the readings must be beyond the value, not all of them."""
        return ConditionStage(self.draft.condition("on_average()", readings=Readings(ReadingsKind.AVERAGE)))

    def at_median(self) -> ConditionStage:
        """The median of the readings must be beyond the value, not all of them."""
        return ConditionStage(self.draft.condition("at_median()", readings=Readings(ReadingsKind.MEDIAN)))

    def tolerating(self, *, percent: float) -> ConditionStage:
        """All readings but this share must be beyond the value."""
        readings = Readings(ReadingsKind.SHARE, 100 - percent)
        return ConditionStage(self.draft.condition(f"tolerating(percent={percent:g})", readings=readings))

    def over_instances(self, aggregation: Literal["mean", "max", "min", "p95"]) -> ConditionStage:
        """How the readings of several instances become one."""
        if aggregation not in list(Aggregation):
            raise UnknownNameError("aggregation", str(aggregation), [known.value for known in Aggregation])
        over = Aggregation(aggregation)
        return ConditionStage(self.draft.condition(f"over_instances({aggregation!r})", over_instances=over))


def constraint(name: str) -> ConstraintStage:
    """Begin a constraint, which holds whatever the policy decides.

    >>> constraint("busy hours").of("enrich").at_least(4).during("* 8-17 * * mon-fri").build().at_least
    4
    """
    return ConstraintStage(name)


@dataclass(frozen=True, slots=True)
class ConstraintStage:
    """An unfinished constraint; it needs at least one of at_least, at_most and a forbid."""

    name: str
    parts: tuple[tuple[str, object], ...] = ()

    def _with(self, **parts: object) -> ConstraintStage:
        return ConstraintStage(self.name, (*self.parts, *parts.items()))

    def of(self, operator: str) -> ConstraintStage:
        """The operator it is about; each of them by default."""
        return self._with(operator=operator)

    def at_least(self, instances: int) -> ConstraintStage:
        return self._with(at_least=instances)

    def at_most(self, instances: int) -> ConstraintStage:
        return self._with(at_most=instances)

    def forbid_scale_in(self) -> ConstraintStage:
        return self._with(forbid=Forbidden.SCALE_IN)

    def forbid_any_scaling(self) -> ConstraintStage:
        return self._with(forbid=Forbidden.ANY_SCALING)

    def during(self, *periods: str, time_zone: str = "UTC") -> ConstraintStage:
        """In any of these periods, written as cron does: ``"* 8-17 * * mon-fri"``."""
        return self._with(during=tuple(Schedule(period) for period in periods), time_zone=time_zone)

    def build(self) -> Constraint:
        parts: dict[str, Any] = dict(self.parts)
        return Constraint(self.name, **parts)


def _seconds(seconds: float, minutes: float, hours: float) -> float:
    return float(seconds + 60 * minutes + 3600 * hours)
